"""Measures the time and power of one power mode on a simulated board, without a record."""

from __future__ import annotations

import math
import statistics

from edgetrain.device import (
    ModeRequest,
    SimulatedDevice,
    SimulatedTraining,
    TrainingPlan,
    open_simulated,
)
from edgetrain.errors import UsageError
from edgetrain.runner.modes import settle
from edgetrain.schema import ModeMeasurement, Origin, PowerMode
from edgetrain.units import NS_PER_S, US_PER_S

WARM_UP = 5  # minibatches before a mode's time and power are taken; the published tables drop as many


class SimulatedMeasure:
    """Measures one power mode of a network on a simulated board; implements `schema.Measure`.

    The mode is applied by the real control on the fake tree, power settles, `minibatches` clean ones are trained, and
    the rails are read as the sampler would. The board is as before after each call.
    """

    def __init__(
        self,
        device: SimulatedDevice | str,
        network: str,
        batch_size: int = 16,
        workers: int = 4,
        minibatches: int = 40,
        seed: int = 0,
    ) -> None:
        self.device = open_simulated(device.removeprefix("sim:")) if isinstance(device, str) else device
        self.minibatches, self._seed, self._calls = minibatches, seed, 0
        self._physics = self.device.world.physics(network, batch_size)
        self._plan = TrainingPlan(network, batch_size, workers, samples=10**9)

    def __call__(self, mode: PowerMode) -> ModeMeasurement:
        control = self.device.control()
        if control is None:
            raise UsageError(f"{self.device.spec.name} has no power modes that can be set")
        world = self.device.world
        began_ns = world.now_ns()
        with control.hold(ModeRequest(mode)):
            settled = settle(self.device, mode)
            times, powers = self.train()
        return ModeMeasurement(
            mode=mode,
            time_s=statistics.median(times),
            power_w=statistics.median(powers),
            origin=Origin.SIMULATED,
            time_mean_s=statistics.fmean(times),
            peak_power_w=max(powers),
            temp_c=settled.temp_c,
            cost_s=(world.now_ns() - began_ns) / NS_PER_S,
        )

    def train(self) -> tuple[list[float], list[float]]:
        """Train in the mode now in force; return seconds and watts of the steady minibatches."""
        world = self.device.world
        self._calls += 1
        world.catch_up()
        run = world.run_name(self._seed, self._calls)
        training = SimulatedTraining(
            self._plan, self._physics, world.mode(), world.timeline, world.now_ns(), run, dvfs=not world.held
        )
        training.cached = 1.0
        trained = training.epoch(0, WARM_UP + self.minibatches)
        dones = [(row["done_us"] or 0) for row in trained.minibatches]
        times = [
            (after - before) / US_PER_S for before, after in zip(dones[WARM_UP - 1 :], dones[WARM_UP:], strict=False)
        ]
        powers = self._powers(dones[WARM_UP - 1] * 1000, dones[-1] * 1000)
        world.sleep(max(0, trained.ended_ns - world.now_ns()) / NS_PER_S)
        return times, powers

    def _powers(self, from_ns: int, until_ns: int) -> list[float]:
        """Return the total power at each refresh of the sensor between two instants, at least one."""
        world, source = self.device.world, self.device.total_power()
        probe = next((each for each in self.device.probes() if each.name == "rails"), None)
        if source is None or probe is None:
            return [math.nan]
        columns = [list(probe.columns).index(name) for name in source.columns]
        world.sleep(max(0, from_ns - world.now_ns()) / NS_PER_S)
        found: list[float] = []
        # A window shorter than a refresh still has the reading that ends it.
        while not found or world.now_ns() < until_ns:
            world.sleep(probe.period_s)
            row = probe.read()
            found.append(sum(row[index] for index in columns))
        probe.close()
        return found
