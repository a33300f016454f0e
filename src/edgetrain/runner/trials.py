"""One trial of a training with other loader arguments: recorded like any run, ended by SIGKILL when enough was seen.

`trial_watch` decides when that is. Everything that the trial started is killed, so that no handler of the script saves
anything. Unless writing is allowed, a command is also killed before it changes a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError
from edgetrain.lab import as_board, limits_for
from edgetrain.record import read_run
from edgetrain.runner.allowance import RAM_SHARE, read_allowance
from edgetrain.runner.child import SamplerProcess
from edgetrain.runner.command_trainee import CommandTrainee, missing_doubt
from edgetrain.runner.executor import with_dataset
from edgetrain.runner.manifest import current_command, first_manifest, with_process
from edgetrain.runner.recording import Ending, Recording
from edgetrain.runner.signals import stop_on_signal
from edgetrain.runner.simulated import simulate_run
from edgetrain.runner.simulated_command import SimulatedLoad
from edgetrain.runner.trial_commands import check_trial_command, unwatched_program
from edgetrain.runner.trial_memory import ProcessMemory
from edgetrain.runner.trial_processes import Survivor, kill_session
from edgetrain.runner.trial_watch import TrialPlace, TrialRule, TrialWatch, count_rows, count_untrained
from edgetrain.runner.user import SudoUser, owned_by, sudo_user
from edgetrain.runner.workload_trainee import WorkloadTrainee
from edgetrain.schema import Experiment, LoaderArguments, LoaderTarget

LOADER_ARGUMENTS, LIST_WRITES = "EDGETRAIN_LOADER", "EDGETRAIN_LIST_WRITES"  # read by the hook
LIST_ONLY, STOP_AT_WRITES = "1", "stop"  # values of the second
WRITABLE = "EDGETRAIN_WRITES_IN"  # read by the hook: folders, as a JSON list
WAIT_S = 5.0  # for the status of a process that was killed
TRIAL_LOG = "command.log"  # what the command printed
SIMULATED_MINIBATCHES = 60  # per epoch, two epochs: a simulated board trains in no time
ENDLESS_EPOCHS = 100_000
LAST_LINES = 3


class ProcessesLeft(EdgetrainError):
    """Processes of a trial could not be ended; carries `processes`. What runs after them would share the machine."""

    def __init__(self, processes: Sequence[Survivor]) -> None:
        self.processes = tuple(processes)
        named = ", ".join(f"{one.pid} ({one.name})" for one in self.processes)
        numbers = " ".join(str(one.pid) for one in self.processes)
        super().__init__(
            f"processes of a trial could not be ended: {named}; they belong to another user or wait for a device. "
            f"Tuning stops here; end them with sudo kill -9 {numbers}"
        )


@dataclass(frozen=True, slots=True)
class LoaderChange:
    """The loaders to change, and their arguments."""

    target: LoaderTarget
    arguments: LoaderArguments

    def variable(self) -> str:
        """Return the JSON that the hook reads."""
        given, target = self.arguments, self.target
        document = {
            "created": target.created,
            "made_at": target.made_at,
            "datasets": target.datasets,
            "period": target.period,
            "phases": target.phases,
            "num_workers": given.workers,
            "prefetch_factor": given.prefetch,
            "pin_memory": given.pin_memory,
            "persistent_workers": given.persistent,
        }
        return json.dumps(document)


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial that ran: its record, why it ended, and what its processes used."""

    run: str
    ended: str  # enough | by itself | no loader | no steps | limit | memory | writes | not entered
    status: int | None  # of the command, where it ended by itself
    last_words: str
    peak_bytes: int | None
    shared_bytes: int  # of the peak, minibatches on their way from workers
    processes: tuple[ProcessMemory, ...]
    writes: tuple[str, ...]  # files it changed outside the temporary folder, or was about to change
    rule: TrialRule
    minibatches: int = 0  # that its loop took from its loader
    needed: int = 0  # the least that it should have taken
    untrained: int = 0  # minibatches that came from a loader, where no training step was seen
    missing: str | None = None  # why nothing was seen of the command: the recorder was not loaded into it
    programs: tuple[str, ...] = ()  # that were started and are no Python with the recorder: their files are not seen
    most_bytes: int | None = None  # that it was allowed to use


