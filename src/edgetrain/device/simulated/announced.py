"""A load announced to a simulated board by another process: what it draws while a user's command runs on it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = ".sim/load.json"


@dataclass(frozen=True, slots=True)
class AnnouncedLoad:
    """Power and activity while process `pid` keeps the load up."""

    pid: int
    watts: float
    gpu_share: float
    busy_cores: float
    emc_share: float


def announce_load(root: Path, load: AnnouncedLoad) -> None:
    """Let the board in `root` carry a load until it is cleared or its process is gone."""
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(load)))
    os.replace(temporary, path)


def clear_load(root: Path) -> None:
    """End the announced load."""
    with contextlib.suppress(OSError):
        (root / FILE).unlink()


def read_load(root: Path) -> AnnouncedLoad | None:
    """Return the load announced now; None where there is none, or its process has ended."""
    try:
        load = AnnouncedLoad(**json.loads((root / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return load if Path(f"/proc/{load.pid}").exists() else None
