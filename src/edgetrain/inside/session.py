"""One recording of one training process: its streams, threads, loaders, epochs and facts.

    s = session.begin(run_dir)
    for epoch in range(epochs):
        s.epoch(epoch)
        for batch in loader:
            s.copying(); x = x.to(device); s.copied()
            ...the step...
            s.launched()
        s.epoch_done(epoch, loss)
    s.end()

Nothing here may raise into the training or wait for the accelerator (in `async`). A row is appended to a list; every
few rows the loop reads what the accelerator has finished, and encodes what is complete; a thread writes it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from multiprocessing import util
from typing import Any, Iterator

from . import facts, loaders, steps, stream
from .accelerator import Cuda
from .process import current, flush_before_exit, keep
from .sites import Sites
from .timeline import Timeline

HOUSEKEEPING_INTERVAL_ROWS = 8  # a divisor of COST_EVERY
WAKE_INTERVAL_S = 0.45  # of the writer thread, twice per flush: so it notices when the process is stopped
STOPPED_S = 0.4  # the writer thread woke this late, and the process used hardly any CPU time meanwhile
STOPPED_CPU_SHARE = 0.1


def begin(run: str, timing: str = "async", steps: bool = False, flush_interval_s: float | None = None) -> Session:
    """Start recording this process into a run directory; return the session that already does, if one does.

    `steps` finds steps and backward passes by hooks, for loops that do not call `launched`.
    """
    from torch.utils.data import dataloader

    session = current()
    if session is None:
        session = Session(str(run), timing, steps, flush_interval_s or stream.FLUSH_INTERVAL_S)
        keep(session)
        loaders.install(dataloader, current_or_forked)
    elif steps:
        session.find_steps()
    return session


def current_or_forked() -> Any:
    """Return the session of this process; a training process that was forked off gets one of its own."""
    return current(after_fork=lambda old: begin(old.run, old.timing, old.finds_steps))


class Session:
    """Records one process until `end`."""

    def __init__(self, run: str, timing: str, finds_steps: bool, flush_interval_s: float) -> None:
        import torch

        if timing not in ("async", "sync"):
            raise ValueError("timing is async or sync, not %r" % (timing,))
        self.torch = torch
        self.run, self.timing, self.pid = run, timing, os.getpid()
        self.ended = False
        self.problems: list[str] = []
        self.facts: dict[str, Any] = {}
        self.finds_steps = finds_steps
        self.training_mode = True  # as last set by Module.train
        self.in_backward: Timeline | None = None  # the thread in which a backward pass is under way
        self.label: int | None = None  # the epoch, as the loop named it
        self.stretch, self.least_step_s = steps.stretch(), steps.least_step_s()
        self.count_nodes = steps.node_counter(torch)
        self.grad_enabled = torch.is_grad_enabled
        self.sites = Sites()
        # CPU time of the training thread that edgetrain's code used, and the number of rows. Not elapsed time: if the
        # kernel switches to another program during edgetrain's code, that program's time is not edgetrain's cost.
        self.cost_ns = self.costed = self.housekeeping_ns = self.rows = 0
        readings = [time.thread_time_ns() for _ in range(8)]
        self._clock_ns = min(after - before for before, after in zip(readings, readings[1:]))
        self.cuda: Cuda | None = None
        self._cuda_possible = bool(getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None))
        self._timelines: dict[int, Timeline] = {}
        self._here: Timeline | None = None  # the one used last
        self._first_optimizer: Any = None
        self._optimizers = 0  # that have stepped
        self._loaders = facts.Loaders(self.guard)
        # The passes under way, by the number of their loader.
        self.passes: weakref.WeakValueDictionary[int, loaders.Pass] = weakref.WeakValueDictionary()
        self._epochs_done: list[dict[str, Any]] = []
        self._facts_path = facts.claim(run)
        self._dirty = True
        self._writer = stream.StreamWriter(
            os.path.join(run, "minibatches-%d.ets" % self.pid), "minibatches", stream.MINIBATCHES, {"pid": self.pid}
        )
        self._own_fetches: stream.StreamWriter | None = None
        self.out: Any = self._writer.add  # takes a row that the loop is done with; each timeline has it too
        self._times_settled = 0  # at the last flush
        self.writer_cpu_ns = 0
        self._flush_interval_s = flush_interval_s
        self._stop = threading.Event()
        self.writer_thread = threading.Thread(target=self._write_on, name="edgetrain-writer", daemon=True)
        self.writer_thread.start()
        if finds_steps:
            self.find_steps()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)
        # A child of multiprocessing leaves without atexit, but runs its finalizers; os._exit runs neither.
        util.Finalize(None, self.end, exitpriority=-50)
        flush_before_exit(self.end)

    def find_steps(self) -> None:
        """Find backward passes and steps by hooks, for a loop that does not call `launched`."""
        self.finds_steps = True
        with self.guard("steps cannot be found"):
            steps.install(self.torch, current_or_forked)

    # ---- what the loop calls -------------------------------------------------------------------------------------

    def epoch(self, number: int) -> None:
        """Name the epoch that begins here."""
        self.label = number

    def epoch_done(self, number: int, loss: float | None = None) -> None:
        """An epoch is over; its loss goes into the record."""
        loss = None if loss is None else float(loss)
        self._epochs_done.append({"epoch": number, "ended_us": stream.now_us(), "loss": loss})
        self._dirty = True

    def note(self, **known: Any) -> None:
        """Keep facts about the training (parameters, ...) in the record."""
        self.facts.update(known)
        self._dirty = True

    def copying(self) -> None:
        """The copy of this minibatch to the accelerator begins."""
        self.timeline().copying()

    def copied(self) -> None:
        """The copy has been issued."""
        self.timeline().copied()

    def launched(self) -> None:
        """The host has issued the step of this minibatch."""
        self.timeline().launched()

    def end(self) -> None:
        """Close the last row, write everything; safe to call twice."""
        if self.ended or self.pid != os.getpid():
            return
        with self.guard("the recording was not closed cleanly"):
            for timeline in list(self._timelines.values()):
                if timeline.row is not None:
                    timeline.close()
            if self.cuda is not None:
                self.cuda.drain()
        self.ended = True
        self._stop.set()
        if threading.current_thread() is not self.writer_thread:
            self.writer_thread.join(5)
        for writer in self._streams():
            writer.close()
        self._write_facts()

    # ---- what hooks call -----------------------------------------------------------------------------------------

    def backward_begins(self, roots: Any = None) -> bool:
        """Return False where this one runs inside another (a checkpoint recomputes) and is part of it."""
        if self.in_backward is not None:
            return False
        self.in_backward = self.timeline()
        with self.guard("a backward pass could not be recorded"):
            self.in_backward.backward_begins(roots)
        return True

    def backward_ended(self, failed: bool = False) -> None:
        """The backward pass that `backward_begins` announced has been issued."""
        timeline, self.in_backward = self.in_backward, None
        if timeline is not None and not failed:
            with self.guard("a backward pass could not be recorded"):
                timeline.backward_ended()

    def stepped(self, optimizer: Any) -> None:
        """An optimizer step has been issued."""
        first = None if self._first_optimizer is None else self._first_optimizer()
        if first is None:
            first = optimizer
            self._first_optimizer = weakref.ref(optimizer)
        if "parameters" not in self.facts:
            with self.guard("parameters could not be counted"):
                self.note(parameters=sum(p.numel() for group in optimizer.param_groups for p in group["params"]))
        timeline = self.in_backward or self.timeline()
        with self.guard("an optimizer step could not be recorded"):
            timeline.stepped(self._number(optimizer), optimizer is first)

    def _number(self, optimizer: Any) -> int:
        """Return the number of an optimizer of this process, in order of their first steps."""
        known = optimizer.__dict__.get("_edgetrain_number")
        if known is None or known[0] != self.pid:
            known = optimizer.__dict__["_edgetrain_number"] = (self.pid, self._optimizers)
            self._optimizers += 1
        return int(known[1])

    def loop_began_us(self) -> int:
        """Return when the step began of which the first thing seen is its backward pass or its update."""
        return steps.loop_began_us(self.count_nodes)

    # ---- what passes and timelines call --------------------------------------------------------------------------

    def timeline(self) -> Timeline:
        """Return the timeline of the calling thread."""
        ident = threading.get_ident()
        here = self._here
        if here is None or here.ident != ident:
            here = self._timelines.get(ident)
            if here is None:
                here = self._timelines[ident] = Timeline(self, len(self._timelines), ident)
            self._here = here
        return here

    def number_of(self, loader: Any) -> int:
        """Return the number of a loader of this process, the same for each pass over it."""
        self._dirty = True
        return self._loaders.number_of(loader)

    def totals_of(self, number: int) -> loaders.Totals:
        """Return what was done with the batches of a loader."""
        return self._loaders.totals(number)

    def generation_of(self, number: int) -> int:
        """Return which pass over this loader the next one is."""
        return self._loaders.passes.get(number, 0)

    def pass_begins(self, number: int) -> int:
        """Count a pass over a loader; return which it is."""
        generation = self._loaders.passes.get(number, 0)
        self._loaders.passes[number] = generation + 1
        return generation

    def pass_ends(self, track: loaders.Pass) -> None:
        """A pass has come to its end."""
        if self.passes.get(track.loader) is track:
            del self.passes[track.loader]

    def iterated(self, loader: Any) -> None:
        """A loader with an `__iter__` of its own is iterated: if its last pass goes on, an epoch begins here."""
        number = self._loaders.known(loader)
        track = None if number is None else self.passes.get(number)
        if track is not None:
            track.round = 0 if track.round is None else track.round + 1

    def own_fetches(self) -> stream.StreamWriter:
        """Return the stream for minibatches that the loop fetches itself."""
        if self._own_fetches is None:
            path = os.path.join(self.run, "workers-own-%d.ets" % self.pid)
            self._own_fetches = stream.StreamWriter(path, "workers", stream.WORKERS, {"main_pid": self.pid})
        return self._own_fetches

    def do_housekeeping(self, timeline: Timeline) -> None:
        """Every few rows: read events that have finished, encode complete rows, and have edgetrain's cost measured.

        In the loop's thread: another thread would hold the interpreter's lock meanwhile, and the loop would wait.
        """
        timeline.housekeeping_at = timeline.count + HOUSEKEEPING_INTERVAL_ROWS
        timeline.costs_next = not timeline.costs_next
        if timeline.costs_next:
            timeline.costing = True
            return
        began_ns = time.thread_time_ns()
        with self.guard("what was recorded could not be read or encoded"):
            cuda = self.cuda
            if cuda is not None and cuda.settle() and cuda.due():
                cuda.anchor()  # nothing is under way on the accelerator: it waits for this minibatch
            for writer in self._streams():
                writer.encode()
        self.housekeeping_ns += time.thread_time_ns() - began_ns

    def anchor(self) -> None:
        """Tie the accelerator's clock to ours, where the loop does not compute."""
        if self.cuda is not None and self.timing == "async":
            self.cuda.anchor()

    def find_cuda(self) -> Any:
        """Return the accelerator's clock, once the program uses one."""
        if self.cuda is None and self._cuda_possible and self.torch.cuda.is_initialized():
            self.use_accelerator(Cuda(self.torch, self._writer.add, self.problem))
        return self.cuda

    def use_accelerator(self, cuda: Cuda) -> None:
        """Let rows pass through the accelerator's queue from now on: they leave when their events have finished."""
        self.cuda = cuda
        self.send_rows_to(cuda.close)

    def send_rows_to(self, out: Any) -> None:
        """Let rows that the loop is done with go there from now on."""
        self.out = out
        for timeline in self._timelines.values():
            timeline.out = out

    def spent(self, since_ns: int) -> None:
        """Count our own CPU time in the training thread since this reading of its clock, less the reading's own."""
        self.cost_ns += time.thread_time_ns() - since_ns - self._clock_ns

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Turn an error of the recorder into a note in the record."""
        try:
            yield
        except Exception as error:
            self.problem("%s: %r" % (what, error))

    def problem(self, text: str) -> None:
        """Keep one sentence about what could not be measured, once."""
        if text not in self.problems and len(self.problems) < 50:
            self.problems.append(text)
            self._doubt(text)

    def _doubt(self, text: str, **more: Any) -> None:
        stream.append_event(os.path.join(self.run, "events-inside.jsonl"), "doubt", text, pid=self.pid, **more)

    # ---- writing -------------------------------------------------------------------------------------------------

    def _streams(self) -> list[stream.StreamWriter]:
        return [self._writer] if self._own_fetches is None else [self._writer, self._own_fetches]

    def _write_on(self) -> None:
        due = time.monotonic() + self._flush_interval_s
        woke, cpu = time.monotonic(), time.process_time()
        while not self._stop.wait(WAKE_INTERVAL_S):
            last, last_cpu = woke, cpu
            woke, cpu = time.monotonic(), time.process_time()
            if was_stopped(woke - last - WAKE_INTERVAL_S, cpu - last_cpu):
                self._doubt(
                    "the training process did not run for %.1f s and used no CPU time: it was stopped by a signal, "
                    "or its machine was paused" % (woke - last - WAKE_INTERVAL_S),
                    doubt="stopped",
                )
            if woke >= due - WAKE_INTERVAL_S / 2:
                due = woke + self._flush_interval_s
                self.flush()
            self.writer_cpu_ns = time.thread_time_ns()

    def flush(self) -> None:
        """Write what waits, and read finished events if the loop has not done so since the last time.

        On an H200 a second's events took the loop 2.3 ms from here, where it waits for the interpreter, 0.6 by itself.
        """
        cuda = self.cuda
        if cuda is not None and cuda.times_settled == self._times_settled:
            with self.guard("accelerator events could not be read"):
                cuda.settle()
        self._times_settled = 0 if cuda is None else cuda.times_settled
        for writer in self._streams():
            writer.flush()
        if self._dirty:
            self._write_facts()

    def _write_facts(self) -> None:
        self._dirty = False
        try:
            stream.write_json(self._facts_path, facts.collect(self))
        except Exception as error:  # the writer thread must go on
            self.problem("facts about the training could not be written: %s" % error)

    def cost_us(self) -> float | None:
        """Return what we took of the training thread, µs of CPU per row; None while that is not known."""
        if not self.costed or not self.rows:
            return None
        return self.cost_ns / 1e3 / self.costed + self.housekeeping_ns / 1e3 / self.rows

    def written_bytes(self) -> int:
        """Return what this session has written so far."""
        return sum(writer.written_bytes for writer in self._streams())

    def describe(self) -> dict[str, Any]:
        """Return loaders, epochs and losses for the record."""
        return {"loaders": self._loaders.described(), "epochs": list(self._epochs_done)}

    def _forked(self) -> None:
        # In a forked child: the parent writes the rows collected so far.
        if self.pid != os.getpid():
            self.ended = True
            self.send_rows_to(lambda row: None)


def was_stopped(late_s: float, cpu_s: float) -> bool:
    """Return whether a process whose thread woke this late was stopped: it used hardly any CPU time meanwhile."""
    return late_s > STOPPED_S and cpu_s < STOPPED_CPU_SHARE * late_s
