"""Time and power of a training step on a simulated board, by formulas with published coefficients.

    roof  = ((a/f_gpu)^k + (b/f_emc)^k)^(1/k)            arithmetic against memory
    step  = (roof^q + (h/f_cpu)^q)^(1/q) + c             or the host that launches it
    fetch = l / (f_cpu · cores^s)                        one batch from four loader workers
    watts = base + p_e f_emc + p_c cores^m f_cpu^x + p_g f_gpu^y + joules per minibatch / seconds per minibatch

`coefficients.json` says where each number comes from (benchmarks/simulated_coefficients.py fits them). On top lies a
fixed residual of 4 % in time and 2 % in power, drawn per mode: real boards miss every smooth formula by about that, no
predictor can learn it from other modes, so success here is never mistaken for accuracy on a board.
"""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from edgetrain.errors import UsageError
from edgetrain.schema import PowerMode

TIME_RESIDUAL = 0.04
POWER_RESIDUAL = 0.02
MAX_SIGMA = 3.0
REFERENCE_BATCH = 16
REFERENCE_WORKERS = 4


@dataclass(frozen=True, slots=True)
class BatchScaling:
    """How a step's time grows with its batch: a part that does not grow against one in proportion, smoothly joined.

    Shares are of the time at 16 samples. Fitted to SIGMETRICS 2023, AGX Xavier, batch sizes 1 to 128: LeNet takes
    5.97 ms at 16 and 7.25 ms at 128, ResNet 35, 105 and 582 ms at 1, 16 and 128, MobileNet 89, 195 and 1382 ms.
    """

    fixed: float
    growing: float
    norm: float = 1.0

    def at(self, batch_size: int) -> float:
        """Return the time at a batch size over that at 16."""
        samples = batch_size / REFERENCE_BATCH

        def join(growing: float) -> float:
            return float((self.fixed**self.norm + growing**self.norm) ** (1 / self.norm))

        return join(self.growing * samples) / join(self.growing)


SCALINGS = {
    "lenet5": BatchScaling(0.9694, 0.0306),
    "resnet18_cifar_gn": BatchScaling(0.33, 0.67),
    "mobilenet_v3": BatchScaling(0.456, 0.886, 2.2),
}
OTHER_SCALING = BatchScaling(0.3, 0.7)
# Spread between units of a board and between runs of one unit, as standard deviations of time and power. SIGMETRICS
# 2023: medians of five units spread by 7.8 (Nano), 5.4 (Xavier NX) and 1 % (AGX Xavier) in time and 8.8, 5.5 and 5.9 %
# in energy; one unit over 15 h by at most 1, 5 and 1 %. Five draws span 2.3 deviations. Orin is taken as AGX Xavier.
UNIT_SPREAD = {"nano": (0.033, 0.015), "xavier-nx": (0.023, 0.01), "xavier-agx": (0.004, 0.025)}
RUN_SPREAD = {"nano": (0.003, 0.003), "xavier-nx": (0.012, 0.005), "xavier-agx": (0.003, 0.003)}
# Free governors: SIGMETRICS 2023, AGX Xavier, MAXN: LeNet (GPU busy 7 % of the time) takes 12 % longer and draws 16 %
# less, MobileNet (99 %) takes 0.8 % longer at the same power.
DVFS_SLOWER, DVFS_SLOWER_IDLE, DVFS_SAVES_IDLE = 0.008, 0.12, 0.21
GPU_BUSY = {
    "lenet5": 0.07,
    "resnet18_cifar_gn": 0.87,
    "mobilenet_v3": 0.99,
}  # share of the time; ResNet's from its slowdown
OTHER_GPU_BUSY = 0.9


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one minibatch needs in one power mode."""

    compute_s: float  # from the data being ready to the step being done
    host_s: float  # of that, until the host has launched it
    fetch_s: float  # one batch made by one worker on a core of its own
    parallel: float  # how many workers' worth of batches four workers really make
    static_w: float  # while training, whatever the step does
    gpu_j: float  # per minibatch, while computing
    cpu_j: float  # per minibatch, all along
    idle_w: float  # clocks held, nothing running
    rest_w: float  # idle with the governors free

    def interval_s(self, workers: int) -> float:
        """Return the mean time per minibatch with this many workers."""
        if workers == 0:
            return self.compute_s + self.fetch_s
        return max(self.compute_s, self.fetch_s / self.makers(workers))

    def makers(self, workers: int) -> float:
        """Return how many batches are made at once by this many workers."""
        return max(0.2, self.parallel * min(workers, 2 * REFERENCE_WORKERS) / REFERENCE_WORKERS)

    def power_w(self, workers: int) -> float:
        """Return the mean power while training."""
        return self.static_w + (self.gpu_j + self.cpu_j) / self.interval_s(workers)


@functools.lru_cache(maxsize=1)
def coefficients() -> Mapping[str, Any]:
    """Return the boards' coefficients as shipped."""
    text = resources.files(__package__).joinpath("coefficients.json").read_text(encoding="utf-8")
    boards: Mapping[str, Any] = json.loads(text)["boards"]
    return boards


