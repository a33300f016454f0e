"""Cuts the time of every minibatch into fetch stall, copy, compute and overhead, on the accelerator's timeline.

A minibatch runs from the instant the previous one was done to the instant it is done itself (the first of an epoch from
the instant it was asked for). What lies between is cut so:

    done(k-1) ........ start(k) .. copied(k) .... done(k)
    |   idle gap      |   copy    |   compute    |

The part of the idle gap inside [asked(k), ready(k)] is the fetch stall, the rest of the gap is overhead, and waiting
that earlier steps covered is hidden wait. When the loop is serialised (sync timing, or a CPU that computes in the loop)
nothing is covered and the same cut gives ready - asked, copied - ready and done - copied. Parts are differences of
neighbouring instants, so they add up exactly and none is negative.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.schema import Columns
from edgetrain.units import S_PER_US

EVALUATION = 2
NULL = -1
STRETCH = 1 << 18  # minibatches cut at a time, so that what is in between stays in the processor's cache
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Where each training minibatch's time went: its instants, rows in the order the loop took them.

    Seconds are worked out when they are asked for: for ten million minibatches memory is what takes the time.
    """

    epoch: Ints
    picked: Ints | None  # row of this minibatch in the record; None: every row, in order
    asked_us: Ints
    ready_us: Ints
    begin_us: Ints  # done of the previous minibatch, or asked of the first
    start_us: Ints  # work on the accelerator began
    copied_us: Ints  # the copy was over; equal to start_us where none was seen
    done_us: Ints
    stall_from_us: Ints  # the visible part of the wait; equal to stall_to_us where there was none
    stall_to_us: Ints
    first: NDArray[np.bool_]  # the first minibatch of its epoch: its stall is the pipeline's fill
    copy_seen: bool

    def __len__(self) -> int:
        return len(self.epoch)

    @property
    def rows(self) -> Ints:
        """The row of each minibatch in the record."""
        return np.arange(len(self)) if self.picked is None else self.picked

    def take(self, rows: slice) -> Parts:
        """Return some of the minibatches."""
        some: dict[str, Any] = {
            item.name: value[rows] if isinstance(value := getattr(self, item.name), np.ndarray) else value
            for item in fields(self)
        }
        if self.picked is None:
            some["picked"] = np.arange(*rows.indices(len(self)))
        return Parts(**some)

    @property
    def e2e_s(self) -> Floats:
        """The whole minibatch."""
        return _seconds(self.begin_us, self.done_us)

    @property
    def stall_s(self) -> Floats:
        """Fetch stall: waiting for data with nothing to do."""
        return _seconds(self.stall_from_us, self.stall_to_us)

    @property
    def hidden_s(self) -> Floats:
        """Waiting that earlier steps covered."""
        waited_s = _seconds(self.asked_us, self.ready_us)
        waited_s -= self.stall_s
        return np.maximum(waited_s, 0.0, out=waited_s)

    @property
    def copy_s(self) -> Floats:
        """Bringing the minibatch to the accelerator."""
        return _seconds(self.start_us, self.copied_us)

    @property
    def compute_s(self) -> Floats:
        """Forward, backward and update."""
        return _seconds(self.copied_us, self.done_us)

    @property
    def busy_s(self) -> Floats:
        """Copy and compute together."""
        return _seconds(self.start_us, self.done_us)

    @property
    def overhead_s(self) -> Floats:
        """The rest: what the loop itself did while the accelerator was idle."""
        return np.asarray(((self.start_us - self.begin_us) - (self.stall_to_us - self.stall_from_us)) * S_PER_US)


def once(columns: Columns, name: str) -> NDArray[Any]:
    """Return a column that will not be asked for again: where it is decoded from a file, it is not kept."""
    found: NDArray[Any] = getattr(columns, "once", columns.__getitem__)(name)
    return found


def training_rows(minibatches: Columns) -> Ints | None:
    """Return the rows that belong to training: not evaluation, and with both ends of the wait seen. None: all do."""
    if not minibatches:
        return np.zeros(0, np.int64)
    keep = (minibatches["asked_us"] >= 0) & (minibatches["ready_us"] >= 0)
    phase = minibatches.get("phase")
    if phase is not None:
        # A loader seen training makes every minibatch not labelled so a doubtful one; without any label, all count.
        keep &= (phase == 1) if np.any(phase == 1) else (phase != EVALUATION)
    return None if keep.all() else np.flatnonzero(keep)


