"""Finds a Python that trains without the recorder, from outside: what it does is neither measured nor protected.

A launcher with the recorder may start one (`python -I train.py`, an environment of its own).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from edgetrain.inside import has_recorder, ignoring_option, is_python

TORCH = "/libtorch"  # in the memory map of a process that has imported torch


def unhooked_trainer(pids: Iterable[int], entered: Collection[int], root: Path = Path("/")) -> str | None:
    """Return a description of the first process that has torch and not the recorder; `entered` are known to have it."""
    for pid in pids:
        folder = root / "proc" / str(pid)
        try:
            if pid in entered or not is_python(os.readlink(folder / "exe")):
                continue
            words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")]
            option = ignoring_option(words)
            if option is None and _may_have_recorder((folder / "environ").read_bytes()):
                continue
            if TORCH not in (folder / "maps").read_text(errors="replace"):
                continue
        except OSError:  # it has ended, or belongs to another user
            continue
        why = "without edgetrain's PYTHONPATH" if option is None else f"with {option}"
        return f"process {pid} ({' '.join(filter(None, words))[:80]}) was started {why}"
    return None


def _may_have_recorder(environment: bytes) -> bool:
    """Whether a process was started so that it loads the recorder; also where its environment was overwritten."""
    variables = [each.partition(b"=") for each in environment.split(b"\0") if b"=" in each]
    if environment and not variables:
        return True  # a process that names itself (setproctitle) writes over its environment
    path = next((value for name, _, value in variables if name == b"PYTHONPATH"), b"")
    return has_recorder(os.fsdecode(path))
