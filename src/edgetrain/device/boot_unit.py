"""A unit that restores the board at boot: nvpmodel's mode outlives a power cut, and so does the journal."""

from __future__ import annotations

import contextlib
import os

from edgetrain.device.privileged import PROGRAM
from edgetrain.device.sessions import INSTALL_COMMAND, control_problem
from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused, NeedsRoot

UNIT = "edgetrain-restore.service"
FOLDER = "/etc/systemd/system"
INSTALL_UNIT = "sudo edgetrain modes restore --at-boot"
REMOVE_UNIT = "sudo edgetrain modes restore --not-at-boot"
UNIT_FILE = f"{FOLDER}/{UNIT}"
UNIT_LINK = f"{FOLDER}/multi-user.target.wants/{UNIT}"
# It runs once, after nvpmodel's own service has set the mode that outlived the power cut. It starts edgetrain-control
# and nothing that lies in a user's folder.
UNIT_TEXT = f"""[Unit]
Description=Restore the power mode that edgetrain found before a run that was cut off
After=nvpmodel.service

[Service]
Type=oneshot
ExecStart={PROGRAM} restore

[Install]
WantedBy=multi-user.target
"""


def install_unit(tree: Tree) -> str:
    """Write and enable the unit; return its file."""
    problem = control_problem(tree.at(PROGRAM))
    if problem is not None:
        raise ControlRefused(f"the unit starts edgetrain-control, but {problem}; install it first: {INSTALL_COMMAND}")
    file, link = tree.path(UNIT_FILE), tree.path(UNIT_LINK)
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w") as text:
            text.write(UNIT_TEXT)
        if not link.is_symlink():
            link.symlink_to(f"../{UNIT}")
    except PermissionError as error:
        raise NeedsRoot(f"only root may install {file}; run: {INSTALL_UNIT}", command=INSTALL_UNIT) from error
    except OSError as error:
        raise ControlRefused(f"cannot install {file}: {error.strerror}") from error
    return UNIT_FILE


def remove_unit(tree: Tree) -> bool:
    """Remove the unit; return whether there was one."""
    found = False
    for name in (UNIT_LINK, UNIT_FILE):
        try:
            with contextlib.suppress(FileNotFoundError):
                tree.path(name).unlink()
                found = True
        except PermissionError as error:
            raise NeedsRoot(
                f"only root may remove {tree.path(name)}; run: {REMOVE_UNIT}", command=REMOVE_UNIT
            ) from error
    return found
