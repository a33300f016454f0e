"""Follows one trial from outside, and decides when it is over.

A trial is over when its loop has taken `TrialRule.warm_up` minibatches (and all that the loader fetches ahead) and,
after them, at least `TrialRule.minibatches` in at least `TrialRule.seconds`; a slow loop may end it with fewer after
`TrialRule.most_seconds`. Where a pass over the dataset is short, it goes on until one has begun. It is over before that
where it would write files, needs too much memory, or runs without the recorder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.record import FolderStore, LoaderFacts, Process, Run, read_run
from edgetrain.runner.recording import Progress
from edgetrain.runner.trial_guard import TrialGuard
from edgetrain.runner.trial_hooked import unhooked_trainer
from edgetrain.runner.trial_memory import MemoryWatch
from edgetrain.runner.trial_processes import family
from edgetrain.runner.trial_turns import TRAINED, LoopTurns, find_fetched, find_turns

EVENTS = "events-inside.jsonl"  # written by the hook
POLL_S = 0.1
ROWS_EVERY_S = 0.4
TRAINER_EVERY_S = 1.0  # whether the process that trains has the recorder, until there are minibatches
STEPS_WITHOUT_LOADER = 50  # a loop that has made this many steps does not use a loader
# The hook says that it was loaded as soon as a Python starts, before any import. Nothing protects the user's files
# until then, so a command that has not started a Python with it by now is ended.
ENTERED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class TrialRule:
    """When enough minibatches were seen."""

    warm_up: int = 8  # not counted: caches, clocks, and the minibatches that fill the loader's queue
    minibatches: int = 32
    seconds: float = 2.5
    most_seconds: float = 20.0  # a loop slower than that ends with at least `fewest`
    fewest: int = 8
    limit_s: float = 180.0  # from the first minibatch on: the trial is given up
    startup_s: float = 300.0  # from the start of the command to its first minibatch
    untrained_s: float = 60.0  # from the first minibatch of a loader to the first training step
    # A pass over the dataset that takes less is followed past the start of the next one, which costs time too: without
    # that a slow setting would end before a pass begins, and only the fast ones would be charged for it.
    pass_seconds: float = 5.0

    def enough(self, count: int, seconds: float, pass_to_come: bool = False) -> bool:
        """Whether this many minibatches after warm-up, in this time, are enough; `pass_to_come`: one begins soon."""
        if count >= self.fewest and seconds >= self.most_seconds:
            return True
        return count >= self.minibatches and seconds >= self.seconds and not pass_to_come

    def pass_to_come(self, turns: LoopTurns, length: int | None) -> bool:
        """Whether no pass began after warm-up, although passes of this many minibatches are short."""
        if not length or len(turns) < 2 or turns.begins_pass:
            return False
        return length * turns.seconds / (len(turns) - 1) <= self.pass_seconds

    def warm_up_of(self, loader: LoaderFacts | None) -> int:
        """Return the minibatches that do not count: at least `warm_up`, and all that the loader fetches ahead."""
        if loader is None or not loader.workers:
            return self.warm_up
        return max(self.warm_up, loader.workers * (loader.prefetch_factor or 2))

    @property
    def least(self) -> int:
        """The minibatches after warm-up that a trial must have at its time limit."""
        return self.fewest if self.limit_s >= self.most_seconds else self.minibatches


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Where trials run, the same for all of one search."""

    store: FolderStore
    device: str = "auto"
    like: str | None = None
    guard: TrialGuard | None = None  # ends what is left where edgetrain is killed; has the TMPDIR of the trials
    rule: TrialRule = TrialRule()
    most_bytes: int | None = None  # a trial that uses more is ended at once
    progress: Progress = lambda stage, done, total: None
    unified: bool = False  # the accelerator's memory is the machine's RAM
    allow_writes: bool = False  # False: a command is ended before it changes a file outside the temporary folder
    writable: tuple[str, ...] = ()  # or these folders


