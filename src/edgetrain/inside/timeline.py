"""The rows of one training thread: each covers the time from a fetch to the next fetch of any loader.

A row records what happened in its interval and does not interpret it: how many autograd nodes were made, how many
backward passes and optimizer steps ended, and when the last of them was issued and done. A second backward pass
without a fetch in between begins a row of its own (without a loader), so that each has its instants. `analysis` makes
minibatches of rows.
"""

from __future__ import annotations

import sys
from time import monotonic_ns, sleep, thread_time_ns
from typing import Any

from . import counters, steps
from .rows import (
    ASKED,
    BACKWARDS,
    BATCH,
    COPIED,
    COPYING,
    DONE,
    EPOCH,
    EVAL_MODE,
    FORWARDS,
    FORWARDS_AFTER,
    IDLE,
    LAUNCHED,
    NO_GRADIENTS,
    OPTIMIZER,
    OTHER_STEPS,
    PHASE,
    REACHES_BACK,
    READY,
    SITE,
    STEPS,
    TRAINED,
    TRAINED_IN_EVAL_MODE,
    UNKNOWN,
    row_without_batch,
)

# A loader asked this soon after its iterator was made was asked by the same statement (`for`, `next(iter(loader))`):
# the start of its workers is part of that wait. Otherwise it is a wait of its own, if it took a while.
SAME_STATEMENT_US = 2000
SHORT_US, LONG_BEFORE_US = 500, 100000
ENOUGH_TO_ANCHOR = 8  # batches of a pass at whose end the accelerator's clock is tied to ours again
FEW_NODES = 4  # summing up losses makes some after the backward pass; more than this is a network's forward pass


