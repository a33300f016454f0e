"""Control groups of both versions behind one interface: make ours, write a limit, read usage, remove only ours.

Our groups are named `edgetrain-lab-ID` at the top of each hierarchy. Version 1 has one hierarchy per controller,
version 2 one for all, where a group with children takes no processes itself; so in both versions the training process
goes into `main`, and each loader worker into `workers` (memory) and a group of its own below it (CPU quota).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import LabError

PREFIX = "edgetrain-lab-"
CONTROLLERS = ("memory", "cpu", "cpuset", "blkio")
# 20 ms was the smoothest of the periods tried: with the default of 100 ms a worker stops for most of a minibatch.
PERIOD_US = 20_000
_REMOVE_TRIES = 50


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where each controller lives; version 2 has the same folder for all."""

    version: int
    roots: dict[str, Path]

    def has(self, controller: str) -> bool:
        """Return whether this controller is here and may be used."""
        root = self.roots.get(controller)
        return root is not None and os.access(root, os.W_OK)


def find(mountinfo: str | os.PathLike[str] = "/proc/self/mountinfo") -> Hierarchies:
    """Find the control groups of this machine."""
    roots: dict[str, Path] = {}
    unified: Path | None = None
    with open(mountinfo) as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split()[:3]
            where = Path(fields.split()[4])
            if kind == "cgroup2":
                unified = where
            elif kind == "cgroup":
                for controller in CONTROLLERS:
                    if controller in options.split(","):
                        roots[controller] = where
    if roots:
        return Hierarchies(1, roots)
    if unified is None:
        return Hierarchies(0, {})
    with contextlib.suppress(OSError):
        offered = (unified / "cgroup.controllers").read_text().split()
        names = {"io": "blkio", "memory": "memory", "cpu": "cpu", "cpuset": "cpuset"}
        return Hierarchies(2, {names[one]: unified for one in offered if one in names})
    return Hierarchies(2, {})


def _write(path: Path, value: str | int) -> None:
    try:
        path.write_text(f"{value}\n")
    except OSError as error:
        raise LabError(
            f"the kernel refused {value} for {path}: {error.strerror}; run as root, outside a container"
        ) from error


class Groups:
    """The control groups of one lab session."""

    def __init__(self, session: str, hierarchies: Hierarchies | None = None, suffix: str = "") -> None:
        self.hierarchies = hierarchies or find()
        self.name = PREFIX + session + suffix
        self._made: list[Path] = []

    @property
    def version(self) -> int:
        """Return 1, 2, or 0 where there are none."""
        return self.hierarchies.version

    def folder(self, controller: str, *below: str) -> Path:
        """Return (and make) a group; version 2 has one folder for all controllers."""
        root = self.hierarchies.roots.get(controller)
        if root is None:
            raise LabError(f"this kernel offers no '{controller}' control group here")
        path = root / self.name
        for part in ("", *below):
            path = path / part if part else path
            if not path.exists():
                try:
                    path.mkdir()
                except OSError as error:
                    raise LabError(f"cannot make the control group {path}: {error.strerror}; run as root") from error
                self._made.append(path)
                if self.version == 2:
                    self._enable(path.parent)
                elif controller == "cpuset":
                    # A cpuset takes no process before it has both.
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        _write(path / name, (path.parent / name).read_text().strip())
        return path

    @staticmethod
    def _enable(parent: Path) -> None:
        offered = set((parent / "cgroup.controllers").read_text().split())
        enabled = set((parent / "cgroup.subtree_control").read_text().split())
        for controller in ("memory", "cpu", "cpuset", "io"):
            if controller in offered and controller not in enabled:
                _write(parent / "cgroup.subtree_control", f"+{controller}")

    def hold_cores(self, cores: Iterable[int], *below: str) -> None:
        """Keep the group on these cores."""
        _write(self.folder("cpuset", *below) / "cpuset.cpus", ",".join(str(core) for core in cores))

    def hold_quota(self, cores_worth: float, *below: str) -> None:
        """Let the group use this many cores' worth of time."""
        quota_us = max(1000, round(cores_worth * PERIOD_US))
        folder = self.folder("cpu", *below)
        if self.version == 2:
            _write(folder / "cpu.max", f"{quota_us} {PERIOD_US}")
        else:
            _write(folder / "cpu.cfs_period_us", PERIOD_US)
            _write(folder / "cpu.cfs_quota_us", quota_us)

    def favour(self, *below: str) -> None:
        """Give the group priority over everything else on the machine: other load is not part of the board."""
        folder = self.folder("cpu", *below)
        name, most = ("cpu.weight", 10_000) if self.version == 2 else ("cpu.shares", 262_144)
        _write(folder / name, most)

    def hold_read_rate(self, device: str, bytes_per_s: float, *below: str) -> None:
        """Throttle the group's reads from a block device (`major:minor`)."""
        folder = self.folder("blkio", *below)
        if self.version == 2:
            _write(folder / "io.max", f"{device} rbps={int(bytes_per_s)}")
        else:
            _write(folder / "blkio.throttle.read_bps_device", f"{device} {int(bytes_per_s)}")

    def let_join(self, uid: int, gid: int) -> None:
        """Let a user's processes move between our groups; version 2 asks for the group above both as well."""
        for folder in self._made:
            try:
                os.chown(folder / "cgroup.procs", uid, gid)
            except OSError as error:
                raise LabError(f"cannot open {folder} to user {uid}: {error.strerror}") from error

    def procs_files(self, controllers: Iterable[str], *below: str) -> list[str]:
        """Return the files a process writes itself into to join."""
        files = [str(self.folder(controller, *below) / "cgroup.procs") for controller in controllers]
        return list(dict.fromkeys(files))


def leave_processes(folder: Path) -> None:
    """Move processes that are still in a group to the parent of that group: limits end, processes do not."""
    top = folder
    while not top.name.startswith(PREFIX) and top != top.parent:
        top = top.parent
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (top.parent / "cgroup.procs").write_text(pid)


def remove_groups(tops: Iterable[Path]) -> list[str]:
    """Remove groups with all below them, deepest first; return what stayed and why."""
    stayed = []
    for top in tops:
        if not top.name.startswith(PREFIX) or not top.is_dir():
            continue
        folders = [Path(folder) for folder, _, _ in os.walk(top, topdown=False)]
        for folder in folders:
            for attempt in range(_REMOVE_TRIES):
                leave_processes(folder)
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError as error:
                    # A process that is ending keeps its group busy for a moment.
                    if attempt == _REMOVE_TRIES - 1:
                        stayed.append(f"{folder}: {error.strerror}")
                    else:
                        time.sleep(0.02)
    return stayed


def session_of(group: Path) -> str:
    """Return the id of the session that a group belongs to."""
    return group.name.removeprefix(PREFIX).partition("-")[0]


def ours(session: str = "", hierarchies: Hierarchies | None = None) -> list[Path]:
    """Return the groups on this machine that carry our name and belong to sessions whose id has this prefix."""
    found: list[Path] = []
    for root in dict.fromkeys((hierarchies or find()).roots.values()):
        with contextlib.suppress(OSError):
            groups = (path for path in root.iterdir() if path.name.startswith(PREFIX) and path.is_dir())
            found += [path for path in groups if session_of(path).startswith(session)]
    return found
