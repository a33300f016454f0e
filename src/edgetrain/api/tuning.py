"""Tuning: the best loader arguments and power mode for a training, found by short trials of it."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.api.boards import board_modes
from edgetrain.api.loader_proposals import propose_workers
from edgetrain.api.measure import read_power_mode
from edgetrain.api.recommendation import apply_mode
from edgetrain.api.records import StoreLike, open_store
from edgetrain.api.trial_measure import TrialMeasure
from edgetrain.device import open_device
from edgetrain.errors import DeviceError, EdgetrainError, NeedsRoot, TrialError, UsageError
from edgetrain.recommendation import (
    GainInterval,
    Goal,
    GoalLimits,
    LoaderSearch,
    SearchLimits,
    SearchResult,
    SearchTrial,
    TuneBaseline,
    TunedSetting,
    TuneResult,
    TuneTrial,
    gain_interval,
    search,
    spell_mode,
    trial_row,
)
from edgetrain.record import Run
from edgetrain.runner import (
    RAM_SHARE,
    Allowance,
    Progress,
    TrialGuard,
    TrialPlace,
    TrialRule,
    check_command,
    command_label,
    read_allowance,
    writable_folders,
)
from edgetrain.schema import (
    Experiment,
    LoaderArguments,
    LoaderMeasurement,
    Measure,
    ModeMeasurement,
    PowerMode,
    Scalar,
    build_experiment,
)
from edgetrain.units import parse_bytes, spell, spell_bytes
from edgetrain.workload import CATALOG, is_own

TRIALS = 11  # a third of a small grid: 4 worker counts x 4 prefetch depths x persistent or not, and no workers
FEWEST_TRIALS = 6
MODE_TRIALS = 6  # of power modes, besides
CLOSING = 2  # pairs of start and best at the end, where the mode changes too
MOST_WORKERS = 16
READS_BYTES_PER_S = 1e6  # the first trial read from storage; the ones after it find the same data in memory

Propose = Callable[[Run], Sequence[LoaderArguments]]
OnTrial = Callable[[TuneTrial], None]


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to tune."""

    minimize: str = "time"  # time | energy
    max_power_w: float | None = None
    max_ram: str | None = None
    trials: int = TRIALS
    trial_args: str = ""
    allow_writes: bool = False
    apply: bool = False
    dry_run: bool = False
    writable: tuple[str, ...] = ()  # folders in which trials may write

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.minimize not in ("time", "energy"):
            raise UsageError(f"--minimize is time or energy, not {self.minimize!r}")
        if self.trials < FEWEST_TRIALS:
            raise UsageError(
                f"--trials is {self.trials}; a search needs at least {FEWEST_TRIALS}: one of the start, one of another "
                "setting and four to repeat them"
            )
        if self.max_power_w is not None and not self.max_power_w > 0:
            raise UsageError(f"--max-power-w must be above zero, not {self.max_power_w:g}")
        if self.dry_run and not self.apply:
            raise UsageError("--dry-run shows what --apply would set; give both")


def tune(
    training: str | Sequence[str],
    *,
    minimize: str = "time",
    max_power_w: float | None = None,
    max_ram: str | None = None,
    trials: int = TRIALS,
    trial_args: str = "",
    allow_writes: bool = False,
    allow_writes_in: Sequence[Path | str] = (),
    apply: bool = False,
    dry_run: bool = False,
    device: str = "auto",
    store: StoreLike = None,
    progress: Progress | None = None,
    on_trial: OnTrial | None = None,
    power_mode: Scalar | PowerMode = None,
    like: str | None = None,
    propose: Propose | None = None,
    rule: TrialRule | None = None,
    **settings: Scalar,
) -> TuneResult:
    """Try loader arguments, and power modes where the device has some, and return the best setting.

    `training` is a command (`["python", "train.py"]`) or a network (`"mobilenet_v3"`); `minimize` is `time` or
    `energy`. `trial_args` are added to the command; `max_ram` (`4GiB`) is the most that a trial may use; trials may
    change files in the folders `allow_writes_in`; `apply` sets the power mode that was found. `settings` are those of
    `edgetrain run`: dataset, cache, lab limits. `propose` suggests what to try first from the record of the start; left
    out, the pipeline model does.
    """
    writable = writable_folders(allow_writes_in)
    options = TuneOptions(minimize, max_power_w, max_ram, trials, trial_args, allow_writes, apply, dry_run, writable)
    options.check()
    mode = read_power_mode(power_mode, device)
    campaign = time.strftime("tune-%Y%m%d-%H%M%S")
    experiment = _experiment(training, options, settings, mode, campaign)
    allowance = read_allowance()
    ceiling = _ceiling(options, allowance)
    place = TrialPlace(
        store=open_store(store),
        device=device,
        like=like,
        rule=rule or TrialRule(),
        most_bytes=ceiling,
        progress=progress or (lambda stage, done, total: None),
        unified=open_device(device).spec.kind == "jetson",
        allow_writes=options.allow_writes,
        writable=options.writable,
    )
    guard = TrialGuard()
    try:
        place = replace(place, guard=guard)
        tuning = _Tuning(experiment, place, options, allowance, ceiling, on_trial or (lambda trial: None))
        result = tuning.run(propose, search_modes=mode is None)
    finally:
        guard.close()
    if not options.apply or tuning.best_mode is None:
        return result
    return replace(result, applied=apply_mode(tuning.best_mode, device, options.dry_run))


