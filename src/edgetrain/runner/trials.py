"""One trial of a training with other loader arguments: recorded like any run, ended by SIGKILL when enough was seen.

A trial is over when its loop has taken `TrialRule.warm_up` minibatches and, after them, at least
`TrialRule.minibatches` in at least `TrialRule.seconds`; a slow loop may end it with fewer after
`TrialRule.most_seconds`. The whole session is killed, so that no handler of the script saves anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetrain.device import open_device
from edgetrain.errors import UsageError
from edgetrain.lab import as_board, limits_for
from edgetrain.record import FolderStore, Run, read_run
from edgetrain.runner.child import SamplerProcess
from edgetrain.runner.command_trainee import CommandTrainee
from edgetrain.runner.containers import run_position
from edgetrain.runner.executor import with_dataset
from edgetrain.runner.manifest import current_command, first_manifest, with_process
from edgetrain.runner.recording import Ending, Progress, Recording
from edgetrain.runner.signals import stop_on_signal
from edgetrain.runner.simulated import simulate_run
from edgetrain.runner.simulated_command import SimulatedLoad
from edgetrain.runner.trial_memory import MemoryWatch, ProcessMemory
from edgetrain.runner.user import SudoUser, owned_by, sudo_user
from edgetrain.runner.workload_trainee import WorkloadTrainee
from edgetrain.schema import Experiment, LoaderArguments
from edgetrain.units import S_PER_US

LOADER_ARGUMENTS, LIST_WRITES = "EDGETRAIN_LOADER", "EDGETRAIN_LIST_WRITES"  # read by the hook
POLL_S = 0.1
MEMORY_EVERY_S = 0.3
ROWS_EVERY_S = 0.4
TRIAL_LOG = "command.log"  # what the command printed
STEPS_WITHOUT_LOADER = 50  # a loop that has made this many steps does not use a loader
SIMULATED_MINIBATCHES = 60  # per epoch, two epochs: a simulated board trains in no time
ENDLESS_EPOCHS = 100_000
LAST_LINES = 3


@dataclass(frozen=True, slots=True)
class TrialRule:
    """When enough minibatches were seen."""

    warm_up: int = 8  # not counted: caches, clocks, and the minibatches that fill the loader's queue
    minibatches: int = 32
    seconds: float = 2.5
    most_seconds: float = 20.0  # a loop slower than that ends with at least `fewest`
    fewest: int = 8
    limit_s: float = 180.0  # from the start of the command: the trial is given up

    def enough(self, count: int, seconds: float) -> bool:
        """Whether this many minibatches after warm-up, in this time, are enough."""
        full = count >= self.minibatches and seconds >= self.seconds
        return full or (count >= self.fewest and seconds >= self.most_seconds)


@dataclass(frozen=True, slots=True)
class LoaderChange:
    """The loader to change, by its place in the order of creation, and its arguments."""

    created: int
    arguments: LoaderArguments

    def variable(self) -> str:
        """Return the JSON that the hook reads."""
        given = self.arguments
        document = {
            "created": self.created,
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
    ended: str  # enough | by itself | no loader | limit | memory
    status: int | None  # of the command, where it ended by itself
    last_words: str
    peak_bytes: int | None
    shared_bytes: int  # of the peak, minibatches on their way from workers
    processes: tuple[ProcessMemory, ...]
    writes: tuple[str, ...]  # files it changed outside the temporary folder
    rule: TrialRule


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Where trials run, the same for all of one search."""

    store: FolderStore
    device: str = "auto"
    like: str | None = None
    temporary: str | None = None  # TMPDIR of the trials
    rule: TrialRule = TrialRule()
    most_bytes: int | None = None  # a trial that uses more is ended at once
    progress: Progress = lambda stage, done, total: None
    unified: bool = False  # the accelerator's memory is the machine's RAM


def run_trial(experiment: Experiment, place: TrialPlace, change: LoaderChange | None = None) -> Trial:
    """Train until enough was seen. `change` applies to a user's command; a network takes the experiment's loading."""
    user = sudo_user()
    with owned_by(user, place.store.path):
        if experiment.workload.command is not None:
            return _command_trial(experiment, place, change, user)
        if place.device.partition(":")[0] != "sim":
            return _workload_trial(experiment, place, user)
        short = replace(experiment, epochs=2, minibatches=SIMULATED_MINIBATCHES)
        with stop_on_signal():
            run = simulate_run(short, place.device, place.store, place.progress, tuple(current_command()))
        return Trial(run, "enough", None, "", None, 0, (), (), place.rule)


def _command_trial(
    experiment: Experiment, place: TrialPlace, change: LoaderChange | None, user: SudoUser | None
) -> Trial:
    command = experiment.workload.command or ()
    if run_position(command) is not None:
        raise UsageError(
            "a command that starts a container cannot be tuned from outside: a trial must be ended with everything it "
            "started; run edgetrain tune inside the container"
        )
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
    return _finished(writer.id, writer.path, trainee.watch, place, last_lines(writer.path / TRIAL_LOG))


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
    return _finished(writer.id, writer.path, trainee.watch, place, "")


