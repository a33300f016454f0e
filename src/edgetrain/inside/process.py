"""One session per process: where it is kept, what happens to it in a forked child, and before `os._exit`."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

NAME = "_edgetrain_session"  # on the torch module: one session per process, however this package was imported
EXIT_NAME = "_edgetrain_before_exit"  # on our os._exit: what to call first


def keep(session: Any) -> None:
    """Make this the session of this process."""
    setattr(sys.modules["torch"], NAME, session)


def current(after_fork: Callable[[Any], Any] | None = None, start: Callable[[], Any] | None = None) -> Any:
    """Return the session of this process that has not ended; None where there is none.

    `after_fork` makes one for a process that was forked off a recorded one, `start` one where there was none before.
    Neither is called in a loader's worker.
    """
    session = getattr(sys.modules.get("torch"), NAME, None)
    if session is not None and session.pid == os.getpid():
        return None if session.ended else session
    if session is None and start is not None:
        return None if in_loader_worker() else start()
    if session is not None and after_fork is not None:
        return None if in_loader_worker() else after_fork(session)
    return None


def in_loader_worker() -> bool:
    """Return whether this process is a worker of a data loader."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def flush_before_exit(call: Callable[[], None]) -> None:
    """Have this called before `os._exit`, which runs no exit handlers."""
    found = getattr(os._exit, EXIT_NAME, None)
    if found is not None:
        found.append(call)
        return
    calls = [call]
    original = os._exit

    def _exit(status: int) -> Any:
        for each in list(calls):
            try:
                each()
            except Exception:
                pass
        return original(status)

    setattr(_exit, EXIT_NAME, calls)
    os._exit = _exit  # type: ignore[assignment]