def run_trial(experiment: Experiment, place: TrialPlace, change: LoaderChange | None = None) -> Trial:
    """Train until enough was seen. `change` applies to a user's command; a network takes the experiment's loading."""
    user = sudo_user()
    place = with_memory_now(place)
    with owned_by(user, place.store.path):
        if experiment.workload.command is not None:
            return _command_trial(experiment, place, change, user)
        if place.device.partition(":")[0] != "sim":
            return _workload_trial(experiment, place, user)
        short = replace(experiment, epochs=2, minibatches=SIMULATED_MINIBATCHES)
        with stop_on_signal():
            run = simulate_run(short, place.device, place.store, place.progress, tuple(current_command()))
        return Trial(run, "enough", None, "", None, 0, (), (), place.rule)


def with_memory_now(place: TrialPlace) -> TrialPlace:
    """Return the place with a lower memory limit where less memory is available than when the search began."""
    if place.most_bytes is None:
        return place
    return replace(place, most_bytes=min(place.most_bytes, int(RAM_SHARE * read_allowance().memory_bytes)))


def _command_trial(
    experiment: Experiment, place: TrialPlace, change: LoaderChange | None, user: SudoUser | None
) -> Trial:
    command = experiment.workload.command or ()
    check_trial_command(command, place.allow_writes)
    experiment = as_board(experiment)
    device = open_device(place.device)
    board = SimulatedLoad.of(place.device, device, experiment, place.like)
    manifest = first_manifest(experiment, device, command)
    writer = place.store.create(manifest)
    with (writer.path / TRIAL_LOG).open("wb") as log:
        trainee = TrialCommand(experiment, writer.path, log.fileno(), board, place, change, user)
        sampled = board.sampled_device if board else place.device
        recording = Recording(experiment, device, sampled, writer, manifest, place.progress, trainee, user=user)
        with stop_on_signal():
            recording.carry_out(limits_for(experiment), experiment.workload.dataset, ())
    return _finished(writer.id, writer.path, trainee.watch, place, last_lines(writer.path / TRIAL_LOG), command)


def _workload_trial(experiment: Experiment, place: TrialPlace, user: SudoUser | None) -> Trial:
    experiment = replace(as_board(experiment), epochs=ENDLESS_EPOCHS)
    device = open_device(place.device)
    experiment, dataset = with_dataset(experiment, place.store, place.progress, user)
    manifest = first_manifest(experiment, device, current_command())
    writer = place.store.create(manifest)
    trainee = TrialWorkload(experiment, writer.path, dataset.generated, place, user)
    recording = Recording(experiment, device, place.device, writer, manifest, place.progress, trainee, user=user)
    with stop_on_signal():
        recording.carry_out(limits_for(experiment), dataset.path, dataset.files)
    return _finished(writer.id, writer.path, trainee.watch, place, "", None)


def _finished(
    name: str, path: Path, watch: TrialWatch, place: TrialPlace, last_words: str, command: Sequence[str] | None
) -> Trial:
    run = read_run(path, light=True)
    remove_made([event.file for event in run.events if event.kind == "folder" and event.file])
    written = [event.file for event in run.events if event.kind == "write" and event.file]
    programs = [event.program for event in run.events if event.kind == "program" and event.program]
    if command is not None and (first := unwatched_program(command)) is not None:
        programs.insert(0, first)
    missing = None
    if watch.unhooked is not None:
        missing = f"{watch.unhooked}, so it trains without the recorder"
    elif command is not None and not any(event.kind == "entered" for event in run.events):
        doubt = missing_doubt(run, command)
        missing = None if doubt is None else doubt.text
    memory = watch.memory
    minibatches, needed = count_rows(run, place.rule)
    return Trial(
        name,
        watch.ended,
        watch.status,
        last_words,
        memory.peak_bytes if memory else None,
        memory.peak_shared_bytes if memory else 0,
        tuple(memory.by_process.values()) if memory else (),
        tuple(dict.fromkeys(written)),
        place.rule,
        minibatches,
        needed,
        count_untrained(run),
        missing,
        tuple(dict.fromkeys(programs)),
        place.most_bytes,
    )