class TrialWatch:
    """Follows one trial from outside and decides when it is over."""

    def __init__(self, run: Path, place: TrialPlace, now_s: Callable[[], float] = time.monotonic) -> None:
        self.ended = "by itself"
        self.status: int | None = None
        self.memory: MemoryWatch | None = None
        self._run, self._place, self._now_s = run, place, now_s
        self.unhooked: str | None = None  # a process that trains without the recorder
        self._began_s = self._rows_s = self._trainer_s = now_s()
        self._size = -1
        self._events = EventTail(run / EVENTS)
        self._hooked = False  # by a hook that says when it is loaded and which files are written
        self._entered: set[int] = set()
        self._wrote = False
        self._trains_since_s: float | None = None  # when the first minibatch was seen
        self._loads_since_s: float | None = None  # when a loader's first minibatch was seen, if none was trained on yet

    def begin(self, session: int, hooked: bool = False) -> None:
        """The program begins, in a session of its own; `hooked`: it is a command that the hook should enter."""
        self.memory = MemoryWatch(session, unified=self._place.unified, most_bytes=self._place.most_bytes)
        self._began_s, self._hooked = self._now_s(), hooked

    @property
    def poll_s(self) -> float:
        """How long to wait before `over` is called again."""
        return POLL_S if self.memory is None else min(POLL_S, self.memory.poll_s)

    def over(self) -> bool:
        """Return whether to end the trial now; `ended` says why."""
        now, place = self._now_s(), self._place
        if self._hooked and (why := self._unprotected(now)) is not None:
            self.ended = why
            return True
        if self.memory is not None and self.memory.exceeded():
            self.ended = "memory"
            return True
        if now >= self._rows_s:
            self._rows_s = now + ROWS_EVERY_S
            size = sum(file.stat().st_size for file in self._run.glob("minibatches-*.ets"))
            if size != self._size:
                self._size = size
                run = read_run(self._run, light=True)
                self.ended = judge_rows(run, place.rule)
                if self._trains_since_s is None and count_rows(run, place.rule)[0]:
                    self._trains_since_s = now
                if not count_untrained(run):
                    self._loads_since_s = None
                elif self._loads_since_s is None:
                    self._loads_since_s = now
        if self.ended == "by itself" and self._never_trains(now):
            self.ended = "no steps"
        elif self.ended == "by itself" and self._is_late(now):
            self.ended = "limit"
        return self.ended in ("enough", "no loader", "no steps", "limit")

    def _never_trains(self, now_s: float) -> bool:
        since_s = self._loads_since_s
        return since_s is not None and now_s - since_s > self._place.rule.untrained_s

    def _is_late(self, now_s: float) -> bool:
        rule = self._place.rule
        if self._trains_since_s is None:
            return now_s - self._began_s > rule.startup_s
        return now_s - self._trains_since_s > rule.limit_s

    def command_ended(self, status: int) -> None:
        """The command ended before it was ended: by itself, or by the hook because it was about to write a file."""
        self._read_events()
        if self._wrote and not self._place.allow_writes:
            self.ended = "writes"
        else:
            self.ended, self.status = "by itself", status

    def _unprotected(self, now: float) -> str | None:
        """Return why a command must be ended: it is about to write, or the recorder is not in what trains."""
        self._read_events()
        if self._wrote and not self._place.allow_writes:
            return "writes"
        if not self._entered and now - self._began_s > ENTERED_WITHIN_S:
            return "not entered"
        if now >= self._trainer_s and self._size <= 0 and self.memory is not None:
            self._trainer_s = now + TRAINER_EVERY_S
            self.unhooked = unhooked_trainer([one.pid for one in family(self.memory.session)], self._entered)
            return None if self.unhooked is None else "not entered"
        return None

    def _read_events(self) -> None:
        for event in self._events.read():
            if event.get("kind") == "entered":
                self._entered.add(int(event.get("pid") or 0))
            self._wrote = self._wrote or event.get("kind") == "write"


class EventTail:
    """Reads the lines that are appended to an events file, each once."""

    def __init__(self, path: Path) -> None:
        self._path, self._place, self._rest = path, 0, b""

    def read(self) -> list[dict[str, Any]]:
        """Return the events that came since the last call; a line that cannot be read is left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                data = file.read()
        except OSError:
            return []
        self._place += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for event in map(_event, lines) if isinstance(event, dict)]


def _event(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def judge_rows(run: Run, rule: TrialRule) -> str:
    """Return `enough` where every training process has enough minibatches, `no loader` where it will never have."""
    training = []
    for process in run.processes:
        turns = find_turns(process.minibatches)
        if not len(turns) and turns.steps_without_loader >= STEPS_WITHOUT_LOADER:
            return "no loader"
        if len(turns):
            loader = _loader_of(process, turns)
            steady = turns.after(rule.warm_up_of(loader))
            to_come = rule.pass_to_come(steady, None if loader is None else loader.length)
            training.append(rule.enough(len(steady), steady.seconds, to_come))
    return "enough" if training and all(training) else "by itself"


def _loader_of(process: Process, turns: LoopTurns) -> LoaderFacts | None:
    """Return the loader that most minibatches came from; None where the record does not have it yet."""
    number = int(np.bincount(turns.loader).argmax()) if len(turns) else None
    return next((one for one in process.facts.loaders if one.loader == number), None)


def count_untrained(run: Run) -> int:
    """Return how many minibatches a process took from loaders, if no training step was seen; 0 where one was.

    Those of evaluation are left out.
    """
    tables = [process.minibatches for process in run.processes if len(process.minibatches)]
    if any(np.isin(rows["phase"], TRAINED).any() for rows in tables):
        return 0
    return max((int(np.count_nonzero(find_fetched(rows))) for rows in tables), default=0)


def count_rows(run: Run, rule: TrialRule) -> tuple[int, int]:
    """Return how many minibatches the process with the fewest has taken, and the least that it needs."""
    counts = []
    for process in run.processes:
        if len(process.minibatches):
            turns = find_turns(process.minibatches)
            counts.append((len(turns), rule.warm_up_of(_loader_of(process, turns)) + rule.least))
    trained = [one for one in counts if one[0]] or counts
    return min(trained, default=(0, rule.warm_up + rule.least))
