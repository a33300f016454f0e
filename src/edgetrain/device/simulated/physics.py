"""Time and power of a training step on a simulated board, by formulas with published coefficients.

    roof  = ((a/f_gpu)^k + (b/f_emc)^k)^(1/k)            arithmetic against memory
    step  = (roof^q + (h/f_cpu)^q)^(1/q) + c             or the host that launches it
    fetch = l / (f_cpu · cores^s)                        one batch from four loader workers
    watts = base + p_e f_emc + p_c cores^m f_cpu^x + p_g f_gpu^y + joules per minibatch / seconds per minibatch

`coefficients.json` says where each number comes from (benchmarks/simulated_coefficients.py fits them). On top lies a
fixed residual of 4 % in time and 2 % in power, drawn per mode: real boards miss every smooth formula by about that, no
predictor can learn it from other modes, and so nobody can mistake success here for accuracy on a board.
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
MOST_SIGMA = 3.0
REFERENCE_BATCH = 16
REFERENCE_WORKERS = 4
# Of a batch's arithmetic, the share that does not shrink with it; SIGMETRICS 2023 on batch sizes 1 to 128: ResNet takes
# 35, 105 and 582 ms at 1, 16 and 128 samples.
FIXED_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Step:
    """What one minibatch needs in one power mode."""

    compute_s: float  # data in hand → done
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
        """Return how many batches are made at once by so many workers."""
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

    def __init__(self, board: str, network: str, batch_size: int = REFERENCE_BATCH, seed: int = 0) -> None:
        facts = coefficients()[board]
        if network not in facts["networks"]:
            raise UsageError(
                f"the simulated {board} does not know the network {network!r}; it knows {', '.join(facts['networks'])}"
            )
        entry = facts["networks"][network]
        self.source: str = entry["source"]
        self.minibatch_cv: float = facts["minibatch_cv"]
        self._time, self._power, self._idle = entry["time"], entry["power"], facts["idle_w"]
        self._key = f"{seed}|{board}|{network}|{batch_size}"
        self._load = FIXED_SHARE + (1 - FIXED_SHARE) * batch_size / REFERENCE_BATCH
        self._samples = batch_size / REFERENCE_BATCH

    def residual(self, mode: PowerMode) -> tuple[float, float]:
        """Return the factors on time and power that belong to this mode, always the same."""
        chance = random.Random(f"{self._key}|{mode.cores}|{mode.cpu_hz}|{mode.gpu_hz}|{mode.emc_hz}")
        draws = [max(-MOST_SIGMA, min(MOST_SIGMA, chance.gauss(0, 1))) for _ in range(2)]
        return math.exp(TIME_RESIDUAL * draws[0]), math.exp(POWER_RESIDUAL * draws[1])

    def step(self, mode: PowerMode) -> Step:
        """Return what a minibatch needs in a mode, residual included, noise apart."""
        t, p = self._time, self._power
        cpu, gpu, emc = mode.cpu_hz / 1e9, (mode.gpu_hz or 0) / 1e9 or 0.5, (mode.emc_hz or 0) / 1e9 or 1.0
        off_time, off_power = self.residual(mode)
        roof = self._load * _norm(t["gpu"] / gpu, t["emc"] / emc, t["roof_norm"])
        host = t["host"] / cpu
        compute = _norm(roof, host, t["host_norm"]) + t["fixed_s"]
        fetch = self._samples * t["loader"] / (cpu * mode.cores ** t["loader_cores"])
        # The smooth maximum over the loader is split so that compute and fetch overlap as the pipeline will show them.
        joined = _norm(compute, fetch, t["loader_norm"])
        compute = compute * joined / max(compute, fetch)
        fetch = fetch * joined / max(compute, fetch) if fetch > compute else fetch
        parallel = max(1.0, min(REFERENCE_WORKERS, mode.cores - 0.25))
        rail = p["base_w"] + p["emc_w"] * emc + p["cpu_w"] * mode.cores ** p["cores_power"] * cpu ** p["cpu_power"]
        rail += p["gpu_w"] * gpu ** p["gpu_power"]
        gpu_j = (p["gpu_j"] * gpu ** p["gpu_j_power"] + p["fixed_j"]) * self._load
        i0, i_emc, i_cpu = self._idle
        low = 0.204  # GHz: where free governors rest
        return Step(
            compute_s=compute * off_time,
            host_s=min(0.9 * compute, host) * off_time,
            fetch_s=fetch * parallel * off_time,
            parallel=parallel,
            static_w=rail * off_power,
            gpu_j=gpu_j * off_time * off_power,
            cpu_j=p["cpu_j"] * cpu ** p["cpu_power"] * self._samples * off_time * off_power,
            idle_w=i0 + i_emc * emc + i_cpu * cpu,
            rest_w=i0 + i_emc * min(low, emc) + i_cpu * min(low, cpu),
        )


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
