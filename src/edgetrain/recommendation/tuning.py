"""The answer of `edgetrain tune`: the best loader arguments and power mode, the measured gain, and every trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.recommendation.answer import AppliedMode
from edgetrain.recommendation.gain import GainInterval
from edgetrain.recommendation.search_trials import SearchTrial
from edgetrain.schema import Doubt, LoaderArguments, Origin, PowerMode
from edgetrain.units import HZ_PER_MHZ


@dataclass(frozen=True, slots=True)
class TunedSetting:
    """What to set."""

    workers: int
    prefetch: int | None
    pin_memory: bool
    persistent: bool
    power_mode: str | None  # cores/CPU/GPU/memory clocks in MHz, as --power-mode takes them; None: left as it is

    @classmethod
    def of(cls, arguments: LoaderArguments, power_mode: PowerMode | None) -> TunedSetting:
        """Return the setting of these arguments in a power mode."""
        mode = None if power_mode is None else mode_text(power_mode)
        return cls(arguments.workers, arguments.prefetch, arguments.pin_memory, arguments.persistent, mode)


@dataclass(frozen=True, slots=True)
class TuneBaseline:
    """The training as it is."""

    setting: TunedSetting
    e2e_s_per_minibatch: float
    power_w: float | None
    energy_j_per_minibatch: float | None


@dataclass(frozen=True, slots=True)
class TuneTrial:
    """One trial. Times and energies are per minibatch; None where nothing was measured."""

    number: int
    role: str  # start | candidate | repeat | mode
    setting: TunedSetting
    state: str  # measured | doubtful (and measured again) | failed | ignored | memory | refused | too_short | writes
    reason: str | None
    e2e_s_per_minibatch: float | None
    power_w: float | None
    energy_j_per_minibatch: float | None
    stall_share: float | None
    minibatches: int | None
    ram_bytes: int | None
    run: str | None
    doubts: tuple[Doubt, ...]  # about what was measured


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """Whether the answer keeps `--max-power-w`, on average over its trials."""

    max_power_w: float
    kept: bool  # False: nothing could be confirmed that keeps it, and the training as it is draws more
    draws_w: float | None  # the answer
    lowest_w: float | None  # of all settings that were tried
    lowest: TunedSetting | None  # that one


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The answer. `gain_pct` is how much less time (or energy) a minibatch takes than before."""

    best: TunedSetting
    gain_pct: GainInterval
    baseline: TuneBaseline
    trials: tuple[TuneTrial, ...]
    changes: bool  # False: leave everything as it is
    minimize: str
    e2e_s_per_minibatch: float  # of the best
    dataloader: str  # the arguments of DataLoader to paste
    loader: int | None  # which loader trains, in order of creation; None: a built-in network
    files_written: tuple[str, ...]  # by the script, outside its temporary folder
    notes: tuple[str, ...]
    origin: Origin
    campaign: str
    power_limit: PowerLimit | None = None  # None: none was given
    applied: AppliedMode | None = None


def power_limit(
    trials: Sequence[TuneTrial], answer: TunedSetting, max_power_w: float, confirmed: bool = False
) -> PowerLimit:
    """Return how an answer compares with the limit on the mean power; `confirmed`: repeats at the end have kept it."""
    readings: dict[TunedSetting, list[float]] = {}
    for trial in trials:
        if trial.state == "measured" and trial.power_w is not None:
            readings.setdefault(trial.setting, []).append(trial.power_w)
    means = {setting: sum(each) / len(each) for setting, each in readings.items()}
    lowest = min(means, key=lambda setting: means[setting], default=None)
    draws_w = means.get(answer)
    return PowerLimit(
        max_power_w,
        confirmed or draws_w is None or draws_w <= max_power_w,
        draws_w,
        None if lowest is None else means[lowest],
        lowest,
    )


def mode_text(mode: PowerMode) -> str:
    """Return a power mode as `--power-mode` and `modes set` take it."""
    clocks = [hertz for hertz in (mode.cpu_hz, mode.gpu_hz, mode.emc_hz) if hertz is not None]
    return "/".join([str(mode.cores), *(f"{hertz / HZ_PER_MHZ:g}" for hertz in clocks)])


def trial_row(number: int, trial: SearchTrial, power_mode: PowerMode | None) -> TuneTrial:
    """Return one trial of a search as the answer shows it."""
    found = trial.measured
    return TuneTrial(
        number=number,
        role=trial.role,
        setting=TunedSetting.of(trial.arguments, power_mode),
        state=trial.state,
        reason=trial.reason,
        e2e_s_per_minibatch=None if found is None else found.e2e_s,
        power_w=None if found is None else found.power_w,
        energy_j_per_minibatch=None if found is None else found.energy_j,
        stall_share=None if found is None else found.stall_share,
        minibatches=None if found is None else found.minibatches,
        ram_bytes=None if found is None or found.ram is None else found.ram.peak_bytes,
        run=None if found is None else found.run,
        doubts=() if found is None else found.doubts,
    )
