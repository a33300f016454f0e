"""Opens simulated boards by name, and builds their folder at first use.

sim:orin-agx                      virtual time, folder in the user's state
sim:orin-agx+live                 time as it passes here
sim:orin-agx@/some/folder         its folder
sim:orin-agx?unit=3&seed=7        another unit of that board, another run of the noise
sim:orin-agx?unit=3&spread=5      units that differ by 5 % (standard deviation) in time and in power
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.device.base import SystemClock
from edgetrain.device.simulated.boards import SIMULATED
from edgetrain.device.simulated.build import SHAPE, build
from edgetrain.device.simulated.device import SimulatedDevice
from edgetrain.device.simulated.shapes import read_shape
from edgetrain.device.simulated.timeline import VirtualClock
from edgetrain.device.simulated.world import World
from edgetrain.errors import UsageError

HOME = "EDGETRAIN_SIM_HOME"
MOST = {"unit": 10_000.0, "spread": 50.0}  # per cent


@dataclass(frozen=True, slots=True)
class BoardName:
    """A simulated board as a user names it."""

    board: str
    live: bool = False
    folder: Path | None = None
    unit: int = 0
    seed: int = 0
    spread: float | None = None  # of units, standard deviation as a share; None: as published for the board

    @classmethod
    def parse(cls, text: str) -> BoardName:
        """Read `orin-agx+live@/folder?unit=3&seed=7`; UsageError where it cannot be read."""
        name, _, query = text.partition("?")
        name, _, folder = name.partition("@")
        board, _, pace = name.partition("+")
        if board not in SIMULATED:
            raise UsageError(f"there is no simulated board {board!r}; known: {', '.join(SIMULATED)}")
        if pace not in ("", "live"):
            raise UsageError(f"cannot read {text!r}: only +live may follow the name")
        options = _options(query, text)
        percent = options.get("spread")
        return cls(
            board,
            pace == "live",
            Path(folder) if folder else None,
            int(options.get("unit", 0)),
            int(options.get("seed", 0)),
            None if percent is None else percent / 100,
        )


def _options(query: str, text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(None, query.split("&")):
        match = re.fullmatch(r"(unit|seed)=(\d{1,9})|(spread)=(\d{1,3}(?:\.\d{1,6})?)", part)
        name, value = ("", 0.0) if match is None else (match[1] or match[3], float(match[2] or match[4]))
        if not name or value > MOST.get(name, value):
            raise UsageError(
                f"cannot read {part!r} in {text!r}; write for example sim:orin-agx?unit=3&seed=7 (spread=5 makes units "
                f"differ by 5 %, at most {MOST['spread']:g})"
            )
        found[name] = value
    return found


def live_name(device: SimulatedDevice) -> str:
    """Return the name under which another process opens the same board, with time as it passes here."""
    world = device.world
    spread = "" if world.spread is None else f"&spread={100 * world.spread:g}"
    return f"sim:{world.shape.name}+live@{world.root.absolute()}?unit={world.unit}&seed={world.seed}{spread}"


def open_root(
    root: Path,
    seed: int = 0,
    ambient_c: float = 25.0,
    real_time: bool = False,
    unit: int = 0,
    spread: float | None = None,
) -> SimulatedDevice:
    """Return the simulated board that lies in a folder."""
    shape = read_shape((root / SHAPE).read_text())
    clock = SystemClock() if real_time else VirtualClock()
    return SimulatedDevice(World(root, shape, clock, seed, ambient_c, unit, spread))


def open_simulated(
    name: str, root: Path | None = None, seed: int | None = None, ambient_c: float = 25.0, real_time: bool = False
) -> SimulatedDevice:
    """Return a simulated board by name: orin-agx, orin-nano, xavier-agx, xavier-nx or nano.

    Its folder is built at first use and kept, so that modes set in one command are there in the next.
    EDGETRAIN_SIM_HOME names where the folders lie; each unit of a board has one of its own.
    """
    asked = BoardName.parse(name)
    default = f"{asked.board}-unit{asked.unit}" if asked.unit else asked.board
    root = root or asked.folder or default_home() / default
    try:
        if not (root / SHAPE).exists():
            _build(asked.board, asked.unit, root)
    except OSError as error:
        raise UsageError(
            f"cannot build the simulated board in {root}: {error.strerror}; set {HOME} to a folder of yours"
        ) from error
    try:
        found = read_shape((root / SHAPE).read_text()).name
    except (ValueError, TypeError, KeyError, OSError) as error:
        if root != default_home() / default:
            raise UsageError(
                f"the simulated board in {root} was built by another version of edgetrain or is damaged; remove the "
                "folder and it is built again"
            ) from error
        # Our own folder, left by another version: nothing in it is the user's.
        shutil.rmtree(root)
        _build(asked.board, asked.unit, root)
        found = asked.board
    if found != asked.board:
        raise UsageError(f"{root} holds a simulated {found}, not {asked.board}")
    used = asked.seed if seed is None else seed
    return open_root(root, used, ambient_c, real_time or asked.live, asked.unit, asked.spread)


def _build(board: str, unit: int, root: Path) -> None:
    # Built beside and moved in one step: a process killed half-way leaves no half-built board.
    fresh = root.with_name(f".{root.name}.{os.getpid()}")
    shape = SIMULATED[board]()
    build(replace(shape, serial=str(int(shape.serial) + unit)), fresh, final=root)
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(fresh, root)
    except OSError:
        _move_into(fresh, root)


def default_home() -> Path:
    """Return where simulated boards live for this user."""
    named = os.environ.get(HOME)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "edgetrain" / "sim"


def _move_into(fresh: Path, root: Path) -> None:
    """Move a built board into a folder that is already there and empty."""
    names = list(fresh.iterdir())
    if root.is_dir() and any(root.iterdir()):
        raise UsageError(f"{root} holds something else; give the simulated board an empty folder")
    root.mkdir(parents=True, exist_ok=True)
    for entry in sorted(names, key=lambda entry: entry.name == ".sim"):
        entry.rename(root / entry.name)
    fresh.rmdir()