class Physics:
    """One network on one board."""

    def __init__(
        self,
        board: str,
        network: str,
        batch_size: int = REFERENCE_BATCH,
        seed: int = 0,
        unit: int = 0,
        spread: float | None = None,
        smooth: bool = False,
    ) -> None:
        """Take the coefficients of a board and network; `smooth` leaves out the residual of each mode."""
        facts = coefficients()[board]
        if network not in facts["networks"]:
            raise UsageError(
                f"the simulated {board} does not know the network {network!r}; it knows {', '.join(facts['networks'])}"
            )
        entry = facts["networks"][network]
        self.source: str = entry["source"]
        self.idle_source: str = facts["idle_source"]
        self.minibatch_cv: float = facts["minibatch_cv"]
        self._time, self._power, self._idle = entry["time"], entry["power"], facts["idle_w"]
        self._key = f"{seed}|{board}|{network}|{batch_size}"
        self._board, self._network, self._smooth = board, network, smooth
        self._unit_time, self._unit_power = unit_factors(board, unit, spread)
        self._load = SCALINGS.get(network, OTHER_SCALING).at(batch_size)
        self._samples = batch_size / REFERENCE_BATCH

    def residual(self, mode: PowerMode) -> tuple[float, float]:
        """Return the factors on time and power that belong to this mode, always the same."""
        if self._smooth:
            return 1.0, 1.0
        chance = random.Random(f"{self._key}|{mode.cores}|{mode.cpu_hz}|{mode.gpu_hz}|{mode.emc_hz}")
        draws = [max(-MAX_SIGMA, min(MAX_SIGMA, chance.gauss(0, 1))) for _ in range(2)]
        return math.exp(TIME_RESIDUAL * draws[0]), math.exp(POWER_RESIDUAL * draws[1])

    def step(self, mode: PowerMode, dvfs: bool = False, run: str | None = None) -> StepCost:
        """Return what a minibatch needs in a mode, residual included, noise of single minibatches apart.

        `dvfs`: the governors are free. `run`: names the run whose own deviation is to be drawn; None: none.
        """
        t, p = self._time, self._power
        cpu, gpu, emc = mode.cpu_hz / 1e9, (mode.gpu_hz or 0) / 1e9 or 0.5, (mode.emc_hz or 0) / 1e9 or 1.0
        off_time, off_power = self._deviation(mode, run)
        roof = _norm(t["gpu"] / gpu, t["emc"] / emc, t["roof_norm"])
        host = t["host"] / cpu
        compute = _norm(roof, host, t["host_norm"]) + t["fixed_s"]
        compute *= self._load
        fetch = self._samples * t["loader"] / (cpu * mode.cores ** t["loader_cores"])
        # The smooth maximum over the loader is split so that compute and fetch overlap as the pipeline will show them.
        joined = _norm(compute, fetch, t["loader_norm"])
        compute = compute * joined / max(compute, fetch)
        fetch = fetch * joined / max(compute, fetch) if fetch > compute else fetch
        parallel = max(1.0, min(REFERENCE_WORKERS, mode.cores - 0.25))
        rail = p["base_w"] + p["emc_w"] * emc + p["cpu_w"] * mode.cores ** p["cores_power"] * cpu ** p["cpu_power"]
        rail += p["gpu_w"] * gpu ** p["gpu_power"]
        gpu_j = (p["gpu_j"] * gpu ** p["gpu_j_power"] + p["fixed_j"]) * self._load
        if dvfs:
            idle = 1 - GPU_BUSY.get(self._network, OTHER_GPU_BUSY)
            compute *= 1 + DVFS_SLOWER + DVFS_SLOWER_IDLE * idle
            rail *= 1 - DVFS_SAVES_IDLE * idle
        i0, i_emc, i_cpu = self._idle
        low = 0.204  # GHz: where free governors rest
        return StepCost(
            compute_s=compute * off_time,
            host_s=min(0.9 * compute, host * self._load) * off_time,
            fetch_s=fetch * parallel * off_time,
            parallel=parallel,
            static_w=rail * off_power,
            gpu_j=gpu_j * off_time * off_power,
            cpu_j=p["cpu_j"] * cpu ** p["cpu_power"] * self._samples * off_time * off_power,
            idle_w=(i0 + i_emc * emc + i_cpu * cpu) * self._unit_power,
            rest_w=(i0 + i_emc * min(low, emc) + i_cpu * min(low, cpu)) * self._unit_power,
        )

    def _deviation(self, mode: PowerMode, run: str | None) -> tuple[float, float]:
        """Return the factors on time and power: of this mode, this unit and this run."""
        off_time, off_power = self.residual(mode)
        run_time, run_power = (
            (1.0, 1.0) if run is None else _draw(RUN_SPREAD, self._board, f"run|{run}|{self._network}")
        )
        return off_time * self._unit_time * run_time, off_power * self._unit_power * run_power


