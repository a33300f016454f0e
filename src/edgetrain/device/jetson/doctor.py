"""What `doctor` says about a Jetson beyond its sensors: what can be set, who may set it, and what NVML shows there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetrain.device.privileged import PROGRAM
from edgetrain.device.sessions import INSTALL_COMMAND, SUDOERS, control_problem, may_elevate, sudoers_line
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import Finding

if TYPE_CHECKING:
    from edgetrain.device.jetson.board import JetsonDevice

_RUN_AS_ROOT = "sudo edgetrain run …"


def root_fix(area: str, reason: ProbeUnavailable) -> str | None:
    """Return the command that would open a sensor that only root may read."""
    if reason.root_only:
        return read_fix(reason.root_only)
    return _RUN_AS_ROOT if area == "memory clock" else None


def read_fix(files: Sequence[str]) -> str:
    """Return the command that lets every user read the monitors of these files: labels and settings too."""
    folders = dict.fromkeys(os.path.dirname(name) for name in files)
    return f"sudo chmod a+r {' '.join(f'{folder}/*' for folder in folders)}   # until the next boot; or: {_RUN_AS_ROOT}"


def control_findings(board: JetsonDevice) -> list[Finding]:
    """Return whether power modes can be set, and how a user without root can set them."""
    space = board.modes()
    if space is None:
        return [Finding("control", "power modes", False, "no clock that could be set was found")]
    paths = board.settings()
    closed = [name for name, path in paths.items() if not board.tree.writable(path)]
    detail = f"{len(space)} custom modes, {len(space.stock)} stock modes"
    found = [Finding("control", "power modes", not closed, detail, "sudo edgetrain modes set MODE" if closed else None)]
    if board.tree.base == "/":
        found.append(program_finding())
    found += [Finding("control", "nvpmodel", None, problem) for problem in space.problems]
    if board.identity.family == "orin":
        detail = "NVML starts on Orin and answers NotSupported to every query: load and clock are read from sysfs"
        found.append(Finding("gpu", "NVML", None, detail))
    return found


def program_finding(path: str = PROGRAM) -> Finding:
    """Return whether edgetrain-control is installed safely; the line for sudoers only where it is."""
    problem = control_problem(path)
    what = "setting modes without root (edgetrain-control)"
    if problem is not None:
        return Finding("control", what, False, problem, INSTALL_COMMAND)
    allowed = os.geteuid() != 0 and may_elevate()
    line = sudoers_line(os.environ.get("SUDO_USER"))
    fix = None if allowed else f"echo '{line}' | sudo tee {SUDOERS}"
    return Finding("control", what, True if allowed else None, "installed, and only root can change it", fix)
