"""The simulated board as a device: the same probes, modes and control as a real Jetson, over a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.identity import identify
from edgetrain.device.proc import CpuProbe
from edgetrain.device.simulated.build import SHAPE, build
from edgetrain.device.simulated.kernel import Kernel
from edgetrain.device.simulated.shapes import SIMULATED, read_shape
from edgetrain.device.simulated.world import VirtualClock, World
from edgetrain.device.tree import Register, Tree
from edgetrain.errors import DeviceError, UsageError

HOME = "EDGETRAIN_SIM_HOME"
CPU_S = 0.5  # virtual seconds are cheap, our own are not


class WorldRegister:
    """A dynamic file: what the world shows at this instant."""

    def __init__(self, show: Callable[[], str]) -> None:
        self._show = show

    def read(self) -> str:
        return self._show()

    def close(self) -> None:
        """Nothing is held open."""


class FaultyRegister:
    """A file that answers with an error, as a powered-down sensor does."""

    def __init__(self, code: int) -> None:
        self._code = code

    def read(self) -> str:
        raise OSError(self._code, os.strerror(self._code))

    def close(self) -> None:
        """Nothing is held open."""


class KernelTree(Tree):
    """A tree whose kernel is simulated: writes have their effects, planted faults show."""

    def __init__(
        self,
        root: Path,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        kernel: Kernel | None = None,
    ) -> None:
        super().__init__(root, now_ns, sleep)
        self.kernel = kernel or Kernel(root)

    def register(self, name: str) -> Register:
        errors = self.kernel.faults().get("read_errors", {})
        return FaultyRegister(int(errors[name])) if name in errors else super().register(name)

    def writable(self, name: str) -> bool:
        return name not in self.kernel.faults().get("closed", ()) and super().writable(name)

    def write(self, name: str, text: str) -> None:
        self.kernel.write(name, text)


class SimulatedTree(KernelTree):
    """The same with sensors that live."""

    def __init__(self, world: World) -> None:
        super().__init__(world.root, world.now_ns, world.sleep, world.kernel)
        self._world = world
        self._registers = world.registers()

    def register(self, name: str) -> Register:
        if name in self.kernel.faults().get("read_errors", {}):
            return super().register(name)
        if name in self._registers and self.exists(name):
            return WorldRegister(self._registers[name])
        return super().register(name)

    def number(self, name: str) -> int | None:
        if name in self._registers and self.exists(name):
            return int(self._registers[name]())
        return super().number(name)

    def write(self, name: str, text: str) -> None:
        self._world.changed()
        super().write(name, text)
        self._world.changed()


class SimulatedCpuProbe(CpuProbe):
    """Brings the files up to date before they are read."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.show_cpu()
        super().__init__(world.root, world.now_ns)
        self.period_s = CPU_S

    def read(self) -> list[float]:
        self._world.show_cpu()
        return super().read()


class SimulatedDevice(JetsonDevice):
    """A board that does not exist. Everything from it is `simulated`."""

    def __init__(self, world: World) -> None:
        tree = SimulatedTree(world)
        identity = identify(tree)
        if identity is None:
            raise DeviceError(f"the simulated board in {world.root} is damaged; remove the folder and try again")
        super().__init__(tree, identity, "simulated")
        self.world = world

    def builders(self) -> dict[str, Callable[[], Any]]:
        """Return how each probe is opened; load and clocks of the cores are brought up to date first."""
        return {**super().builders(), "cpu": lambda: SimulatedCpuProbe(self.world)}


def open_root(root: Path, seed: int = 0, ambient_c: float = 25.0, real_time: bool = False) -> SimulatedDevice:
    """Return the simulated board that lies in a folder."""
    shape = read_shape((root / SHAPE).read_text())
    if real_time:
        return SimulatedDevice(World(root, shape, seed, ambient_c, time.monotonic_ns, time.sleep))
    clock = VirtualClock()
    return SimulatedDevice(World(root, shape, seed, ambient_c, clock.now_ns, clock.sleep))


def open_simulated(
    name: str, root: Path | None = None, seed: int = 0, ambient_c: float = 25.0, real_time: bool = False
) -> SimulatedDevice:
    """Return a simulated board by name: orin-agx, orin-nano, xavier-agx, xavier-nx or nano.

    Its folder is built at first use and kept, so that modes set in one command are there in the next. A name may carry
    its folder, `orin-agx@/some/folder`, and its pace, `orin-agx+live` for time as it passes here. EDGETRAIN_SIM_HOME
    names where all of them lie.
    """
    name, _, place = name.partition("@")
    name, _, pace = name.partition("+")
    real_time = real_time or pace == "live"
    if name not in SIMULATED:
        raise UsageError(f"there is no simulated board {name!r}; there are {', '.join(SIMULATED)}")
    root = root or (Path(place) if place else default_home() / name)
    try:
        if not (root / SHAPE).exists():
            # Built beside and moved in one step: a process killed half-way leaves no half a board.
            fresh = root.with_name(f".{root.name}.{os.getpid()}")
            build(SIMULATED[name](), fresh, final=root)
            root.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(fresh, root)
            except OSError:
                _move_into(fresh, root)
    except OSError as error:
        raise UsageError(
            f"cannot build the simulated board in {root}: {error.strerror}; set {HOME} to a folder of yours"
        ) from error
    try:
        found = read_shape((root / SHAPE).read_text()).name
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise UsageError(
            f"the simulated board in {root} was built by another version of edgetrain or is damaged; remove the folder "
            "and it is built anew"
        ) from error
    if found != name:
        raise UsageError(f"{root} holds a simulated {found}, not {name}")
    return open_root(root, seed, ambient_c, real_time)


def default_home() -> Path:
    """Return where simulated boards live for this user."""
    named = os.environ.get(HOME)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "edgetrain" / "sim"


def _move_into(fresh: Path, root: Path) -> None:
    """Move a built board into a folder that is already there and empty."""
    names: Sequence[Path] = list(fresh.iterdir())
    if root.is_dir() and any(root.iterdir()):
        raise UsageError(f"{root} holds something else; give the simulated board an empty folder")
    root.mkdir(parents=True, exist_ok=True)
    for entry in sorted(names, key=lambda entry: entry.name == ".sim"):
        entry.rename(root / entry.name)
    fresh.rmdir()
