"""A unit that puts the board back at boot: nvpmodel's mode outlives a power cut, so a journal may wait for one."""

from __future__ import annotations

import contextlib
import os
import sys

from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused, NeedsRoot

UNIT = "edgetrain-restore.service"
FOLDER = "/etc/systemd/system"
COMMAND = "sudo edgetrain modes restore --at-boot"


def unit_text(python: str = sys.executable) -> str:
    """Return the unit; it runs once, after nvpmodel's own service has set the mode that outlived the power cut."""
    return (
        "[Unit]\n"
        "Description=Put the power mode back that edgetrain found before a run that was cut off\n"
        "After=nvpmodel.service\n\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={python} -m edgetrain modes restore\n\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def paths() -> tuple[str, str]:
    """Return the unit's file and the link that enables it."""
    return f"{FOLDER}/{UNIT}", f"{FOLDER}/multi-user.target.wants/{UNIT}"


def install(tree: Tree) -> None:
    """Write and enable the unit."""
    file, link = (tree.path(name) for name in paths())
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w") as text:
            text.write(unit_text())
        if not link.is_symlink():
            link.symlink_to(f"../{UNIT}")
    except PermissionError as error:
        raise NeedsRoot(f"only root may install {file}; run: {COMMAND}", command=COMMAND) from error
    except OSError as error:
        raise ControlRefused(f"cannot install {file}: {error.strerror}") from error


def remove(tree: Tree) -> bool:
    """Take the unit away; return whether there was one."""
    found = False
    for name in reversed(paths()):
        try:
            with contextlib.suppress(FileNotFoundError):
                tree.path(name).unlink()
                found = True
        except PermissionError as error:
            command = "sudo edgetrain modes restore --not-at-boot"
            raise NeedsRoot(f"only root may remove {tree.path(name)}; run: {command}", command=command) from error
    return found
