"""The instants of the minibatch in hand: copy begun, copied, launched, done; on the host or by CUDA events."""

from __future__ import annotations

from time import monotonic_ns, thread_time_ns
from typing import Any

from .accelerator import Cuda
from .loaders import COPIED, COPYING, DONE, LAUNCHED, PHASE, TRAINING, Pass


class Marks:
    """What a loop says, or hooks see, about the minibatch that was delivered last."""

    timing = "async"
    current: Pass | None = None  # the pass that delivered last
    # CPU time that our own code took of the training thread, and over how many minibatches. Not the clock: a kernel
    # that preempts where a thread enters it lets others run in our code that would have run a little later anyhow.
    cost_ns = costed = 0
    attending_ns = 0  # CPU time that reading events and encoding rows took of it
    out: Any  # takes a row that the loop is done with; each pass has it too
    passes: list[Pass]

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._stack: list[Pass] = []
        self._lingering: Pass | None = None  # a pass that is over, its last minibatch still in hand
        self._cuda: Cuda | None = None
        self._cuda_possible = bool(getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None))
        self._cuda_started = torch.cuda.is_initialized
        readings = [thread_time_ns() for _ in range(8)]
        self._clock_ns = min(after - before for before, after in zip(readings, readings[1:]))

    def copying(self) -> None:
        """The copy of this minibatch to the accelerator begins here.

        No event is spent on it: one stream works in order, so the copy begins when the host issues it or when the
        previous step is done, whichever is later, and both are known.
        """
        track = self.current
        if track is None or track.row is None:
            return
        entered = thread_time_ns() if track.costing else 0
        if self.timing == "sync" and (self._cuda or self._find_cuda()) is not None:
            self._torch.cuda.synchronize()
        track.row[COPYING] = monotonic_ns() // 1000
        if entered:
            self.spent(entered)

    def copied(self) -> None:
        """The copy has been issued; on the accelerator it ends here."""
        track = self.current
        if track is None or track.row is None:
            return
        entered = thread_time_ns() if track.costing else 0
        cuda = self._cuda or self._find_cuda()
        if cuda is not None and self.timing != "sync":
            cuda.mark(track.row, COPIED, monotonic_ns() // 1000)
        else:
            if cuda is not None:
                self._torch.cuda.synchronize()
            track.row[COPIED] = monotonic_ns() // 1000
        if entered:
            self.spent(entered)

    def launched(self) -> None:
        """The host has issued the step of this minibatch."""
        now_us = monotonic_ns() // 1000
        track = self.current
        if track is None or track.row is None:
            return
        entered = thread_time_ns() if track.costing else 0
        row = track.row
        row[PHASE] = TRAINING
        cuda = self._cuda or self._find_cuda()
        again = row[LAUNCHED] is not None
        row[LAUNCHED] = now_us
        if cuda is None:
            row[DONE] = now_us
        elif self.timing == "sync":
            self._torch.cuda.synchronize()
            row[DONE] = monotonic_ns() // 1000
        elif again:
            cuda.remark(row, DONE, now_us)
        else:
            cuda.mark(row, DONE, now_us)
        if entered:
            self.spent(entered)

    def step_seen(self) -> None:
        """A hook saw a backward pass or an optimiser step end: every minibatch in hand was trained on."""
        now_us = monotonic_ns() // 1000
        entered = thread_time_ns() if self.current is not None and self.current.costing else 0
        cuda = self._cuda or self._find_cuda()
        synchronised = cuda is not None and self.timing == "sync"
        if synchronised:
            self._torch.cuda.synchronize()
        lingering = self._lingering
        for track in self._stack if lingering is None else [lingering]:
            row = track.row
            if row is None or (track.evaluating and track is not self.current):
                continue  # a loader left open by an evaluation lies under the one that trains
            row[PHASE] = TRAINING
            row[LAUNCHED] = now_us
            if cuda is None or synchronised:
                row[DONE] = monotonic_ns() // 1000 if synchronised else row[LAUNCHED]
            elif track is self.current or track is lingering:
                cuda.remark(row, DONE, now_us)
        if entered:
            self.spent(entered)

    def spent(self, since_ns: int) -> None:
        """Count our own CPU time in the training thread since this reading of its clock, less the reading's own."""
        self.cost_ns += thread_time_ns() - since_ns - self._clock_ns

    def _find_cuda(self) -> Any:
        if self._cuda is None and self._cuda_possible and self._cuda_started():
            self._cuda = Cuda(self._torch, self.emit, self.problem)
            self.send_rows_to(self._cuda.close)
        return self._cuda

    def send_rows_to(self, out: Any) -> None:
        """Let rows that the loop is done with go there from now on."""
        self.out = out
        for track in self.passes:
            track.out = out

    def emit(self, row: list[Any]) -> None:
        """Let a row go out."""
        raise NotImplementedError

    def problem(self, text: str) -> None:
        """Keep one sentence about what could not be measured, once."""
        raise NotImplementedError