class Timeline:
    """What one thread fetches and trains, in order."""

    def __init__(self, session: Any, number: int, ident: int) -> None:
        self.session = session
        self.number, self.ident = number, ident
        self.row: Any = None  # the interval now under way
        self.track: Any = None  # the pass that delivered in it
        self.fetching = False  # a loader's `next` is under way
        self.costing = False  # this row measures what recording costs
        self.costs_next = False
        self.count = self.housekeeping_at = 0  # rows so far, and at how many the session is called
        self.out = session.out
        self.schedstat = counters.open_schedstat()
        self._counters: counters.ThreadCounters | None = None
        self._nodes = 0  # autograd's count when the row was opened, or when its last backward pass ended
        self._unused_nodes: int | None = None  # its count before the first forward pass that has no backward pass yet
        self._count_nodes = session.count_nodes
        self._grad_enabled = session.grad_enabled
        self._making: list[tuple[int, int]] = []  # from when to when iterators were made, since the last fetch
        self._generator = 0  # the generator that met the end of a pass in the last row
        self._made_at: int | None = None  # the place in the program where the last iterator was made, after such an end
        self._untrained: list[Any] = []  # passes that delivered since the last training
        self._computing_ns = 0  # since when what a simulated board stretches has been going on

    # ---- rows ----------------------------------------------------------------------------------------------------

    def open(self, row: list[Any], track: Any) -> None:
        """Begin the interval that follows a fetch."""
        if not self._grad_enabled():
            row[PHASE] = NO_GRADIENTS
        elif not self.session.training_mode:
            row[PHASE] = EVAL_MODE
        label = self.session.label
        row[EPOCH] = track.round if label is None and track is not None else label
        self.row = row
        self.track = track
        if self._count_nodes is not None:
            self._nodes = self._count_nodes()
        self._computing_ns = monotonic_ns()

    def close(self, made: int | None = None) -> None:
        """End the interval; `made` is the number of autograd nodes to credit to it after its last backward pass."""
        row, self.row = self.row, None
        self._generator = 0
        if self._count_nodes is not None:
            if made is None:
                made = self._count_nodes() - self._nodes
            row[FORWARDS_AFTER if row[BACKWARDS] else FORWARDS] = made
            if made and row[LAUNCHED] is None and self.session.cuda is not None:
                # A forward pass whose backward pass comes later: it is done on the accelerator here.
                self.session.cuda.mark(row, DONE, monotonic_ns() // 1000)
        if row[LAUNCHED] is not None:
            if self.track is not None:
                self.track.totals.trained += 1
            if self._untrained:
                for track in self._untrained:
                    track.totals.trained += 1
                self._untrained.clear()
        else:
            if made and self._unused_nodes is None:
                self._unused_nodes = self._nodes
            if not self._grad_enabled():
                row[PHASE] = NO_GRADIENTS
            elif row[PHASE] == UNKNOWN and not self.session.training_mode:
                row[PHASE] = EVAL_MODE
            if row[PHASE] == UNKNOWN and self.track is not None and len(self._untrained) < 1000:
                self._untrained.append(self.track)
        self.session.rows += 1
        self.out(row)

    def iterator_made(self, began_ns: int) -> None:
        """An iterator was made; with `zip` several are, one after the other, before the first is asked."""
        if self.fetching:
            return  # within another's fetch, and part of it
        began_us, made_us = began_ns // 1000, monotonic_ns() // 1000
        row = self.row
        self._made_at = None
        if row is not None and row[BATCH] is None and began_us - row[READY] < SAME_STATEMENT_US:
            self._made_at = self.session.sites.number(sys._getframe(1))
        if self._making and began_us - self._making[-1][1] < SAME_STATEMENT_US:
            began_us = min(began_us, self._making.pop()[0])
        self._making = self._making[-9:] + [(began_us, made_us)]

    def pass_asked(self, track: Any, asked_us: int, frame: Any) -> int:
        """Return when the wait for the first batch of a pass began; write what else the loop waited for before it.

        It began with the making of the iterator, where that was made by the same statement. Where a generator (or
        `itertools.chain`) met the end of one pass and goes on with the next, the loop has been waiting since it asked.
        """
        making, self._making = self._making, []
        if making and asked_us - making[-1][1] < SAME_STATEMENT_US:
            asked_us = making.pop()[0]
        row = self.row
        if row is not None and self._goes_on(row, frame):
            asked_us = row[READY] = row[ASKED]
            making = []
        if row is not None:
            self.close()
        for began_us, made_us in making:
            if made_us - began_us > SHORT_US and asked_us - made_us < LONG_BEFORE_US:
                self.out(row_without_batch(track.loader, track.generation, began_us, made_us, self.number, None))
                self.session.rows += 1
        return asked_us

    def _goes_on(self, row: list[Any], frame: Any) -> bool:
        """Return whether the pass that is asked goes on where another one met its end, within the same statement."""
        if row[BATCH] is not None or row[LAUNCHED] is not None:
            return False  # the loop has had something to do since
        if self._generator and self._generator == self.session.sites.generator(frame):
            return True
        return row[SITE] is not None and row[SITE] == self._made_at

    def fetch_ended(self, track: Any, asked_us: int, site: int | None, frame: Any) -> None:
        """A `next` delivered no batch: the pass is over, or failed."""
        row = row_without_batch(track.loader, track.generation, asked_us, monotonic_ns() // 1000, self.number, site)
        self.open(row, None)
        self._generator = self.session.sites.generator(frame)
        if track.batches >= ENOUGH_TO_ANCHOR and track.totals.trained:
            self.session.anchor()

    def workers_stopped(self, track: Any, began_us: int, ended_us: int, frame: Any) -> None:
        """A pass that was left had its workers stopped, while the program was at this frame.

        Where the loop does not have its batch yet, as in `next(iter(loader))`, it still waits for that batch.
        """
        row = self.row
        if row is not None and self.track is track and row[BATCH] is not None and not self._has(row, frame):
            row[READY] = ended_us
            self._computing_ns = monotonic_ns()
            return
        if row is not None:
            self.close()
        self.open(row_without_batch(track.loader, track.generation, began_us, ended_us, self.number, None), None)

    def _has(self, row: list[Any], frame: Any) -> bool:
        """Return whether the loop has the batch of this row."""
        computed = self._count_nodes is not None and self._count_nodes() != self._nodes
        return row[LAUNCHED] is not None or computed or self.session.sites.has_gone_on(row[SITE], frame)

    def mark_idle(self) -> list[Any] | None:
        """Have the accelerator report, into the row returned, when it has finished what was issued before this fetch.

        Worth an event only where a forward pass was issued since the last backward pass: then a loader is asked in the
        middle of a step, and the accelerator may be busy meanwhile. Else return None.
        """
        cuda = self.session.cuda
        if cuda is None or self._count_nodes is None or self._count_nodes() - self._nodes <= FEW_NODES:
            return None
        if self.session.timing == "sync":
            return None
        row = row_without_batch(None, None, 0, 0, self.number, None)
        cuda.mark(row, IDLE, monotonic_ns() // 1000)
        return row

    def own_counters(self) -> counters.ThreadCounters:
        """Return the counters of this thread, for loaders without workers. Call it in this thread."""
        if self._counters is None:
            self._counters = counters.ThreadCounters()
            self._counters.exclude(self.session.writer_thread)
        return self._counters

    # ---- what the loop reports -----------------------------------------------------------------------------------

    def copying(self) -> None:
        """The copy of this minibatch to the accelerator begins.

        No event is spent on it: one stream works in order, so the copy begins when the host issues it or when the
        previous step is done, whichever is later, and both are known.
        """
        if self.row is None:
            return
        entered = thread_time_ns() if self.costing else 0
        if self.session.timing == "sync" and self.session.find_cuda() is not None:
            self.session.torch.cuda.synchronize()
        self.row[COPYING] = monotonic_ns() // 1000
        if entered:
            self.session.spent(entered)

    def copied(self) -> None:
        """The copy has been issued; on the accelerator it ends here."""
        if self.row is None:
            return
        entered = thread_time_ns() if self.costing else 0
        cuda = self.session.find_cuda()
        if cuda is not None and self.session.timing != "sync":
            cuda.mark(self.row, COPIED, monotonic_ns() // 1000)
        else:
            if cuda is not None:
                self.session.torch.cuda.synchronize()
            self.row[COPIED] = monotonic_ns() // 1000
        if entered:
            self.session.spent(entered)

    def launched(self) -> None:
        """The host has issued the step of this minibatch."""
        now_us = monotonic_ns() // 1000
        row = self.row
        if row is None:
            return
        entered = thread_time_ns() if self.costing else 0
        row[STEPS] += 1
        self._issued(row, now_us)
        if entered:
            self.session.spent(entered)

    # ---- what hooks see ------------------------------------------------------------------------------------------

    def backward_begins(self, roots: Any = None) -> None:
        """A backward pass begins, from these tensors."""
        made, reaches = None, None
        if self._unused_nodes is not None and self._unused_nodes < self._nodes:
            # Were those forward passes left for this one, or were their minibatches skipped?
            reaches = steps.reaches_back(roots, self._unused_nodes, self._nodes)
        self._unused_nodes = None
        if self.row is not None and self._count_nodes is not None:
            made = self._count_nodes() - self._nodes
        if self.row is None or self.row[BACKWARDS]:
            self._continue(0)
        self.row[FORWARDS] = made
        if reaches is not None:
            self.row[REACHES_BACK] = int(reaches)

    def backward_ended(self) -> None:
        """A backward pass has been issued."""
        entered = thread_time_ns() if self.costing else 0
        self._stretch()
        row = self.row
        if row is None:
            return
        row[BACKWARDS] += 1
        if self._count_nodes is not None:
            self._nodes = self._count_nodes()
        self._issued(row, monotonic_ns() // 1000)
        if entered:
            self.session.spent(entered)

    def stepped(self, optimizer: int, first_optimizer: bool) -> None:
        """A step of the optimizer of this number has been issued."""
        entered = thread_time_ns() if self.costing else 0
        self._stretch(stepped=True)
        if self.row is None or (self.row[OPTIMIZER] == optimizer and not self.session.in_backward):
            self._continue(None)
        row = self.row
        if row[OPTIMIZER] is None:
            row[OPTIMIZER] = optimizer
        row[STEPS if first_optimizer else OTHER_STEPS] += 1
        self._issued(row, monotonic_ns() // 1000)
        if entered:
            self.session.spent(entered)

    def _continue(self, made: int | None) -> None:
        """Begin a row without a fetch, where the last one had its last mark."""
        began_us = None
        if self.row is not None:
            began_us = self.row[LAUNCHED]
            self.close(made)
        if began_us is None:
            began_us = self.session.loop_began_us()
        row = row_without_batch(None, None, began_us, began_us, self.number, None)
        nodes, computing_ns = self._nodes, self._computing_ns
        self.open(row, None)
        self._nodes, self._computing_ns = nodes, computing_ns or self._computing_ns
        self._count_row()

    def _count_row(self) -> None:
        self.count += 1
        if self.count >= self.housekeeping_at:
            self.session.do_housekeeping(self)

    def _issued(self, row: list[Any], now_us: int) -> None:
        session = self.session
        row[PHASE] = TRAINED if session.training_mode else TRAINED_IN_EVAL_MODE
        if session.label is not None:
            row[EPOCH] = session.label
        again = row[LAUNCHED] is not None
        row[LAUNCHED] = now_us
        cuda = session.find_cuda()
        if cuda is None:
            row[DONE] = now_us
        elif session.timing == "sync":
            session.torch.cuda.synchronize()
            row[DONE] = monotonic_ns() // 1000
        elif again:
            cuda.remark(row, DONE, now_us)
        else:
            cuda.mark(row, DONE, now_us)

    def _stretch(self, stepped: bool = False) -> None:
        """On a simulated board: take as long as its model does, or as much longer as its mode is below its top mode."""
        if self.session.least_step_s > 0:
            if stepped:
                sleep(max(0.0, self.session.least_step_s - (monotonic_ns() - self._computing_ns) / 1e9))
                self._computing_ns = monotonic_ns()
        elif self.session.stretch > 1.0:
            sleep((monotonic_ns() - self._computing_ns) / 1e9 * (self.session.stretch - 1.0))
            self._computing_ns = monotonic_ns()
