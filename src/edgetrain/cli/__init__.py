"""Parses arguments, calls one function of the API, passes the result to `report`; one file per command.

`commands.py` lists the commands. Only the standard library is imported here: everything else is loaded inside `main`,
so that Ctrl-C while it loads gives no traceback either.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 the thing asked about failed, 2 wrong usage, 128 + signal."""
    if argv is None:
        _keep_stderr_from_failing()
    try:
        from edgetrain.cli.app import run_command

        _use_store_of_sudo_user()
        status = run_command(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stopped:
        print(f"edgetrain: {stopped if str(stopped) else 'interrupted'}", file=sys.stderr)
        status = 128 + getattr(stopped, "signal", signal.SIGINT)
    if argv is None:
        sys.exit(status)
    return status


class Remarks(io.TextIOWrapper):
    """Standard error on which a write cannot fail: a full disk under our remarks must not end a training."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError):
            super().flush()


def _keep_stderr_from_failing() -> None:
    if isinstance(sys.stderr, io.TextIOWrapper):
        was = sys.stderr
        sys.stderr = Remarks(was.buffer, was.encoding, was.errors, line_buffering=True)


def _use_store_of_sudo_user() -> None:
    """Under sudo, work on the store of the user who called it."""
    if "SUDO_USER" not in os.environ:
        return
    from edgetrain.runner import sudo_user, use_store_of

    user = sudo_user()
    if user is not None:
        use_store_of(user)
