"""Which modes to profile and at what cost, and the record of profiling them one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetrain.errors import UsageError
from edgetrain.prediction.active import ActiveStep, profile_until
from edgetrain.prediction.base import ModeTable
from edgetrain.prediction.costs import ProfilingCost, profiling_cost, warn_never_varied
from edgetrain.prediction.modes.design import plan_modes
from edgetrain.prediction.modes.prior import Prior
from edgetrain.schema import Measure, Origin, PowerMode

MINIBATCHES = 45  # per mode: five to warm up and forty to measure, as in the published tables

Order = Callable[[Sequence[PowerMode]], list[PowerMode]]


@dataclass(frozen=True, slots=True)
class PlannedMode:
    """One mode to profile, and the error to expect once it and all modes ranked before it are profiled."""

    mode: str
    row: int  # of the candidates
    cores: int
    cpu_hz: int
    gpu_hz: int | None
    emc_hz: int | None
    rank: int  # 1: the most informative
    time_error_after: float
    power_error_after: float

    @property
    def power_mode(self) -> PowerMode:
        """The mode itself."""
        return PowerMode(self.cores, self.cpu_hz, self.gpu_hz, self.emc_hz)


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """Modes to profile, in the order in which a board should visit them, and what that costs."""

    board: str
    prior: tuple[str, ...]  # what the prior was learned from
    origin: Origin
    modes: tuple[PlannedMode, ...]
    cost: ProfilingCost
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfilingStep:
    """One mode that was profiled, or that the board refused."""

    mode: str
    time_s: float | None
    power_w: float | None
    cost_s: float | None
    origin: Origin | None
    time_error: float | None  # expected over all modes, after this one
    power_error: float | None
    refusal: str | None


@dataclass(frozen=True, slots=True)
class ProfilingRun:
    """Modes profiled one by one until the expected error was low enough."""

    board: str
    until_pct: float
    reached: bool
    profiled: int
    cost_s: float
    origin: str | None  # of the measurements
    steps: tuple[ProfilingStep, ...]
    warnings: tuple[str, ...]


def plan_profiling(
    board: str,
    modes: ModeTable,
    count: int,
    order: Order,
    switch_s: float,
    profiled: ModeTable | None = None,
    prior: Prior | None = None,
    seed: int = 0,
    minibatch_ms: float | None = None,
) -> ProfilingPlan:
    """Choose the modes; `order` puts them into the order of the visit, `switch_s` is the cost of one switch."""
    known = Prior("none", ()) if prior is None else prior
    found = plan_modes(modes, count, profiled, known, seed)
    chosen = [modes.mode(row) for row in found.rows]
    rank = {mode: place for place, mode in enumerate(chosen)}
    cost = profiling_cost(modes.take(found.rows), profiled, known, seed, MINIBATCHES, minibatch_ms, switch_s)
    planned = tuple(
        PlannedMode(
            str(mode),
            found.rows[rank[mode]],
            mode.cores,
            mode.cpu_hz,
            mode.gpu_hz,
            mode.emc_hz,
            rank[mode] + 1,
            found.time_sd[rank[mode]],
            found.power_sd[rank[mode]],
        )
        for mode in order(chosen)
    )
    warnings = [] if profiled is None else warn_never_varied(profiled, modes, known, seed)
    return ProfilingPlan(board, tuple(known.held), Origin.PREDICTED, planned, cost, tuple(warnings))


def run_profiling(
    board: str,
    modes: ModeTable,
    measure: Measure,
    prior: Prior,
    target: float,
    most: int,
    seed: int = 0,
    profiled: ModeTable | None = None,
    after_step: Callable[[ActiveStep], None] = lambda step: None,
) -> ProfilingRun:
    """Profile until time and power are expected within `target` (a share); `after_step` may save what is profiled."""
    steps: list[ProfilingStep] = []
    last: ActiveStep | None = None
    for last in profile_until(modes, measure, prior, target, most, seed, profiled):
        steps.append(_step(last))
        after_step(last)
    if last is None:
        raise UsageError("every mode of the board is already profiled")
    origins = sorted({step.origin.value for step in steps if step.origin is not None})
    warnings = () if last.reached else (f"stopped after {len(steps)} modes; allow more with --count",)
    return ProfilingRun(
        board,
        100 * target,
        last.reached,
        len(last.profiled),
        sum(step.cost_s or 0.0 for step in steps),
        ", ".join(origins) or None,
        tuple(steps),
        warnings,
    )


def _step(step: ActiveStep) -> ProfilingStep:
    found = step.measurement
    return ProfilingStep(
        str(step.mode),
        None if found is None else found.time_s,
        None if found is None else found.power_w,
        None if found is None else found.cost_s,
        None if found is None else found.origin,
        step.time_error,
        step.power_error,
        step.refusal,
    )
