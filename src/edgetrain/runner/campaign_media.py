"""Checks that the folders a plan names really lie on the media it calls them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgetrain.device import StorageMedium, medium_of
from edgetrain.errors import UsageError

# What people call a medium, and what the kernel shows for it.
SAME = {
    "ssd": {"ssd", "nvme"},
    "nvme": {"ssd", "nvme"},
    "sd": {"sd"},
    "emmc": {"emmc"},
    "hdd": {"hdd"},
    "ram": {"ram"},
}
UNKNOWN = {None, "loop", "virtual", "network"}


def check_folders(folders: Mapping[str, str], find: Callable[[Path], StorageMedium] = medium_of) -> list[str]:
    """Return what is not known about the folders; refuse one that lies on another medium than it is called by."""
    notes = []
    for name, folder in folders.items():
        found = find(Path(folder))
        if name not in SAME:
            notes.append(
                f"{name}: {folder} lies on {found.medium or 'an unknown medium'}; the name is taken as you gave it"
            )
        elif found.medium in UNKNOWN:
            notes.append(f"{name}: whether {folder} lies on such a medium is not known ({found.medium or 'unknown'})")
        elif found.medium not in SAME[name]:
            raise UsageError(
                f"the plan calls {folder} '{name}', but it lies on {found.medium} ({found.device}, mounted at"
                f" {found.mount}); mount the medium there, or give the folder another name"
            )
    return notes