def break_down(minibatches: Columns) -> Parts:
    """Cut every training minibatch into its parts."""
    picked = training_rows(minibatches)
    count = len(minibatches["asked_us"]) if picked is None else len(picked)

    def column(name: str) -> Ints | None:
        if name not in minibatches:
            return None
        found = once(minibatches, name)
        return found if picked is None else found[picked]

    def always(name: str) -> Ints:
        found = column(name)
        return np.full(count, NULL, np.int64) if found is None else found

    asked, ready, epoch = always("asked_us"), always("ready_us"), always("epoch")
    if count and np.all(epoch == NULL):
        epoch = always("generation")
    first = np.ones(count, bool)
    first[1:] = epoch[1:] != epoch[:-1]
    seen = {name: column(name) for name in ("done_us", "begin_us", "copying_us", "copied_us")}
    all_done = seen["done_us"] is not None and bool(np.all(seen["done_us"] != NULL))
    seen["launched_us"] = None if all_done else column("launched_us")
    begin, start, after_copy, done, stall_from, stall_to = (np.empty(count, np.int64) for _ in range(6))
    before_us = None
    for at in range(0, count, STRETCH):
        some = slice(at, min(at + STRETCH, count))
        following = asked[some.stop] if some.stop < count else ready[-1]
        cut = _cut(
            asked[some],
            ready[some],
            first[some],
            {name: None if values is None else values[some] for name, values in seen.items()},
            before_us,
            int(following),
        )
        for whole, piece in zip((begin, start, after_copy, done, stall_from, stall_to), cut, strict=True):
            whole[some] = piece
        before_us = int(done[some.stop - 1])
    return Parts(
        epoch=epoch,
        picked=picked,
        asked_us=asked,
        ready_us=ready,
        begin_us=begin,
        start_us=start,
        copied_us=after_copy,
        done_us=done,
        stall_from_us=stall_from,
        stall_to_us=stall_to,
        first=first,
        copy_seen=seen["copied_us"] is not None and bool(np.any(seen["copied_us"] != NULL)),
    )


def _cut(
    asked: Ints,
    ready: Ints,
    first: NDArray[np.bool_],
    seen: dict[str, Ints | None],
    before_us: int | None,
    following_us: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return begin, start, copied, done and the two ends of the stall of a stretch.

    `before_us` is when the minibatch before the stretch was done, `following_us` when the one after it was asked for.
    """
    done = _done(asked, ready, seen["launched_us"], seen["done_us"], before_us, following_us)
    begin = np.empty_like(done)
    begin[1:] = done[:-1]
    begin[0] = asked[0] if before_us is None else before_us
    # A new epoch starts when its first minibatch is asked for: what the script did in between is not training.
    begin[first] = np.maximum(begin[first], asked[first])
    if (began := seen["begin_us"]) is not None:
        # A foreign log whose watch stood still while it wrote says when a minibatch began: the gap is the logger's.
        np.maximum(begin, began, out=begin)
    np.minimum(begin, done, out=begin)
    # Work on a minibatch cannot begin before it is in hand, nor before the accelerator is free.
    start = np.maximum(begin, ready)
    if (copying := seen["copying_us"]) is not None:
        np.maximum(start, copying, out=start)  # NULL is below any instant
    np.minimum(start, done, out=start)
    copied = seen["copied_us"]
    after_copy = start if copied is None else np.minimum(np.maximum(copied, start), done)  # likewise
    stall_from = np.minimum(np.maximum(asked, begin), start)
    stall_to = np.minimum(np.maximum(ready, stall_from), start)
    return begin, start, after_copy, done, stall_from, stall_to


def _seconds(since_us: Ints, until_us: Ints) -> Floats:
    # Subtracted as floats, which hold these instants exactly: one array is made instead of two.
    between: Floats = np.subtract(until_us, since_us, dtype=np.float64)
    between *= S_PER_US
    return between


def _done(
    asked: Ints, ready: Ints, launched: Ints | None, done: Ints | None, before_us: int | None, following_us: int
) -> Ints:
    """Return when each minibatch was done, in order; where it was not seen, when the host had issued it."""
    known = np.append(asked[1:], following_us)
    for better in (launched, done):
        if better is not None:
            known = np.where(better != NULL, better, known)
    # Events are placed on the host's clock to within microseconds: order is kept, never reversed.
    known = np.maximum(known, ready)
    if before_us is not None:
        known[0] = max(int(known[0]), before_us)
    ordered: Ints = np.maximum.accumulate(known)
    return ordered