@dataclass(frozen=True, slots=True)
class BoardSpread:
    """How units of a board differ and how runs of one unit do: standard deviations of the logarithm."""

    unit_time: float
    unit_power: float
    run_time: float
    run_power: float
    assumed: bool  # nothing is published about this board: the values are those of AGX Xavier


def spread_of(board: str) -> BoardSpread:
    """Return the spread of a board's units and runs."""
    unit = UNIT_SPREAD.get(board, UNIT_SPREAD["xavier-agx"])
    run = RUN_SPREAD.get(board, RUN_SPREAD["xavier-agx"])
    return BoardSpread(*unit, *run, assumed=board not in UNIT_SPREAD)


def networks_of(board: str) -> tuple[str, ...]:
    """Return the networks that are known on a simulated board; none where there is no such board."""
    return tuple(coefficients()[board]["networks"]) if board in coefficients() else ()


def simulated_boards() -> tuple[str, ...]:
    """Return the boards that have coefficients."""
    return tuple(coefficients())


def unit_factors(board: str, unit: int, spread: float | None = None) -> tuple[float, float]:
    """Return the factors on time and power of one unit of a board; unit 0 is the one that was published.

    `spread` is the standard deviation of both over units; None: as published for the board.
    """
    spreads = UNIT_SPREAD if spread is None else {board: (spread, spread)}
    return _draw(spreads, board, f"unit|{board}|{unit}") if unit else (1.0, 1.0)


def _draw(spreads: Mapping[str, tuple[float, float]], board: str, name: str) -> tuple[float, float]:
    time, power = spreads[board] if board in spreads else spreads["xavier-agx"]
    chance = random.Random(name)
    draws = [max(-MAX_SIGMA, min(MAX_SIGMA, chance.gauss(0, 1))) for _ in range(2)]
    return math.exp(time * draws[0]), math.exp(power * draws[1])


def idle_w(board: str, mode: PowerMode, dvfs: bool) -> float:
    """Return the power of an idle board in a mode, clocks held or governors free."""
    i0, i_emc, i_cpu = coefficients()[board]["idle_w"]
    emc, cpu = (mode.emc_hz or 0) / 1e9, mode.cpu_hz / 1e9
    if dvfs:
        emc, cpu = min(emc, 0.204), min(cpu, 0.204)
    return float(i0 + i_emc * emc + i_cpu * cpu)


def _norm(a: float, b: float, power: float) -> float:
    """Return the smooth maximum of two times."""
    top = max(a, b)
    return float(top * ((a / top) ** power + (b / top) ** power) ** (1 / power))
