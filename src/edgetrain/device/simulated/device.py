"""The simulated board as a device: the same probes, modes and control as a real Jetson, over a folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from edgetrain.device.base import DeviceClock, Probe, SystemClock
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.identity import identify
from edgetrain.device.proc import CpuProbe
from edgetrain.device.simulated.kernel import SimulatedKernel
from edgetrain.device.simulated.world import World
from edgetrain.device.tree import Register, Tree
from edgetrain.errors import DeviceError

CPU_S = 0.5  # sampling interval: virtual seconds cost nothing, ours do


class ShownRegister:
    """A file whose content is computed at each reading."""

    def __init__(self, show: Callable[[], str]) -> None:
        self._show = show

    def read(self) -> str:
        """Return what it shows now."""
        return self._show()

    def close(self) -> None:
        """Nothing is held open."""


class FailingRegister:
    """A file that answers with an error, as a powered-down sensor does."""

    def __init__(self, code: int) -> None:
        self._code = code

    def read(self) -> str:
        """Raise the error."""
        raise OSError(self._code, os.strerror(self._code))

    def close(self) -> None:
        """Nothing is held open."""


class KernelTree(Tree):
    """A folder whose kernel is simulated: writes have their effects, and reads their errors."""

    def __init__(self, root: Path, clock: DeviceClock | None = None, kernel: SimulatedKernel | None = None) -> None:
        super().__init__(root, clock or SystemClock())
        self.kernel = kernel or SimulatedKernel(root)

    def read_bytes(self, name: str) -> bytes:
        """Return a file's content, or raise what the board's kernel would."""
        code = self.kernel.read_error(name)
        if code is not None:
            raise OSError(code, os.strerror(code), name)
        return self.kernel.lowered(name, super().read_bytes(name).decode("utf-8", "replace")).encode()

    def register(self, name: str) -> Register:
        """Open a file to be read often."""
        code = self.kernel.read_error(name)
        if code == errno.EBUSY:
            return ShownRegister(lambda: self.read_bytes(name).decode().strip())  # until its cores are online
        return FailingRegister(code) if code is not None else super().register(name)

    def writable(self, name: str) -> bool:
        """Return whether this user may write the file."""
        return name not in self.kernel.faults().get("closed", ()) and super().writable(name)

    def write(self, name: str, text: str) -> None:
        """Write a value with all its effects."""
        self.kernel.write(name, text)


class SimulatedTree(KernelTree):
    """The same with sensors that follow what the board does."""

    def __init__(self, world: World) -> None:
        super().__init__(world.root, world.clock, world.kernel)
        self._world = world
        self._registers = world.registers()

    def read_bytes(self, name: str) -> bytes:
        """Return a file's content as it is at this instant."""
        if name in self._registers and self.kernel.read_error(name) is None and self.exists(name):
            return self._registers[name]().encode()
        return super().read_bytes(name)

    def register(self, name: str) -> Register:
        """Open a file to be read often."""
        if name in self._registers and self.kernel.read_error(name) is None and self.exists(name):
            return ShownRegister(self._registers[name])
        return super().register(name)

    def write(self, name: str, text: str) -> None:
        """Write a value: what happened so far happened in the mode before."""
        self._world.changed()
        super().write(name, text)
        self._world.changed()


class SimulatedCpuProbe(CpuProbe):
    """Brings the files up to date before they are read."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.show_cpu()
        super().__init__(world.root, world.clock.now_ns)
        self.period_s = CPU_S

    def read(self) -> list[float]:
        """Return load and clocks."""
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

    def builders(self) -> dict[str, Callable[[], Probe]]:
        """Return how each probe is opened; load and clocks of the cores are brought up to date first."""
        return {**super().builders(), "cpu": lambda: SimulatedCpuProbe(self.world)}
