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
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Where each training minibatch's time went, in seconds; rows in the order the loop took them."""

    epoch: Ints
    rows: Ints  # row of this minibatch in the record
    begin_us: Ints  # done of the previous minibatch, or asked of the first
    start_us: Ints  # work on the accelerator began
    done_us: Ints
    stall_from_us: Ints  # the visible part of the wait; equal to stall_to_us where there was none
    stall_to_us: Ints
    e2e_s: Floats
    stall_s: Floats
    hidden_s: Floats
    copy_s: Floats
    compute_s: Floats
    overhead_s: Floats
    first: NDArray[np.bool_]  # the first minibatch of its epoch: its stall is the pipeline's fill
    copy_seen: bool

    def __len__(self) -> int:
        return len(self.epoch)

    def take(self, rows: NDArray[np.bool_] | slice) -> Parts:
        """Return some of the minibatches."""
        picked: dict[str, Any] = {
            item.name: value[rows] if isinstance(value := getattr(self, item.name), np.ndarray) else value
            for item in fields(self)
        }
        return Parts(**picked)


def training_rows(minibatches: Columns) -> Ints:
    """Return the rows that belong to training: not evaluation, and with both ends of the wait seen."""
    if not minibatches:
        return np.zeros(0, np.int64)
    keep = (minibatches["asked_us"] >= 0) & (minibatches["ready_us"] >= 0)
    phase = minibatches.get("phase")
    if phase is not None:
        # A loader seen training makes every minibatch not labelled so a doubtful one; without any label, all count.
        keep &= (phase == 1) if np.any(phase == 1) else (phase != EVALUATION)
    return np.flatnonzero(keep)


def break_down(minibatches: Columns) -> Parts:
    """Cut every training minibatch into its parts."""
    rows = training_rows(minibatches)

    def column(name: str) -> Ints:
        found = minibatches.get(name)
        if found is None:
            return np.full(len(rows), NULL, np.int64)
        # Picking every row would copy ten columns of a long run for nothing.
        return found if len(found) == len(rows) else found[rows]

    asked, ready = column("asked_us"), column("ready_us")
    epoch = column("epoch")
    if len(rows) and np.all(epoch == NULL):
        epoch = column("generation")
    first = np.ones(len(rows), bool)
    first[1:] = epoch[1:] != epoch[:-1]
    done = _done(asked, ready, column("launched_us"), column("done_us"))
    begin = np.empty_like(done)
    begin[1:] = done[:-1]
    begin[:1] = asked[:1]
    # A new epoch starts when its first minibatch is asked for: what the script did in between is not training.
    begin[first] = np.maximum(begin[first], asked[first])
    # A foreign log whose watch stood still while it wrote says itself when a minibatch began: the gap is the logger's.
    begin = np.minimum(np.maximum(begin, column("begin_us")), done)
    copying, copied = column("copying_us"), column("copied_us")
    # Work on a minibatch cannot begin before it is in hand, nor before the accelerator is free.
    start = np.minimum(np.maximum(np.maximum(begin, ready), np.where(copying == NULL, 0, copying)), done)
    after_copy = np.clip(np.where(copied == NULL, start, copied), start, done)
    stall_from = np.clip(asked, begin, start)
    stall_to = np.clip(ready, stall_from, start)
    stall = _seconds(stall_to - stall_from)
    return Parts(
        epoch=epoch,
        rows=rows,
        begin_us=begin,
        start_us=start,
        done_us=done,
        stall_from_us=stall_from,
        stall_to_us=stall_to,
        e2e_s=_seconds(done - begin),
        stall_s=stall,
        hidden_s=np.maximum(_seconds(ready - asked) - stall, 0.0),
        copy_s=_seconds(after_copy - start),
        compute_s=_seconds(done - after_copy),
        overhead_s=_seconds((start - begin) - (stall_to - stall_from)),
        first=first,
        copy_seen=bool(len(rows)) and bool(np.any(copied != NULL)),
    )


def _seconds(microseconds: Ints) -> Floats:
    return np.asarray(microseconds * S_PER_US, np.float64)


def _done(asked: Ints, ready: Ints, launched: Ints, done: Ints) -> Ints:
    """Return when each minibatch was done, in order; where it was not seen, when the host had issued it."""
    known = np.where(done != NULL, done, launched)
    following = np.empty_like(asked)
    following[:-1] = asked[1:]
    if len(following):
        following[-1] = ready[-1]
    known = np.where(known != NULL, known, following)
    # Events are placed on the host's clock to within microseconds: order is kept, never reversed.
    ordered: Ints = np.maximum.accumulate(np.maximum(known, ready)) if len(known) else known
    return ordered
