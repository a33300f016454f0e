"""Cuts the time of every minibatch into fetch stall, copy, compute and overhead, on the accelerator's timeline.

A minibatch (a turn of the loop, see `turns`) runs from the instant the previous one was done to the instant it is done
itself (the first of an epoch from the instant its first batch was asked for). What lies between is cut so:

    done(k-1) ........ start(k) .. copied(k) .... done(k)
    |   idle gap      |   copy    |   compute    |

The part of the idle gap inside [asked, ready] of its fetches is the fetch stall, the rest of the gap is overhead, and
waiting that overlaps with earlier steps is hidden wait. When the loop is serialised (sync timing, or a CPU that
computes in the loop) nothing overlaps, and waiting in the middle of a step is stall too. Parts are differences of
neighbouring instants, so they add up exactly and none is negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.parts import Parts, after_evaluation, first_of_epoch
from edgetrain.analysis.several_waits import cut_turns
from edgetrain.analysis.turn_rows import NULL
from edgetrain.analysis.turns import Turns, assemble
from edgetrain.record import Table

STRETCH = 1 << 18  # minibatches cut at a time, so that what is in between stays in the processor's cache
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def break_down(minibatches: Table, turns: Turns | None = None, stretch: int = STRETCH) -> Parts:
    """Cut every minibatch of one process into its parts, `stretch` minibatches at a time."""
    turns = assemble(minibatches) if turns is None else turns
    if _is_plain(turns):
        return _one_wait_each(minibatches, turns, stretch)
    return cut_turns(minibatches, turns)


def _is_plain(turns: Turns) -> bool:
    """Return whether every minibatch is one row: one wait, then its training."""
    if turns.labelled:
        return True
    several = turns.start is not None or turns.trained is not None or turns.fetched is not None
    return turns.marked and not several and not turns.mid_step


def _one_wait_each(minibatches: Table, turns: Turns, stretch: int) -> Parts:
    count = len(turns)

    def column(name: str) -> Ints | None:
        return turns.rows.take(minibatches.once(name)) if name in minibatches else None

    def always(name: str) -> Ints:
        found = column(name)
        return np.full(count, NULL, np.int64) if found is None else found

    asked, ready = always("asked_us"), always("ready_us")
    first = first_of_epoch(turns.epoch)
    seen = {name: column(name) for name in ("done_us", "begin_us", "copying_us", "copied_us")}
    all_done = seen["done_us"] is not None and bool(np.all(seen["done_us"] != NULL))
    seen["launched_us"] = None if all_done else column("launched_us")
    begin, start, after_copy, done, stall_from, stall_to = (np.empty(count, np.int64) for _ in range(6))
    before_us = None
    for at in range(0, count, stretch):
        some = slice(at, min(at + stretch, count))
        following = asked[some.stop] if some.stop < count else ready[-1]
        cut = _cut(
            asked[some],
            ready[some],
            first[some],
            {name: None if values is None else values[some] for name, values in seen.items()},
            before_us,
            int(following),
            turns.evaluation_us,
        )
        for whole, piece in zip((begin, start, after_copy, done, stall_from, stall_to), cut, strict=True):
            whole[some] = piece
        before_us = int(done[some.stop - 1])
    return Parts(
        epoch=turns.epoch,
        picked=turns.rows,
        begin_us=begin,
        start_us=start,
        copied_us=after_copy,
        done_us=done,
        first=first,
        copy_seen=seen["copied_us"] is not None and bool(np.any(seen["copied_us"] != NULL)),
        asked_us=asked,
        ready_us=ready,
        stall_from_us=stall_from,
        stall_to_us=stall_to,
    )


def _cut(
    asked: Ints,
    ready: Ints,
    first: Bools,
    seen: dict[str, Ints | None],
    before_us: int | None,
    following_us: int,
    evaluation_us: Ints | None,
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
    begin = after_evaluation(begin, asked, evaluation_us)
    if (began := seen["begin_us"]) is not None:
        # A foreign log whose timer is paused while it writes gives the start of a minibatch: the gap is the logger's.
        np.maximum(begin, began, out=begin)
    np.minimum(begin, done, out=begin)
    # Work on a minibatch cannot begin before it is received, nor before the accelerator is free.
    start = np.maximum(begin, ready)
    if (copying := seen["copying_us"]) is not None:
        np.maximum(start, copying, out=start)  # NULL is below any instant
    np.minimum(start, done, out=start)
    copied = seen["copied_us"]
    after_copy = start if copied is None else np.minimum(np.maximum(copied, start), done)  # likewise
    stall_from = np.minimum(np.maximum(asked, begin), start)
    stall_to = np.minimum(np.maximum(ready, stall_from), start)
    return begin, start, after_copy, done, stall_from, stall_to


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
