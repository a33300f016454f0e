"""Measures loader arguments of a user's script or of a network by trials: what `tune` searches with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetrain.analysis import find_loops, slowest
from edgetrain.errors import EdgetrainError, TrialError, UsageError, WorkloadError
from edgetrain.recommendation import find_target, measure_trial, training_loader
from edgetrain.record import Run
from edgetrain.runner import LoaderChange, Trial, TrialPlace, run_trial, signal_name
from edgetrain.schema import Experiment, LoaderArguments, LoaderMeasurement, LoaderTarget, Loading, PowerMode, RamUse
from edgetrain.units import spell_bytes


class ScriptWrites(EdgetrainError):
    """A script writes files before enough of its training was seen; carries `files`."""

    def __init__(self, message: str, files: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.files = tuple(files)


class TrialMeasure:
    """Implements `schema.MeasureLoader` by trials; `mode` holds a power mode meanwhile."""

    def __init__(self, experiment: Experiment, place: TrialPlace) -> None:
        self._experiment, self._place = experiment, place
        self._is_command = experiment.workload.command is not None
        self.mode: PowerMode | None = experiment.power_mode
        self.target: LoaderTarget | None = None  # the training loaders, once the first trial has shown them
        self.start: LoaderArguments | None = None
        self.files: tuple[str, ...] = ()  # that trials changed
        self.spared: tuple[str, ...] = ()  # that trials were about to change when they were ended
        self.ended_before_writing = 0  # trials
        self.programs: tuple[str, ...] = ()  # started by the script; the files that they write are not seen

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the trials beside what they measured."""
        if not self.programs:
            return ()
        return (f"files that these programs write were not watched: {', '.join(self.programs)}",)

    @property
    def created(self) -> int | None:
        """The training loader in the order of creation; None for a network, and before the first trial."""
        return self.target.created if self.target is not None and self._is_command else None

    def first(self) -> LoaderMeasurement:
        """Measure the training as it is, and find its loader; errors say why it cannot be tuned."""
        place = self._place
        loading = self._experiment.loading
        given = LoaderArguments(
            loading.workers,
            loading.prefetch if loading.workers else None,
            loading.pin_memory,
            loading.persistent and loading.workers > 0,
        )
        trial = run_trial(self._held(given), place)
        run = place.store.open(trial.run)
        if self._note_writes(trial):
            raise ScriptWrites(_before_writing(trial), trial.writes)
        try:
            self._check_start(trial)
            loop = slowest(find_loops(run))
            loader = training_loader(run, loop)
            if self._is_command and loader.created is None:
                raise UsageError("the training loop's loader was made before the recorder was loaded: nothing to tune")
            self.target = find_target(loop, loader)
            found = self._read(trial, run)
        except TrialError as error:
            raise self._cannot_tune(error) from None
        self.start = found.arguments
        return found

    def __call__(self, arguments: LoaderArguments) -> LoaderMeasurement:
        change = None
        if self._is_command and arguments != self.start and self.target is not None:
            change = LoaderChange(self.target, arguments)
        try:
            trial = run_trial(self._held(arguments), self._place, change)
        except WorkloadError as error:
            raise TrialError(f"training fails with {arguments}: {error}", kind="failed") from None
        writes = self._note_writes(trial)
        if trial.ended == "memory":
            raise TrialError(f"with {arguments} it used more than the memory limit (--max-ram)", kind="memory")
        if trial.ended in ("limit", "no steps"):
            raise TrialError(f"{_too_few(trial)} with {arguments}", kind="failed")
        if trial.status:
            raise TrialError(f"the script fails with {arguments}: {_how_it_failed(trial)}", kind="failed")
        if writes and trial.minibatches < trial.needed:
            raise TrialError(_before_writing(trial), kind="writes")
        try:
            found = self._read(trial, self._place.store.open(trial.run))
        except TrialError:
            if writes:
                raise TrialError(_before_writing(trial), kind="writes") from None
            raise
        self._check_arguments(found, arguments, changed=change is not None)
        return found

    def _check_arguments(self, found: LoaderMeasurement, asked: LoaderArguments, changed: bool) -> None:
        """Refuse minibatches that came from a loader with other arguments than those asked for."""
        others = [one for one in (found.arguments, *(found.behind if changed else ())) if one != asked]
        if others:
            raise TrialError(
                f"asked for {asked}, but the training used {others[0]}: the script sets its loader's arguments after "
                "making it, or makes its loader in another way each time",
                kind="ignored",
            )

    def _held(self, arguments: LoaderArguments) -> Experiment:
        """Return the experiment with these arguments; the lab makes a group for each worker, of a command too."""
        experiment = self._experiment
        loading: Loading = replace(
            experiment.loading,
            workers=arguments.workers,
            prefetch=arguments.prefetch or experiment.loading.prefetch,
            pin_memory=arguments.pin_memory,
            persistent=arguments.persistent,
        )
        return replace(experiment, loading=loading, power_mode=self.mode)

    def _read(self, trial: Trial, run: Run) -> LoaderMeasurement:
        loader = training_loader(run, slowest(find_loops(run)))
        return measure_trial(run, trial.rule.warm_up_of(loader), ram_use(trial, run))

    def _note_writes(self, trial: Trial) -> bool:
        """Keep the files that a trial changed or was about to change; return whether it was ended because of them."""
        self.programs = tuple(dict.fromkeys((*self.programs, *trial.programs)))
        if self._place.allow_writes:
            self.files = tuple(dict.fromkeys((*self.files, *trial.writes)))
            return False
        self.spared = tuple(dict.fromkeys((*self.spared, *trial.writes)))
        self.ended_before_writing += bool(trial.writes)
        return bool(trial.writes)

    def _check_start(self, trial: Trial) -> None:
        if trial.ended == "memory":  # perhaps before the recorder was loaded
            raise UsageError(
                f"the training as it is uses more than the memory limit, {spell_bytes(trial.most_bytes)} (--max-ram, "
                "or 90 % of what is available now); give a larger --max-ram, end other programs or lower its batch size"
            )
        if trial.missing is not None:
            raise UsageError(f"nothing can be measured or protected in this command: {trial.missing}")
        if trial.status:
            raise WorkloadError(f"the script fails as it is, {_how_it_failed(trial)}", run=trial.run)
        if trial.ended in ("limit", "no steps"):
            raise WorkloadError(
                f"the script ran {_too_few(trial)}; see what it printed with edgetrain show {trial.run}",
                run=trial.run,
            )

    def _cannot_tune(self, error: TrialError) -> EdgetrainError:
        kind = error.kind
        if kind == "no_loader":
            return UsageError(f"{error}, so there are no loader arguments to tune; see edgetrain profile for the rest")
        if kind == "other_thread":
            return UsageError(str(error))
        if kind == "no_steps":
            return UsageError(
                f"{error}: the script must train with torch and a DataLoader; try edgetrain profile first"
            )
        if kind == "too_short":
            return UsageError(f"{error}; give the script more epochs or data with --trial-args")
        return error


