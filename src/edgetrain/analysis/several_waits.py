"""Cuts minibatches of several fetches, of none, or without training, into their parts.

Each fetch of a minibatch is a wait, followed by what the loop did until the next: compute where the record saw autograd
nodes made, a backward pass or a step, overhead otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.parts import Parts, after_evaluation, first_of_epoch
from edgetrain.analysis.row_runs import RowRuns
from edgetrain.analysis.turn_rows import NULL
from edgetrain.analysis.turns import Turns
from edgetrain.record import Table

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of all turns, one after the other."""

    record: Ints  # row of the record
    turn: Ints
    first: Ints  # per turn: place of its first and last row here
    last: Ints
    following_us: Ints  # per turn: when the loop next asked a loader, or trained

    @classmethod
    def of(cls, minibatches: Table, turns: Turns) -> _Rows:
        rows = turns.rows.rows()
        start = np.arange(len(turns)) if turns.start is None else turns.start
        stop = start + 1 if turns.stop is None else turns.stop
        lengths = stop - start
        ends = np.cumsum(lengths)
        turn = np.repeat(np.arange(len(start)), lengths)
        place = np.arange(len(turn)) + np.repeat(start - (ends - lengths), lengths)
        asked = minibatches["asked_us"]
        following = np.append(asked[rows], minibatches["ready_us"][rows[-1:]])[stop]
        if turns.evaluation_us is not None:
            # An evaluation that begins before the loop asks again.
            begun = asked[rows[start]]
            at = np.searchsorted(turns.evaluation_us[:, 0], begun)
            begins = np.append(turns.evaluation_us[:, 0], np.iinfo(np.int64).max)[at]
            following = np.minimum(following, begins)
        return cls(rows[place], turn, ends - lengths, ends - 1, following)


def cut_turns(minibatches: Table, turns: Turns) -> Parts:
    """Cut every turn into its parts."""
    rows = _Rows.of(minibatches, turns)

    def column(name: str) -> Ints:
        found = minibatches.get(name)
        return np.full(len(rows.record), NULL, np.int64) if found is None else found[rows.record]

    asked, ready = column("asked_us"), column("ready_us")
    trained = np.ones(len(turns), bool) if turns.trained is None else turns.trained
    done = _done(rows, ready, column("done_us"), column("launched_us"), trained)
    first = first_of_epoch(turns.epoch)
    begin = np.append(asked[rows.first[:1]], done[:-1])
    begin[first] = np.maximum(begin[first], asked[rows.first[first]])
    if turns.began_us is not None:
        begin[0] = min(int(begin[0]), turns.began_us)
    begin = np.minimum(after_evaluation(begin, asked[rows.first], turns.evaluation_us), done)

    # Instants of a row, held within its turn.
    low, high = begin[rows.turn], done[rows.turn]
    stall_from = np.clip(np.maximum(asked, column("idle_us")), low, high)
    stall_to = np.clip(ready, stall_from, high)
    # Waits that overlap (workers being stopped while others start) count once.
    stall_from[1:] = np.maximum(stall_from[1:], np.maximum.accumulate(stall_to)[:-1])
    stall_to = np.maximum(stall_to, stall_from)
    until = np.append(asked[1:], 0)
    until[rows.last] = done
    until = np.clip(until, stall_to, high)
    worked = _worked(rows, column("forwards"), column("launched_us"), trained, turns.mid_step)
    copying, copied = column("copying_us"), column("copied_us")
    starts = np.minimum(np.maximum(stall_to, np.maximum(copying, low)), until)
    copy = np.where(worked, np.clip(copied, starts, until) - starts, 0)
    compute = np.add.reduceat(np.where(worked, until - starts, 0) - copy, rows.first)
    if turns.mid_step:
        # The forward pass of this turn was issued before its fetch.
        compute += np.where(first, 0, np.clip(asked[rows.first] - begin, 0, done - begin))
    compute -= _evaluation_inside(turns.evaluation_us, begin, asked[rows.first], done)
    copy_us = np.add.reduceat(copy, rows.first)
    start = np.minimum.reduceat(np.where(worked, starts, high), rows.first)
    return Parts(
        epoch=turns.epoch,
        picked=_runs(rows.record[_first_batch(rows, column("batch"))]),
        begin_us=begin,
        start_us=start,
        copied_us=start + copy_us,
        done_us=done,
        first=first,
        copy_seen=bool(np.any(copied != NULL)),
        asked_us=asked,
        ready_us=ready,
        stall_from_us=stall_from,
        stall_to_us=stall_to,
        wait_turn=rows.turn,
        wait_row=rows.record,
        compute_us=np.maximum(compute, 0),
        trained=turns.trained,
        fetched=turns.fetched,
    )


def _done(rows: _Rows, ready: Ints, done: Ints, launched: Ints, trained: Bools) -> Ints:
    """Return when each turn was done; one that was skipped when its last batch was ready."""
    seen = np.maximum.reduceat(np.where(done != NULL, done, launched), rows.first)
    in_hand = np.maximum.reduceat(ready, rows.first)
    # A forward pass without a mark of its own: until the loop asked again.
    known = np.where(seen != NULL, seen, np.where(trained, rows.following_us, in_hand))
    ordered: Ints = np.maximum.accumulate(np.maximum(known, in_hand))
    return ordered


def _worked(rows: _Rows, forwards: Ints, launched: Ints, trained: Bools, mid_step: bool) -> Bools:
    """Return after which waits the loop computed: where training was seen, and up to the end of a trained turn."""
    worked: Bools = (launched != NULL) | ((forwards > 0) & trained[rows.turn] & (not mid_step))
    worked[rows.last[trained]] = True
    return worked


def _evaluation_inside(evaluation_us: Ints | None, begin: Ints, asked: Ints, done: Ints) -> Ints:
    """Return how long evaluation went on within each turn, after its first fetch: it is not the turn's compute."""
    inside = np.zeros(len(done), np.int64)
    if evaluation_us is None or not len(done):
        return inside
    turn = np.minimum(np.searchsorted(done, evaluation_us[:, 1]), len(done) - 1)
    within = (evaluation_us[:, 0] >= asked[turn]) & (evaluation_us[:, 1] <= done[turn])
    np.add.at(inside, turn[within], (evaluation_us[:, 1] - evaluation_us[:, 0])[within])
    return inside


def _first_batch(rows: _Rows, batch: Ints) -> Ints:
    """Return the place of each turn's first batch; of its first row where it has none."""
    places = np.flatnonzero(batch >= 0)
    at = np.append(places, len(batch))[np.searchsorted(places, rows.first)]
    return np.where(at <= rows.last, at, rows.first)


def _runs(rows: Ints) -> RowRuns:
    return RowRuns.joined(rows, np.ones(len(rows), np.int64))
