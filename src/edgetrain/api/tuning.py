"""Tuning: the best loader arguments and power mode for a training, found by short trials of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgetrain.api.loader_proposals import propose_workers
from edgetrain.api.measure import read_power_mode
from edgetrain.api.mode_tuning import ModeTuning
from edgetrain.api.recommendation import apply_mode
from edgetrain.api.records import StoreLike, open_store
from edgetrain.api.trial_measure import TrialMeasure, name_files
from edgetrain.api.tune_request import MIN_TRIALS, TRIALS, TuneOptions, tuned_experiment
from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError, TrialError, UsageError
from edgetrain.recommendation import (
    GainInterval,
    LoaderSearch,
    SearchLimits,
    SearchTrial,
    TuneBaseline,
    TunedSetting,
    TuneResult,
    TuneTrial,
    doubt_notes,
    passing_doubts,
    power_limit,
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
    check_like,
    read_allowance,
    writable_folders,
)
from edgetrain.schema import Experiment, LoaderArguments, LoaderMeasurement, PowerMode, Scalar
from edgetrain.units import parse_bytes, spell_bytes

MAX_WORKERS = 16
READS_BYTES_PER_S = 1e6  # the first trial read from storage; the ones after it find the same data in memory

Propose = Callable[[Run], Sequence[LoaderArguments]]
OnTrial = Callable[[TuneTrial], None]


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
    trial_limit: float | None = None,
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
    change files in the folders `allow_writes_in`; `trial_limit` are the seconds from its first minibatch on after which
    a trial is given up; `apply` sets the power mode that was found. `settings` are those of `edgetrain run`; of a
    command only dataset, cache and lab limits. `propose` suggests what to try first from the record of the start; left
    out, the pipeline model does.
    """
    options = TuneOptions(
        minimize=minimize,
        max_power_w=max_power_w,
        max_ram=max_ram,
        trials=trials,
        trial_args=trial_args,
        allow_writes=allow_writes,
        apply=apply,
        dry_run=dry_run,
        trial_limit=trial_limit,
        writable=writable_folders(allow_writes_in),
    )
    options.check()
    mode = read_power_mode(power_mode, device)
    campaign = time.strftime("tune-%Y%m%d-%H%M%S")
    experiment = tuned_experiment(training, options, settings, mode, campaign)
    opened = open_device(device)
    check_like(like, opened, experiment.workload.command is not None)
    options.check_apply(opened, mode)
    allowance = read_allowance()
    ceiling = _ceiling(options, allowance)
    place = TrialPlace(
        store=open_store(store),
        device=device,
        like=like,
        rule=options.rule(rule),
        most_bytes=ceiling,
        progress=progress or (lambda stage, done, total: None),
        unified=opened.spec.kind == "jetson",
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


def _ceiling(options: TuneOptions, allowance: Allowance) -> int:
    free = int(RAM_SHARE * allowance.memory_bytes)
    return free if options.max_ram is None else min(free, parse_bytes(options.max_ram))


def trials_left(asked: int, starts: int) -> int:
    """Return how many trials the search may make, that of the start included; one measured again counts too."""
    return asked - starts + 1


def most_workers(cores: int, start: LoaderMeasurement) -> int:
    """Return the most workers that are tried, of each training process.

    Workers that wait for storage do not use a core: twice as many as cores can still help.
    """
    return max(min(2 * max(1, cores // start.processes), MAX_WORKERS), start.arguments.workers)


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
        self._measured: list[LoaderMeasurement] = []
        self._notes: list[str] = []

    def run(self, propose: Propose | None, search_modes: bool) -> TuneResult:
        """Measure the start, search loader arguments, then power modes."""
        start = self._start()
        device = open_device(self.place.device)
        search_modes = search_modes and device.modes() is not None and device.control() is not None
        limits = SearchLimits(
            max_workers=self._max_workers(start),
            ram_bytes=self._ceiling,
            trials=trials_left(self.options.trials, len(self._rows)),
            minimize=self.options.minimize,
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
        if search_modes:
            modes = ModeTuning(self.measure, self.options, self.place.device, self._add)
            chosen = modes.run(start, found.best)
            self._notes += modes.notes
            if chosen is not None:
                self.best_mode = chosen.mode
                return self._answer(start, found.best, chosen.gain, chosen.start_s, chosen.best_s, chosen.mode)
            if found.changes and not self._keeps_power(found.best):
                self._notes.append(f"{found.best} is not recommended: in the present power mode it draws too much")
                return self._answer(start, start.arguments, found.gain, found.start_s, found.start_s, None)
        return self._answer(start, found.best, found.gain, found.start_s, found.best_s, None)

    def _keeps_power(self, arguments: LoaderArguments) -> bool:
        """Whether loader arguments keep the limit without another power mode."""
        limit = self.options.max_power_w
        setting = TunedSetting.of(arguments, self.experiment.power_mode)
        return limit is None or power_limit(self._rows, setting, limit).kept

    def _proposed(
        self, start: LoaderMeasurement, limits: SearchLimits, propose: Propose | None
    ) -> Sequence[LoaderArguments]:
        """Return loader arguments to try first: given ones, else what the pipeline model predicts to be best."""
        run = self.place.store.open(start.run)
        if propose is not None:
            return propose(run)
        if not limits.change_workers or limits.minimize != "time":
            return ()
        try:
            return propose_workers(run, start, limits.max_workers)
        except EdgetrainError as error:
            self._notes.append(f"the model could not propose a number of workers: {error}")
            return ()

    def _start(self) -> LoaderMeasurement:
        start = self.measure.first()
        if self.options.minimize == "energy" and start.power_w is None:
            raise UsageError("no power was measured here, so energy cannot be minimized; leave --minimize energy out")
        if self.options.max_power_w is not None and start.power_w is None:
            raise UsageError("no power was measured here, so --max-power-w cannot be kept; leave it out")
        start = self._start_again(start)
        if len(set(start.behind)) > 1:
            self._notes.append(
                f"the training takes its minibatches from loaders with different arguments ("
                f"{'; '.join(map(str, start.behind))}): the one that most of them come from is tuned"
            )
        if start.iterable:
            self._notes.append(
                "the dataset is a stream (IterableDataset): the number of workers is left as it is, because workers "
                "that do not share the stream would deliver every sample several times"
            )
        return start

    def _start_again(self, start: LoaderMeasurement) -> LoaderMeasurement:
        """Measure the training as it is again where the first trial is no measure of those that follow."""
        reads = (start.read_bytes_per_s or 0.0) > READS_BYTES_PER_S
        from_storage = reads and self.experiment.loading.cache == "keep"
        doubts = passing_doubts(start)
        first = SearchTrial(start.arguments, "start", start, "measured")
        if (from_storage or doubts) and self.options.trials <= MIN_TRIALS:
            self._notes.append("--trials leaves none to measure the training as it is again, which the doubts call for")
        if not (from_storage or doubts) or self.options.trials <= MIN_TRIALS:
            self._add(first)
            return start
        why = "it read its data from storage" if from_storage else doubts[0].text
        self._add(replace(first, state="doubtful", reason=f"measured again: {why}"))
        try:
            again = self.measure(start.arguments)
        except TrialError as error:
            self._add(replace(first, measured=None, state=error.kind, reason=str(error)))
            return start
        self._add(replace(first, measured=again))
        if from_storage and (again.read_bytes_per_s or 0.0) < READS_BYTES_PER_S:
            self._notes.append(
                "the first trial read its data from storage, the others found it in memory; to tune for a dataset "
                "that does not stay in memory, give --dataset PATH --cache cold"
            )
        return again

    def _max_workers(self, start: LoaderMeasurement) -> int:
        cores, limits = self._allowance.usable_cores, self.experiment.limits
        if self.experiment.workload.command is None and self.place.device.startswith("sim"):
            cores = open_device(self.place.device).spec.cores or cores  # nothing trains on this machine
        if limits.cores is not None:
            cores = min(cores, limits.cores)
        return most_workers(cores, start)

    def _add(self, trial: SearchTrial) -> None:
        row = trial_row(len(self._rows), trial, self.measure.mode)
        self._rows.append(row)
        if trial.measured is not None and trial.state == "measured":
            self._measured.append(trial.measured)
        self._on_trial(row)

    def _answer(
        self,
        start: LoaderMeasurement,
        best: LoaderArguments,
        gain: GainInterval,
        start_s: float,
        best_s: float,
        mode: PowerMode | None,
    ) -> TuneResult:
        limit, setting = self.options.max_power_w, TunedSetting.of(best, mode)
        changes = best != start.arguments or mode is not None
        if not changes:
            gain = GainInterval(0.0, 0.0, 0.0)
        self._notes += doubt_notes(self._measured)
        if self.measure.spared:
            self._notes.append(
                f"{self.measure.ended_before_writing} trials were ended before the script changed "
                f"{name_files(self.measure.spared)}: add arguments that stop it (--trial-args), or give --allow-writes"
            )
        refused = [row for row in self._rows if row.state in ("refused", "memory")]
        if refused:
            self._notes.append(
                f"{len(refused)} settings were left out: they need more than the memory limit (--max-ram) of "
                f"{spell_bytes(self._ceiling)}"
            )
        measured = setting if mode is not None else TunedSetting.of(best, self.experiment.power_mode)
        return TuneResult(
            best=setting,
            gain_pct=gain,
            baseline=TuneBaseline(
                TunedSetting.of(start.arguments, self.experiment.power_mode),
                start_s,
                start.power_w,
                None if start.power_w is None else start.power_w * start_s,
            ),
            trials=tuple(self._rows),
            changes=changes,
            minimize=self.options.minimize,
            e2e_s_per_minibatch=best_s,
            dataloader=best.as_code(),
            loader=self.measure.created,
            files_written=self.measure.files,
            notes=(*self._notes, *self.measure.notes),
            origin=start.origin,
            campaign=self.experiment.campaign or "",
            power_limit=None if limit is None else power_limit(self._rows, measured, limit, changes),
        )