def _finished(run: str, path: Path, watch: TrialWatch, place: TrialPlace, last_words: str) -> Trial:
    events = read_run(path, light=True).events
    written = [event.file for event in events if event.kind == "write" and event.file]
    memory = watch.memory
    return Trial(
        run,
        watch.ended,
        watch.status,
        last_words,
        memory.peak_bytes if memory else None,
        memory.peak_shared_bytes if memory else 0,
        tuple(memory.by_process.values()) if memory else (),
        tuple(dict.fromkeys(written)),
        place.rule,
    )


class TrialWatch:
    """Follows one trial from outside and decides when it is over."""

    def __init__(self, run: Path, place: TrialPlace, now_s: Callable[[], float] = time.monotonic) -> None:
        self.ended = "by itself"
        self.status: int | None = None
        self.memory: MemoryWatch | None = None
        self._run, self._place, self._now_s = run, place, now_s
        self._began_s = self._memory_s = self._rows_s = now_s()
        self._size = -1

    def begin(self, session: int) -> None:
        """The command begins, in a session of its own."""
        self.memory = MemoryWatch(session, unified=self._place.unified)
        self._began_s = self._now_s()

    def over(self) -> bool:
        """Return whether to end the trial now; `ended` says why."""
        now, place = self._now_s(), self._place
        if now >= self._memory_s:
            self._memory_s = now + MEMORY_EVERY_S
            used = self.memory.read() if self.memory else 0
            if place.most_bytes is not None and used > place.most_bytes:
                self.ended = "memory"
                return True
        if now - self._began_s > place.rule.limit_s:
            self.ended = "limit"
            return True
        if now >= self._rows_s:
            self._rows_s = now + ROWS_EVERY_S
            size = sum(file.stat().st_size for file in self._run.glob("minibatches-*.ets"))
            if size != self._size:
                self._size = size
                self.ended = judge_rows(read_run(self._run, light=True), place.rule)
        return self.ended in ("enough", "no loader")


def judge_rows(run: Run, rule: TrialRule) -> str:
    """Return `enough` where every training process has enough minibatches, `no loader` where it will never have."""
    training = []
    for process in run.processes:
        rows = process.minibatches
        if not len(rows):
            continue
        trained = np.isin(rows["phase"], (1, 4))
        fetched = trained & (rows["loader"] >= 0)
        if np.count_nonzero(trained) >= STEPS_WITHOUT_LOADER and not fetched.any():
            return "no loader"
        if fetched.any():
            asked_s = np.sort(rows["asked_us"][fetched]) * S_PER_US
            steady = asked_s[rule.warm_up :]
            training.append(rule.enough(len(steady), float(steady[-1] - steady[0]) if len(steady) else 0.0))
    return "enough" if training and all(training) else "by itself"


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
        found = {LIST_WRITES: "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        if self._place.temporary is not None:
            found["TMPDIR"] = self._place.temporary
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
            self.watch.begin(process.pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go, b"g")
            while process.poll() is None and not self.watch.over():
                time.sleep(POLL_S)
            killed = process.poll() is None
            kill_session(process.pid)
            status = process.wait()
        recording.manifest = with_process(recording.manifest, read_run(self._run, light=True).main.facts)
        if killed:
            return Ending(reason=f"a trial, ended by edgetrain: {self.watch.ended}")
        self.watch.ended, self.watch.status = "by itself", status
        return self._ending(recording, status, ())

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            kill_session(self._process.pid)
        super().stop()


class TrialWorkload(WorkloadTrainee):
    """A built-in network or the user's own, ended when enough minibatches were seen."""

    def __init__(
        self, experiment: Experiment, run: Path, generated: bool, place: TrialPlace, user: SudoUser | None = None
    ) -> None:
        super().__init__(experiment, run, generated, user)
        self.watch = TrialWatch(run, place)

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        self.watch.begin(self.child.pid)
        self.child.order("train")
        while (messages := self.child.messages(POLL_S)) is not None:
            for message in messages:
                self.raise_failure(recording, message)
            if self.watch.over():
                kill_session(self.child.pid)
                return Ending(reason=f"a trial, ended by edgetrain: {self.watch.ended}")
        raise self._ended(recording)


def kill_session(pid: int) -> None:
    """Kill a process group, the session of its leader and all descendants of it; no handler of theirs runs."""
    below = descendants(pid)  # found before their parents are gone
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                member = int(folder.name)
                if member in below or os.getsid(member) == pid:
                    os.kill(member, signal.SIGKILL)


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and those that they started, in whatever session they are."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    left = [pid]
    while left:
        new = [child for child in children.get(left.pop(), ()) if child not in found]
        found.update(new)
        left += new
    return found


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """Return the end of what a command printed, in one line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return " / ".join(line.strip() for line in lines[-count:] if line.strip())


def temporary_folder() -> str:
    """Make the folder that trials use for temporary files; a short path, because sockets are made in it."""
    path = tempfile.mkdtemp(prefix="et-")
    user = sudo_user()
    if user is not None:
        os.chown(path, user.uid, user.gid)
    return path