def _experiment(
    training: str | Sequence[str],
    options: TuneOptions,
    settings: dict[str, Scalar],
    mode: PowerMode | None,
    campaign: str,
) -> Experiment:
    words = (training,) if isinstance(training, str) else tuple(str(word) for word in training)
    if len(words) == 1 and (words[0] in CATALOG or is_own(words[0])):
        if options.trial_args:
            raise UsageError("--trial-args adds arguments to a command; a network has none")
        return build_experiment({"network": words[0], **settings}, mode, campaign=campaign)
    try:
        check_command(words)
    except UsageError as error:
        named = f"; or name a network: {', '.join(CATALOG)}" if len(words) == 1 else ""
        raise UsageError(f"{error}{named}") from None
    try:
        command = (*words, *shlex.split(options.trial_args))
    except ValueError as error:
        raise UsageError(f"cannot read --trial-args {options.trial_args!r} as arguments: {error}") from None
    return build_experiment({"network": command_label(words), **settings}, mode, command, campaign=campaign)


def _ceiling(options: TuneOptions, allowance: Allowance) -> int:
    free = int(RAM_SHARE * allowance.memory_bytes)
    return free if options.max_ram is None else min(free, parse_bytes(options.max_ram))


class _Tuning:
    """One call of `tune` under way."""

    def __init__(
        self,
        experiment: Experiment,
        place: TrialPlace,
        options: TuneOptions,
        allowance: Allowance,
        ceiling: int,
        on_trial: OnTrial,
    ) -> None:
        self.options, self.place, self.experiment = options, place, experiment
        self.measure = TrialMeasure(experiment, place)
        self.best_mode: PowerMode | None = None
        self._allowance, self._ceiling, self._on_trial = allowance, ceiling, on_trial
        self._rows: list[TuneTrial] = []
        self._notes: list[str] = []

    def run(self, propose: Propose | None, search_modes: bool) -> TuneResult:
        """Measure the start, search loader arguments, then power modes."""
        start = self._start()
        device = open_device(self.place.device)
        search_modes = search_modes and device.modes() is not None and device.control() is not None
        limits = SearchLimits(
            max_workers=self._max_workers(start),
            ram_bytes=self._ceiling,
            trials=self.options.trials - len(self._rows) + 1,
            minimise=self.options.minimize,
            # Where modes are searched too, they keep the limit.
            max_power_w=None if search_modes else self.options.max_power_w,
            change_workers=not start.iterable,
        )
        proposed = self._proposed(start, limits, propose)

        def report(trial: SearchTrial) -> None:
            if trial.role != "start":  # that one is in the list already
                self._add(trial)

        found = LoaderSearch(self.measure, limits, report).run(start, proposed)
        self._notes += found.notes
        if any(trial.state == "ignored" for trial in found.trials):
            self._notes.append(
                "the script ignores arguments set from outside: only what it does by itself was measured"
            )
        mode_found = self._search_modes(start, found) if search_modes else None
        return mode_found or self._answer(start, found.best, found.gain, found.start_s, found.best_s, None)

    def _proposed(
        self, start: LoaderMeasurement, limits: SearchLimits, propose: Propose | None
    ) -> Sequence[LoaderArguments]:
        """Return loader arguments to try first: given ones, else what the pipeline model predicts to be best."""
        run = self.place.store.open(start.run)
        if propose is not None:
            return propose(run)
        if not limits.change_workers or limits.minimise != "time":
            return ()
        try:
            return propose_workers(run, start, limits.max_workers)
        except EdgetrainError as error:
            self._notes.append(f"the model could not propose a number of workers: {error}")
            return ()

    def _start(self) -> LoaderMeasurement:
        start = self.measure.first()
        if self.options.minimize == "energy" and start.power_w is None:
            raise UsageError("no power was measured here, so energy cannot be minimised; leave --minimize energy out")
        if self.options.max_power_w is not None and start.power_w is None:
            raise UsageError("no power was measured here, so --max-power-w cannot be kept; leave it out")
        self._add(SearchTrial(start.arguments, "start", start, "measured"))
        cache = self.experiment.loading.cache
        if cache == "keep" and (start.read_bytes_per_s or 0.0) > READS_BYTES_PER_S:
            start = self.measure(start.arguments)
            self._add(SearchTrial(start.arguments, "start", start, "measured"))
            if (start.read_bytes_per_s or 0.0) < READS_BYTES_PER_S:
                self._notes.append(
                    "the first trial read its data from storage, the others found it in memory; to tune for a dataset "
                    "that does not stay in memory, give --dataset PATH --cache cold"
                )
        if start.iterable:
            self._notes.append(
                "the dataset is a stream (IterableDataset): the number of workers is left as it is, because workers "
                "that do not share the stream would deliver every sample several times"
            )
        return start

    def _max_workers(self, start: LoaderMeasurement) -> int:
        cores, limits = self._allowance.usable_cores, self.experiment.limits
        if self.experiment.workload.command is None and self.place.device.startswith("sim"):
            cores = open_device(self.place.device).spec.cores or cores  # nothing trains on this machine
        if limits.cores is not None:
            cores = min(cores, limits.cores)
        # Workers that wait for storage do not use a core: twice as many as cores can still help.
        return max(min(2 * cores, MOST_WORKERS), start.arguments.workers)

    def _add(self, trial: SearchTrial, role: str | None = None) -> None:
        row = trial_row(len(self._rows), trial, self.measure.mode, role)
        self._rows.append(row)
        self._on_trial(row)

    # Power modes

    def _search_modes(self, start: LoaderMeasurement, found: SearchResult) -> TuneResult | None:
        """Search power modes with the best loader arguments; None where none is better."""
        if start.power_w is None:
            self._notes.append("the device has power modes, but no power was measured: they were left as they are")
            return None
        goal = Goal(self.options.minimize, GoalLimits(max_power_w=self.options.max_power_w))
        try:
            chosen = search(board_modes(self.place.device).modes, goal, self._measure_mode(found.best), MODE_TRIALS)
        except NeedsRoot as error:
            self._notes.append(f"power modes were left as they are: {error}")
            return None
        finally:
            self.measure.mode = None
        if chosen.choice.best is None:
            self._notes.append("no power mode keeps the limits")
            return None
        return self._confirm_mode(start, found, chosen.choice.best.mode)

    def _measure_mode(self, arguments: LoaderArguments) -> Measure:
        def measure(mode: PowerMode) -> ModeMeasurement:
            self.measure.mode = mode
            began_s = time.monotonic()
            try:
                found = self.measure(arguments)
            except TrialError as error:
                raise DeviceError(f"could not measure {mode}: {error}") from error
            self._add(SearchTrial(arguments, "mode", found, "measured"))
            if found.power_w is None:
                raise DeviceError(f"the trial {found.run} has no power reading")
            took_s = time.monotonic() - began_s
            return ModeMeasurement(mode, found.e2e_s, found.power_w, found.origin, found.e2e_s, cost_s=took_s)

        return measure

    def _confirm_mode(self, start: LoaderMeasurement, found: SearchResult, mode: PowerMode) -> TuneResult:
        """Measure the original and the best setting alternately, and keep the original if the gain is not certain."""
        starts: list[LoaderMeasurement] = []
        bests: list[LoaderMeasurement] = []
        for _ in range(CLOSING):
            for arguments, held, kept in ((start.arguments, None, starts), (found.best, mode, bests)):
                self.measure.mode = held
                with contextlib.suppress(TrialError):
                    measured = self.measure(arguments)
                    kept.append(measured)
                    self._add(SearchTrial(arguments, "repeat", measured, "measured"))
        self.measure.mode = None
        if not starts or not bests:
            raise EdgetrainError(f"the power mode {spell_mode(mode)} could not be measured again")
        gain = gain_interval(starts, bests, self.options.minimize)
        start_s, best_s = (sum(one.e2e_s for one in each) / len(each) for each in (starts, bests))
        limit = self.options.max_power_w
        over = limit is not None and any((one.power_w or 0.0) > limit for one in starts)
        if over:
            self._notes.append(
                f"the training as it is draws {spell(start.power_w, 'W')}, more than the {spell(limit, 'W')} allowed"
            )
        if gain.lo > 0 or over:
            self.best_mode = mode
            return self._answer(start, found.best, gain, start_s, best_s, mode)
        self._notes.append(
            f"{spell_mode(mode)} is the best power mode, but its gain of {gain.value:.1f} % ({gain.lo:.1f} to "
            f"{gain.hi:.1f} %) is not certain: the mode is left as it is"
        )
        return self._answer(start, found.best, found.gain, found.start_s, found.best_s, None)

    def _answer(
        self,
        start: LoaderMeasurement,
        best: LoaderArguments,
        gain: GainInterval,
        start_s: float,
        best_s: float,
        mode: PowerMode | None,
    ) -> TuneResult:
        if best == start.arguments and mode is None:
            gain = GainInterval(0.0, 0.0, 0.0)
        refused = [row for row in self._rows if row.state in ("refused", "memory")]
        if refused:
            self._notes.append(
                f"{len(refused)} settings were left out: they would need more than the {spell_bytes(self._ceiling)} of "
                "memory that a trial may use"
            )
        return TuneResult(
            best=TunedSetting.of(best, mode),
            gain_pct=gain,
            baseline=TuneBaseline(
                TunedSetting.of(start.arguments, self.experiment.power_mode),
                start_s,
                start.power_w,
                None if start.power_w is None else start.power_w * start_s,
            ),
            trials=tuple(self._rows),
            changes=best != start.arguments or mode is not None,
            minimize=self.options.minimize,
            e2e_s_per_minibatch=best_s,
            dataloader=best.as_code(),
            loader=self.measure.created,
            files_written=self.measure.files,
            notes=(*self._notes, *self.measure.notes),
            origin=start.origin,
            campaign=self.experiment.campaign or "",
        )
