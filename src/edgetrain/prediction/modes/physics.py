"""The physical model of a power mode: log time and log power as smooth maxima and sums of terms in the clocks.

Time of a minibatch, clocks and cores relative to the board's largest (so that only ratios matter):

    accelerator = pnorm(a / gpu^x, b / (emc^y gpu^i))       a roofline: arithmetic against memory
    step        = pnorm(accelerator, h / cpu^z) + k         the host launches kernels; k is constant
    time        = pnorm(step, l / (cpu^w cores^g emc^j))    loading overlaps with the step; the slower one counts

Power is the mode's static part, plus the accelerator's while it is busy, plus energy per minibatch over time:

    power = p0 + p1 emc^e + p2 cores^n cpu^c + p3 gpu^s + p4 gpu^v accelerator / time
            + (eg gpu^d + e0 + ec cpu^c + em emc^e) / (time / time at the top)

The busy term is the power of a GPU that waits for memory: busy, but not computing. Every coefficient is the logarithm
of a term at the top mode, so scaling all times (or powers) shifts all of them by the same amount. Where minibatches of
several sizes are mixed, each term is split into a part that grows with the batch size and one that does not; the
accelerator's part grows a little slower than the batch, because larger batches use it better.

Both functions take an ensemble of coefficient vectors and return values and exact derivatives, so that a fit is a few
small array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.prediction.base import Array, ModeTable, largest

TIME_NAMES = (
    "gpu", "emc", "host", "constant", "loader",
    "sharp_roofline", "sharp_host", "sharp_loader",
    "gpu_exponent", "emc_exponent", "host_exponent", "loader_exponent", "cores_exponent",
    "emc_gpu_exponent", "loader_emc_exponent",
    "gpu_batch", "emc_batch", "host_batch", "constant_batch", "loader_batch", "batch_exponent",
)  # fmt: skip
TIME_TERMS = 5  # the first five are logarithms of times, which a common scale shifts
_TIME_BATCH = 15
POWER_NAMES = (
    "static", "static_emc", "static_cpu", "static_gpu", "busy_gpu",
    "energy_gpu", "energy_fixed", "energy_cpu", "energy_emc",
    "emc_exponent", "cores_exponent", "cpu_exponent",
    "gpu_static_exponent", "gpu_busy_exponent", "gpu_energy_exponent",
    "gpu_batch", "fixed_batch", "cpu_batch", "emc_batch",
)  # fmt: skip
POWER_TERMS = 9
WITH_TIME = slice(4, 9)  # the terms of power that decrease as a minibatch takes longer
_POWER_BATCH = 15


@dataclass(frozen=True, slots=True)
class ReferenceMode:
    """The values that clocks and cores are divided by: the largest of each in the tables; None: no such clock."""

    cores: float
    cpu_hz: float
    gpu_hz: float | None
    emc_hz: float | None
    batch_size: float = 1.0

    @staticmethod
    def of(*tables: ModeTable) -> ReferenceMode:
        """Return the largest of each over all the tables."""
        batches = [float(t.batch_size.max()) for t in tables if t.batch_size is not None]
        return ReferenceMode(
            max(float(table.cores.max()) for table in tables),
            max(float(table.cpu_hz.max()) for table in tables),
            largest(np.concatenate([table.gpu_hz for table in tables])),
            largest(np.concatenate([table.emc_hz for table in tables])),
            max(batches, default=1.0),
        )

    def table(self) -> ModeTable:
        """Return it as a table of one mode."""

        def one(value: float | None) -> Array:
            return np.array([np.nan if value is None else value])

        return ModeTable(one(self.cores), one(self.cpu_hz), one(self.gpu_hz), one(self.emc_hz), one(self.batch_size))


@dataclass(frozen=True, slots=True)
class Features:
    """Logarithms of a table's clocks and cores relative to the reference; batch sizes as plain ratios.

    A clock that is not known is taken to be at its reference (0): `check_clocks` makes sure that it never varies.
    """

    cores: Array
    cpu: Array
    gpu: Array
    emc: Array
    batch: Array

    @staticmethod
    def of(table: ModeTable, reference: ReferenceMode) -> Features:
        batch: Array = np.ones(len(table))
        if table.batch_size is not None:
            batch = table.batch_size / reference.batch_size
        return Features(
            np.log(table.cores / reference.cores),
            np.log(table.cpu_hz / reference.cpu_hz),
            _log_ratio(table.gpu_hz, reference.gpu_hz),
            _log_ratio(table.emc_hz, reference.emc_hz),
            batch,
        )

    def __len__(self) -> int:
        return len(self.cores)

    def matrix(self) -> Array:
        """Return one row per mode: the space in which distances between modes are measured."""
        return np.stack([self.cores, self.cpu, self.gpu, self.emc, np.log(self.batch)], axis=1)


def _log_ratio(clock: Array, top: float | None) -> Array:
    if top is None:
        return np.zeros(len(clock))
    logs: Array = np.log(clock / top)
    return np.where(np.isnan(logs), 0.0, logs)


TOP = Features(*(np.zeros(1),) * 4, batch=np.ones(1))  # the mode with everything at its largest


def _batch(share: Array, log_ratio: Array) -> tuple[Array, Array, Array]:
    """Return log((1-s) + s ratio) with s the logistic of `share`, and its derivatives in `share` and log ratio."""
    s = 1.0 / (1.0 + np.exp(-share))[:, None]
    ratio = np.exp(log_ratio)
    inner = 1.0 + s * (ratio - 1.0)
    return np.log(inner), s * (1.0 - s) * (ratio - 1.0) / inner, s * ratio / inner


def _pnorm(first: Array, second: Array, log_sharp: Array) -> tuple[Array, Array, Array]:
    """Smooth maximum of two logs; returns it, the weight of the first, and the derivative in `log_sharp`."""
    sharp = np.exp(log_sharp)[:, None]
    gap = np.clip(sharp * (second - first), -60.0, 60.0)
    weight = 1.0 / (1.0 + np.exp(gap))
    value = first + np.log1p(np.exp(gap)) / sharp
    slope = weight * first + (1.0 - weight) * second - value
    return value, weight, slope


def _accelerator(theta: Array, f: Features) -> tuple[Array, Array, Array, list[tuple[Array, Array, Array]]]:
    t = theta[:, :, None]
    plain = np.log(f.batch)[None]
    slower = t[:, _TIME_BATCH + TIME_TERMS] * plain
    batch = [_batch(theta[:, _TIME_BATCH + i], slower if i < 2 else plain) for i in range(TIME_TERMS)]
    gpu = t[:, 0] - t[:, 8] * f.gpu + batch[0][0]
    emc = t[:, 1] - t[:, 9] * f.emc - t[:, 13] * f.gpu + batch[1][0]
    return *_pnorm(gpu, emc, theta[:, 5]), batch


def log_accelerator(theta: Array, f: Features) -> Array:
    """Return the log of the time per minibatch in which the accelerator is busy."""
    return _accelerator(theta, f)[0]


def log_time(theta: Array, f: Features, derivatives: bool = False) -> tuple[Array, Array | None]:
    """Return log time (ensemble x modes), and on request its derivatives (ensemble x modes x coefficients)."""
    t = theta[:, :, None]
    accelerator, w_gpu, d_roofline, batch = _accelerator(theta, f)
    host = t[:, 2] - t[:, 10] * f.cpu + batch[2][0]
    constant = t[:, 3] + batch[3][0]
    loader = t[:, 4] - t[:, 11] * f.cpu - t[:, 12] * f.cores - t[:, 14] * f.emc + batch[4][0]
    step, w_acc, d_host = _pnorm(accelerator, host, theta[:, 6])
    whole, w_step, _ = _pnorm(step, constant, np.zeros(len(theta)))
    value, w_whole, d_loader = _pnorm(whole, loader, theta[:, 7])
    if not derivatives:
        return value, None
    out = np.empty((*value.shape, len(TIME_NAMES)))
    to_step = w_whole * w_step
    share = (to_step * w_acc * w_gpu, to_step * w_acc * (1 - w_gpu), to_step * (1 - w_acc),
             w_whole * (1 - w_step), 1 - w_whole)  # fmt: skip
    for i in range(TIME_TERMS):
        out[..., i] = share[i]
        out[..., _TIME_BATCH + i] = share[i] * batch[i][1]
    out[..., _TIME_BATCH + TIME_TERMS] = (share[0] * batch[0][2] + share[1] * batch[1][2]) * np.log(f.batch)
    out[..., 5] = to_step * w_acc * d_roofline
    out[..., 6] = to_step * d_host
    out[..., 7] = d_loader
    for i, (term, clock) in enumerate(
        ((0, f.gpu), (1, f.emc), (2, f.cpu), (4, f.cpu), (4, f.cores), (1, f.gpu), (4, f.emc))
    ):
        out[..., 8 + i] = -share[term] * clock
    return value, out


def log_power(
    theta: Array, f: Features, log_tau: Array, log_busy: Array, derivatives: bool = False
) -> tuple[Array, Array | None]:
    """Return log power, and on request its derivatives.

    `log_tau` is the log of time relative to the top mode's and `log_busy` that of the accelerator's share of the
    time, both (ensemble or 1) x modes.
    """
    t = theta[:, :, None]
    batch = [_batch(theta[:, _POWER_BATCH + i], np.log(f.batch)[None]) for i in range(4)]
    zero = np.zeros((len(theta), len(f)))
    terms = np.stack(
        [
            t[:, 0] + zero,
            t[:, 1] + t[:, 9] * f.emc,
            t[:, 2] + t[:, 10] * f.cores + t[:, 11] * f.cpu,
            t[:, 3] + t[:, 12] * f.gpu,
            t[:, 4] + t[:, 13] * f.gpu + log_busy,
            t[:, 5] + t[:, 14] * f.gpu - log_tau + batch[0][0],
            t[:, 6] - log_tau + batch[1][0],
            t[:, 7] + t[:, 11] * f.cpu - log_tau + batch[2][0],
            t[:, 8] + t[:, 9] * f.emc - log_tau + batch[3][0],
        ],
        axis=-1,
    )
    peak = terms.max(axis=-1, keepdims=True)
    parts = np.exp(terms - peak)
    total = parts.sum(axis=-1, keepdims=True)
    value = (peak + np.log(total))[..., 0]
    if not derivatives:
        return value, None
    share = parts / total
    out = np.empty((*value.shape, len(POWER_NAMES)))
    out[..., :POWER_TERMS] = share
    out[..., 9] = (share[..., 1] + share[..., 8]) * f.emc
    out[..., 10] = share[..., 2] * f.cores
    out[..., 11] = (share[..., 2] + share[..., 7]) * f.cpu
    for i in range(3):
        out[..., 12 + i] = share[..., 3 + i] * f.gpu
    for i in range(4):
        out[..., _POWER_BATCH + i] = share[..., 5 + i] * batch[i][1]
    return value, out