def remove_made(folders: Sequence[str]) -> None:
    """Remove folders that a trial made, the innermost first; one in which something lies by now is left."""
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


class TrialCommand(CommandTrainee):
    """A user's command in a session of its own, ended with everything it started."""

    def __init__(
        self,
        experiment: Experiment,
        run: Path,
        log: int,
        board: SimulatedLoad | None,
        place: TrialPlace,
        change: LoaderChange | None,
        user: SudoUser | None = None,
    ) -> None:
        super().__init__(experiment, run, log, board, user)
        self._place, self._change = place, change
        self.watch = TrialWatch(run, place)

    def more_environment(self) -> Mapping[str, str]:
        writes = LIST_ONLY if self._place.allow_writes else STOP_AT_WRITES
        found = {LIST_WRITES: writes, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        if self._place.guard is not None:
            found["TMPDIR"] = self._place.guard.folder
        if self._place.writable:
            found[WRITABLE] = json.dumps(self._place.writable)
        if self._change is not None:
            found[LOADER_ARGUMENTS] = self._change.variable()
        return found

    def spawn(self, command: Sequence[str], env: Mapping[str, str], read_fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stdout,
            pass_fds=(read_fd,),
            start_new_session=True,
        )

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        process = self._process
        assert process is not None and self._go is not None
        recording.progress("trial", 0, None)
        with self._board.announced() if self._board else contextlib.nullcontext():
            self.watch.begin(process.pid, hooked=True)
            if self._place.guard is not None:
                self._place.guard.watch(process.pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go, b"g")
            while process.poll() is None and not self.watch.over():
                time.sleep(self.watch.poll_s)
            killed = process.poll() is None
            status = end_trial(process, self.watch, self._place)
        recording.manifest = with_process(recording.manifest, read_run(self._run, light=True).main.facts)
        if not killed:
            self.watch.command_ended(status)
        if self.watch.status is None:
            return Ending(reason=f"a trial, ended by edgetrain: {self.watch.ended}")
        return self._ending(recording, status, ())

    def stop(self) -> None:
        if self._go is not None:
            os.close(self._go)
            self._go = None
        if self._process is not None:
            # What it started may still run where it has ended by itself.
            if not kill_session(self._process.pid) and self._place.guard is not None:
                self._place.guard.release()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(WAIT_S)


class TrialWorkload(WorkloadTrainee):
    """A built-in network or the user's own, ended when enough minibatches were seen."""

    def __init__(
        self, experiment: Experiment, run: Path, generated: bool, place: TrialPlace, user: SudoUser | None = None
    ) -> None:
        super().__init__(experiment, run, generated, user)
        self._place = place
        self.watch = TrialWatch(run, place)

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        self.watch.begin(self.child.pid)
        if self._place.guard is not None:
            self._place.guard.watch(self.child.pid)
        self.child.order("train")
        while (messages := self.child.messages(self.watch.poll_s)) is not None:
            for message in messages:
                self.raise_failure(recording, message)
            if self.watch.over():
                end_trial(self.child.process, self.watch, self._place)
                return Ending(reason=f"a trial, ended by edgetrain: {self.watch.ended}")
        raise self._ended(recording)

    def stop(self) -> None:
        super().stop()
        if self._place.guard is not None:
            self._place.guard.release()


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """Return the end of what a command printed, in one line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return " / ".join(line.strip() for line in lines[-count:] if line.strip())


def end_trial(process: subprocess.Popen[bytes], watch: TrialWatch, place: TrialPlace) -> int:
    """Read the memory a last time, kill the trial with everything it started, and return its leader's status."""
    if watch.memory is not None and process.poll() is None:
        watch.memory.read_last()
    left = kill_session(process.pid)
    try:
        status = process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        raise ProcessesLeft(left or (Survivor(process.pid, "?"),)) from None
    if left:
        raise ProcessesLeft(left)
    if place.guard is not None:
        place.guard.release()
    return status
