"""Records an unmodified script: waits until it imports torch, then records every loader it iterates and every step.

Nothing is imported early. Apart from one event (the recorder was loaded), nothing is written until the first loader is
iterated or the first backward pass or step is made: a script's other Python children (compilers, package tools) leave
no streams.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from . import stream, writes


def arm(run: str, timing: str = "async") -> None:
    """Record this process into a run directory once it trains."""
    if not os.path.isdir(run):
        return
    stream.append_event(
        os.path.join(run, "events-inside.jsonl"),
        "entered",
        "the recorder was loaded into a Python process",
        pid=os.getpid(),
    )
    if os.environ.get(writes.VARIABLE):
        writes.install(run)
    waiting = {name: _patch_for(name, run, timing) for name in PATCHES}
    for name in list(waiting):
        if name in sys.modules:
            waiting.pop(name)(sys.modules[name])
    if waiting:
        finders: list[Any] = sys.meta_path
        finders.insert(0, _Waiter(waiting))


class _Waiter:
    """Comes first in the import system until the modules to be patched have been imported."""

    def __init__(self, waiting: dict[str, Callable[[Any], None]]) -> None:
        self._waiting = waiting
        self._finding = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._waiting or self._finding:
            return None
        from importlib.util import find_spec

        self._finding = True  # avoids recursion: the real finders are called from here
        try:
            spec = find_spec(name)
        finally:
            self._finding = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            # Not before: a module may be looked for without being imported (`importlib.util.find_spec("torch")`).
            patch = self._waiting.pop(name, None)
            try:
                if patch is not None:
                    patch(module)
            except Exception as error:
                sys.stderr.write("edgetrain: cannot record this process: %r\n" % (error,))

            finders: list[Any] = sys.meta_path
            if not self._waiting and self in finders:
                finders.remove(self)

        loader: Any = spec.loader
        loader.exec_module = exec_module
        return spec


def _loaders(module: Any, session_of: Any) -> None:
    from . import loaders, overrides

    overrides.install(module)
    loaders.install(module, session_of)


def _backward(module: Any, session_of: Any) -> None:
    from . import steps

    steps.watch_backward(module, session_of)


def _optimizers(module: Any, session_of: Any) -> None:
    from . import steps

    steps.watch_optimizers(module, session_of)


def _graphs(module: Any, session_of: Any) -> None:
    from . import steps

    steps.watch_graphs(module, session_of)


def _modules(module: Any, session_of: Any) -> None:
    from . import steps

    steps.watch_modules(module)


def _saving(module: Any, session_of: Any) -> None:
    writes.watch_torch_save(module)


def _writing(module: Any, session_of: Any) -> None:
    writes.watch_torch(module)


PATCHES = {
    "torch.utils.data.dataloader": _loaders,
    "torch.autograd": _backward,
    "torch.optim.optimizer": _optimizers,
    "torch.nn.modules.module": _modules,
    "torch.cuda.graphs": _graphs,
    "torch.serialization": _saving,
    "torch": _writing,
}


def _patch_for(name: str, run: str, timing: str) -> Callable[[Any], None]:
    def session_of() -> Any:
        from . import process, session

        def start() -> Any:
            return session.begin(run, timing, steps=True) if os.path.isdir(run) else None

        def after_fork(old: Any) -> Any:
            return session.begin(old.run, old.timing, steps=True)

        return process.current(after_fork, start)

    return lambda module: PATCHES[name](module, session_of)
