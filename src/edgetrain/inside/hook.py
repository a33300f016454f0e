"""Enters an unmodified script: waits until it imports torch's loader, then records every loader it iterates.

Nothing is imported early, and but for one line that says we are in, nothing is written until the first loader is
iterated: a script's other Python children (compilers, package tools) leave no streams.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import stream

TARGET = "torch.utils.data.dataloader"


def arm(run: str, timing: str = "async") -> None:
    """Record this process into a run directory once it iterates a loader."""
    if not os.path.isdir(run):
        return
    stream.append_event(
        os.path.join(run, "events-inside.jsonl"), "entered", "a Python process was entered", pid=os.getpid()
    )
    if TARGET in sys.modules:
        _patch(sys.modules[TARGET], run, timing)
    else:
        finders: list[Any] = sys.meta_path
        finders.insert(0, _Waiter(run, timing))


class _Waiter:
    """Sits in front of the import system until the one module we wait for comes by."""

    def __init__(self, run: str, timing: str) -> None:
        self._run = run
        self._timing = timing
        self._busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != TARGET or self._busy:
            return None
        from importlib.util import find_spec

        self._busy = True  # the real finders are asked through the same door
        try:
            spec = find_spec(name)
        finally:
            self._busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                _patch(module, self._run, self._timing)
            except Exception as error:
                sys.stderr.write("edgetrain: cannot record this process: %r\n" % (error,))

        loader: Any = spec.loader
        loader.exec_module = exec_module
        finders: list[Any] = sys.meta_path
        if self in finders:
            finders.remove(self)
        return spec


def _patch(dataloader: Any, run: str, timing: str) -> None:
    from . import loaders, session

    def session_of() -> Any:
        import torch

        found = getattr(dataloader, session.NAME, None)
        if found is None:
            if torch.utils.data.get_worker_info() is not None or not os.path.isdir(run):
                return None
            found = session.begin(run, timing, steps=True)
        return session.live(dataloader)

    loaders.install(dataloader, session_of)
