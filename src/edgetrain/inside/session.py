"""One recording of one training process: streams, passes, epochs, and the five instants of a minibatch.

    s = session.begin(run_dir)
    for epoch in range(epochs):
        s.epoch(epoch)
        for batch in loader:
            s.copying(); x = x.to(device); s.copied()
            ...the step...
            s.launched()
        s.epoch_done(epoch, loss)
    s.end()

Nothing here may raise into the training or wait for the accelerator (in `async`). A minibatch is appended to lists;
now and then the loop reads what the accelerator has finished, and encodes it; a thread writes it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from multiprocessing import util
from typing import Any, Iterator

from . import counters, facts, loaders, stream
from .loaders import EPOCH, EVALUATION, PHASE, TRAINING
from .marks import Marks

KEEP_S = 2.0  # how often the streams go out; each time the loop waits for the interpreter
ATTEND_EVERY, ATTENDED = 8, 2  # of every so many minibatches of a pass, the one at which `opened` is called
NAME = "_edgetrain_session"  # on torch's loader module: one session a process, however this package was imported


def begin(run: str, timing: str = "async", steps: bool = False) -> Session:
    """Start recording this process into a run directory; return the session that already does, if one does.

    `steps` finds steps and backward passes by hooks, for loops that do not call `launched`.
    """
    from torch.utils.data import dataloader

    session = getattr(dataloader, NAME, None)
    if session is not None and session.pid == os.getpid() and not session.ended:
        if steps:
            session.find_steps()
        return session
    session = Session(str(run), timing, steps)
    setattr(dataloader, NAME, session)
    loaders.install(dataloader, lambda: live(dataloader))
    return session


def live(dataloader: Any) -> Any:
    """Return the session of this process; a training process that was forked off gets one of its own."""
    session = getattr(dataloader, NAME, None)
    if session is None or session.ended:
        return None
    if session.pid != os.getpid():
        if sys.modules["torch"].utils.data.get_worker_info() is not None:
            return None  # a loader inside a loader's worker
        session = Session(session.run, session.timing, session.finds_steps)
        setattr(dataloader, NAME, session)
    return session


def _here(dataloader: Any) -> Any:
    """Return the session of this process, if it wants steps found; never makes one."""
    session = getattr(dataloader, NAME, None)
    if session is None or session.ended or not session.finds_steps or session.pid != os.getpid():
        return None
    return session


class Session(Marks):
    """Records one process until `end`."""

    def __init__(self, run: str, timing: str, steps: bool) -> None:
        import torch

        if timing not in ("async", "sync"):
            raise ValueError("timing is async or sync, not %r" % (timing,))
        Marks.__init__(self, torch)
        self.run = run
        self.timing = timing
        self.pid = os.getpid()
        self.ended = False
        self.keeper_cpu_ns = 0  # of the thread that keeps the record
        self.problems: list[str] = []
        self.facts: dict[str, Any] = {}
        self.finds_steps = steps
        self.training_mode = True  # what Module.train was last told
        self.schedstat = counters.open_schedstat()
        self.passes: list[loaders.Pass] = []
        self._generations: dict[int, int] = {}
        self._loaders: list[dict[str, Any]] = []
        self._others: list[tuple[int, Any]] = []  # iterated, no torch loaders; kept alive: they keep their number
        self._label: int | None = None
        self._epochs = 0
        self._epochs_done: dict[int, float | None] = {}
        self._own_counters: counters.ThreadCounters | None = None
        self._own_streams: dict[int, stream.StreamWriter] = {}
        self._grad_enabled = torch.is_grad_enabled
        self._facts_path, place = facts.claim(run)
        self._first_number = place * 1000
        path = os.path.join(run, "minibatches-%d.ets" % self.pid)
        self._writer = stream.StreamWriter(path, "minibatches", stream.MINIBATCHES, {"pid": self.pid})
        self.emit: Any = self._writer.add  # bound: it runs once a minibatch
        self.out = self.emit
        self._dirty = True
        self._times_settled = 0  # when the record was kept last
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="edgetrain-writer", daemon=True)
        self._keeper.start()
        if steps:
            self.find_steps()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._left_behind)
        atexit.register(self.end)
        # A child of multiprocessing leaves without atexit, but runs its finalizers.
        util.Finalize(None, self.end, exitpriority=-50)

    def find_steps(self) -> None:
        """See backward passes and steps by hooks, for a loop that does not call `launched`."""
        from torch.utils.data import dataloader

        from . import steps

        self.finds_steps = True
        with self.guard("steps cannot be seen"):
            steps.install(self._torch, lambda: _here(dataloader))

    # ---- what the loop calls -------------------------------------------------------------------------------------

    def epoch(self, number: int) -> None:
        """Name the next pass over a loader: it is this epoch of training."""
        self._label = number

    def epoch_done(self, number: int, loss: float | None = None) -> None:
        """An epoch is over; its loss goes into the record."""
        self._epochs_done[number] = None if loss is None else float(loss)
        self._dirty = True

    def resumed(self, epoch: int) -> None:
        """Count epochs from this one on: the training was resumed."""
        self._epochs = max(self._epochs, epoch)

    def note(self, **known: Any) -> None:
        """Keep facts about the training (parameters, ...) in the record."""
        self.facts.update(known)
        self._dirty = True

    def end(self) -> None:
        """Close the last minibatch, write everything; safe to call twice."""
        if self.ended or self.pid != os.getpid():
            return
        with self.guard("the recording was not closed cleanly"):
            for track in list(self._stack):
                track.ended()
            self._let_go()
            if self._cuda is not None:
                self._cuda.drain()
        self.ended = True
        self._stop.set()
        self._keeper.join(5)
        for writer in self._streams():
            writer.close()
        self._write_facts()

    # ---- what the passes call ------------------------------------------------------------------------------------

    def number_of(self, loader: Any) -> int:
        """Return the number of a loader of this process, the same for each pass over it."""
        known = loader.__dict__.get("_edgetrain_number")
        if known is not None and known[0] == self.pid and known[1] < self._first_number + len(self._loaders):
            return known[1]
        number = self._first_number + len(self._loaders)
        loader.__dict__["_edgetrain_number"] = (self.pid, number)
        self._describe(loader, number)
        return number

    def number_of_other(self, batches: Any) -> int:
        """Return the number of something else that is iterated, the same for each pass over it."""
        for number, known in self._others:
            if known is batches:
                return number
        number = self._first_number + len(self._loaders)
        self._others.append((number, batches))
        self._describe(batches, number)
        return number

    def _describe(self, loader: Any, number: int) -> None:
        description = {"loader": number}
        with self.guard("a loader could not be described"):
            description = facts.describe(loader, number)
        self._loaders.append(description)
        self._dirty = True

    def generation_of(self, number: int) -> int:
        """Return which pass over this loader the next one is."""
        return self._generations.get(number, 0)

    def own_counters(self) -> counters.ThreadCounters:
        """Return the counters of the training thread, for loaders without workers."""
        if self._own_counters is None:
            self._own_counters = counters.ThreadCounters()
            self._own_counters.exclude(self._keeper)
        return self._own_counters

    def own_fetches(self, number: int) -> stream.StreamWriter:
        """Return the stream for minibatches that the loop fetches itself."""
        if number not in self._own_streams:
            path = os.path.join(self.run, "workers-%d-main-%d.ets" % (number, self.pid))
            meta = {"pid": self.pid, "main_pid": self.pid, "loader": number}
            self._own_streams[number] = stream.StreamWriter(path, "workers", stream.WORKERS, meta)
        return self._own_streams[number]

    def pass_begins(self, track: loaders.Pass) -> None:
        """Number a pass, and give it the epoch it was named, if it was."""
        track.generation = self._generations.get(track.loader, 0)
        self._generations[track.loader] = track.generation + 1
        track.began_us = time.monotonic_ns() // 1000
        if self._label is not None:
            track.epoch, self._label = self._label, None
            self._epochs = max(self._epochs, track.epoch + 1)
        self.passes.append(track)

    def opened(self, track: loaders.Pass) -> None:
        """Put a pass that delivered on top of those under way; now and then look after the accelerator and our cost."""
        since = (track.batches - ATTENDED) % counters.COSTED
        track.costing = since == 0
        track.attend_at = track.batches + ATTEND_EVERY - since % ATTEND_EVERY
        track.evaluating = self._evaluates()
        if self.current is track:
            if since:
                self._attend(self._cuda)
            return
        if self.current is not None:
            self.current.attend_at = 0
        stack = self._stack
        for other in [other for other in stack if other.left()]:
            other.ended()
        if self._lingering is track:
            self._lingering = None
        self._let_go()
        while track in stack and stack[-1] is not track:
            above = stack.pop()  # left by a break, or a loader run in step with this one
            above.ended_us = time.monotonic_ns() // 1000
            if above.row is not None:
                self.close_row(above)
        if track not in stack:
            stack.append(track)
        self.current = track

    def _attend(self, cuda: Any) -> None:
        """Read events that have finished, and encode rows that are complete: another thread would hinder the loop."""
        began_ns = time.thread_time_ns()
        with self.guard("what was recorded could not be read or encoded"):
            if cuda is not None and cuda.settle() and cuda.due():
                cuda.anchor()  # nothing is under way on the accelerator: it waits for this minibatch
            for writer in self._streams():
                writer.encode()
        self.attending_ns += time.thread_time_ns() - began_ns

    def close_row(self, track: loaders.Pass) -> None:
        """The loop is done with a minibatch: decide what it was, and let it go out."""
        row, track.row = track.row, None
        if row[PHASE] == TRAINING:
            track.trained += 1
            if track.epoch is None:
                track.epoch = self._next_epoch()
            track.evaluating = False
        else:
            evaluates = self._evaluates()
            if track.evaluating or evaluates:
                row[PHASE] = EVALUATION
            track.evaluating = evaluates
        row[EPOCH] = track.epoch
        self.out(row)

    def _evaluates(self) -> bool:
        """Return whether the loop now does what cannot be training."""
        return not (self.training_mode and self._grad_enabled())

    def pass_ends(self, track: loaders.Pass) -> None:
        """A pass is over; the accelerator's clock is tied to ours again while the loop stands still."""
        track.ended_us = time.monotonic_ns() // 1000
        self._let_go()
        if track in self._stack:
            self._stack.remove(track)
            self.current = self._stack[-1] if self._stack else None
            if self._cuda is not None and track.trained and self.timing == "async":
                self._cuda.anchor()
        if track.row is not None:
            if self._stack:
                self.close_row(track)  # the loop around it goes on
            else:
                self._lingering = track
        self._dirty = True

    def _let_go(self) -> None:
        """Let the last minibatch of a pass that is over go out."""
        track, self._lingering = self._lingering, None
        if track is not None and track.row is not None:
            self.close_row(track)

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Turn an error of ours into a note in the record."""
        try:
            yield
        except Exception as error:
            self.problem("%s: %r" % (what, error))

    def problem(self, text: str) -> None:
        """Keep one sentence about what could not be measured, once."""
        if text not in self.problems and len(self.problems) < 50:
            self.problems.append(text)
            stream.append_event(os.path.join(self.run, "events-inside.jsonl"), "doubt", text, pid=self.pid)

    # ---- inside --------------------------------------------------------------------------------------------------

    def _next_epoch(self) -> int:
        # Loaders run in step (zip) share the epoch of the pass that is under way.
        for other in self._stack:
            if other.epoch is not None and other.row is not None:
                return other.epoch
        self._epochs += 1
        return self._epochs - 1

    def _streams(self) -> list[stream.StreamWriter]:
        return [self._writer] + list(self._own_streams.values())

    def _keep(self) -> None:
        while not self._stop.wait(KEEP_S):
            self.keep()
            self.keeper_cpu_ns = time.thread_time_ns()

    def keep(self) -> None:
        """Write what waits, and read finished events if the loop has not done so since the last time.

        On an H200 a second's events took the loop 2.3 ms from here, where it waits for the interpreter, 0.6 by itself.
        """
        cuda = self._cuda
        if cuda is not None and cuda.times_settled == self._times_settled:
            with self.guard("events on the accelerator could not be read"):
                cuda.settle()
        self._times_settled = 0 if cuda is None else cuda.times_settled
        for writer in self._streams():
            writer.flush()
        if self._dirty:
            self._write_facts()

    def _write_facts(self) -> None:
        self._dirty = False
        try:
            stream.write_json(self._facts_path, facts.collect(self, self._torch, self._cuda))
        except Exception as error:  # the thread that keeps the record must go on
            self.problem("facts about the training could not be written: %s" % error)

    @property
    def minibatches(self) -> int:
        """How many minibatches were delivered so far."""
        return sum(track.batches for track in list(self.passes))

    def cost_us(self) -> float | None:
        """Return what we took of the training thread, µs of CPU a minibatch; None while that is not known."""
        if not self.costed:
            return None
        return self.cost_ns / 1e3 / self.costed + self.attending_ns / 1e3 / self.minibatches

    def written_bytes(self) -> int:
        """Return what this session has written so far."""
        return sum(writer.written_bytes for writer in self._streams())

    def describe(self) -> dict[str, Any]:
        """Return loaders, passes and losses for the record."""
        epochs = [
            {
                "epoch": track.epoch,
                "generation": track.generation,
                "loader": track.loader,
                "began_us": track.began_us,
                "ended_us": track.ended_us,
                "minibatches": track.batches,
                "trained": track.trained,
                "loss": self._epochs_done.get(track.epoch) if track.epoch is not None else None,
            }
            for track in list(self.passes)
        ]
        return {"loaders": list(self._loaders), "epochs": epochs}

    def _left_behind(self) -> None:
        # In a forked child: what the parent has in hand is the parent's to write.
        if self.pid != os.getpid():
            self.emit = lambda row: None
            self.send_rows_to(self.emit)
            for writer in self._own_streams.values():
                vars(writer)["add"] = self.emit
