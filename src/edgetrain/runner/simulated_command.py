"""A user's command on a simulated board: the script really runs; its steps are stretched, its power is modelled.

Each step takes as much longer as the board's power mode is slower than its top mode, for the network that `--like`
names. The board draws what its model says for that network in that mode while the command runs. Everything recorded
is `simulated`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from edgetrain.device import AnnouncedLoad, Device, SimulatedDevice, announce_load, clear_load, live_name
from edgetrain.errors import UsageError
from edgetrain.schema import Experiment, PowerMode

DEFAULT_LIKE = "mobilenet_v3"
WORKERS = 4  # the published power figures were measured with 4 loader workers
STRETCH = "EDGETRAIN_STRETCH"  # read by the hook
STEP = "EDGETRAIN_STEP_S"  # likewise: how long a step takes at least


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """What a command does to a simulated board, and what the board does to the command."""

    device: SimulatedDevice
    sampled_device: str  # the same board on the real clock
    time_ratio: float  # of this mode to the top mode
    load: AnnouncedLoad
    minibatch_s: float  # what the board's model takes per minibatch in this mode

    @classmethod
    def of(
        cls, device_name: str, device: Device, experiment: Experiment, like: str | None, run: str | None = None
    ) -> SimulatedLoad | None:
        """Return the load of a command on this device; None where the device is real.

        `run` names the run whose own deviation in time and power is to be drawn; None: none.
        """
        if not isinstance(device, SimulatedDevice):
            return None
        space = device.modes()
        mode = experiment.power_mode or device.current_mode()
        if space is not None and experiment.power_mode is not None:
            space.check(experiment.power_mode)
        physics = device.world.physics(like or DEFAULT_LIKE)
        free = experiment.dvfs if experiment.power_mode is not None else not device.world.held
        step, top = physics.step(mode, free, run), physics.step(_top_mode(device))
        load = AnnouncedLoad(os.getpid(), step.power_w(WORKERS), 0.9, 1.0, 0.4)
        ratio = step.compute_s / top.compute_s
        return cls(device, live_name(device), ratio, load, step.interval_s(WORKERS))

    def environment(self) -> dict[str, str]:
        """Return the settings that tell the hook how much to stretch each step."""
        return {STRETCH: f"{self.time_ratio:.6f}"}

    @contextlib.contextmanager
    def announced(self) -> Iterator[None]:
        """Let the board draw the load's power while the command runs."""
        announce_load(self.device.world.root, self.load)
        try:
            yield
        finally:
            clear_load(self.device.world.root)


def check_like(like: str | None, device: Device, is_command: bool) -> None:
    """Refuse a network to imitate where nothing would imitate it, or that the board does not know."""
    if like is None:
        return
    if not is_command:
        raise UsageError("--like is for a command; a network on a simulated board has times and power of its own")
    if not isinstance(device, SimulatedDevice):
        raise UsageError(f"--like is for a simulated board (--device sim:orin-agx), and this is {device.spec.name}")
    device.world.physics(like)


def _top_mode(device: SimulatedDevice) -> PowerMode:
    space = device.modes()
    assert space is not None
    return PowerMode(
        max(space.cores), max(space.cpu_hz), max(space.gpu_hz, default=None), max(space.emc_hz, default=None)
    )