def name_files(files: Sequence[str], most: int = 3) -> str:
    """Name the first few files."""
    more = len(files) - most
    return ", ".join(files[:most]) + (f" and {more} more" if more > 0 else "")


def _before_writing(trial: Trial) -> str:
    return (
        f"the script was ended before it changed {name_files(trial.writes)}, because every trial would change it "
        'again; add arguments that stop that (--trial-args "--no-save"), or give --allow-writes-in FOLDER or '
        "--allow-writes if that does no harm"
    )


def _how_it_failed(trial: Trial) -> str:
    status = trial.status or 0
    how = f"with status {status}" if status > 0 else f"ended by signal {signal_name(-status)}"
    return f"{how}: {trial.last_words or 'it printed nothing'}"


def _too_few(trial: Trial) -> str:
    rule = trial.rule
    if trial.ended == "no steps":
        return (
            f"{trial.untrained} minibatches from its loader in {rule.untrained_s:.0f} s without a training step "
            f"(backward pass or optimizer step); if training begins later, tune --trial-limit SECONDS, above "
            f"{rule.untrained_s:.0f}, waits longer"
        )
    if not trial.minibatches:
        return (
            f"no minibatch within {rule.startup_s:.0f} s of its start (tune --trial-limit SECONDS, above "
            f"{rule.startup_s:.0f}, allows more time)"
        )
    return (
        f"too few minibatches within {trial.rule.limit_s:.0f} s of the first one ({trial.minibatches} of at least "
        f"{trial.needed}; tune --trial-limit SECONDS allows more time)"
    )


def ram_use(trial: Trial, run: Run) -> RamUse | None:
    """Return what a trial's processes used; None where it was not seen."""
    if not trial.processes or trial.peak_bytes is None:
        return None
    pid = run.main.facts.pid
    main = next((one for one in trial.processes if one.pid == pid), max(trial.processes, key=lambda one: one.own_bytes))
    mains = {main.pid, *(process.facts.pid for process in run.training)}
    workers = [one.private_bytes for one in trial.processes if one.parent in mains and one.pid not in mains]
    loaders = run.main.facts.loaders
    has_workers = any(loader.workers for loader in loaders)
    return RamUse(
        trial.peak_bytes,
        main.total_bytes,
        main.own_bytes,
        max(workers, default=None) if has_workers else None,
        trial.shared_bytes,
        max((loader.minibatch_bytes for loader in loaders if loader.minibatch_bytes is not None), default=None),
    )
