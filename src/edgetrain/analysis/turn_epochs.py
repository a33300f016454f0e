"""Numbers the epochs of turns: as the loop named them, or else one per pass over the loader that leads the turns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.turn_joining import Found
from edgetrain.analysis.turn_rows import Passes, Sequence

Ints = NDArray[np.int64]


def number_epochs(sequence: Sequence, found: Found, passes: Passes) -> Ints:
    """Return the epoch of each turn.

    An epoch lasts as long as the pass that leads its turns; passes that go on beside it do not begin another. Passes
    of one batch each (`next(iter(loader))` for each step) are one epoch together, and so are steps without a fetch.
    """
    if not len(found.start):
        return np.zeros(0, np.int64)
    named = sequence.entries.epoch[found.stop - 1]
    if named.max() >= 0:
        return _in_order(_filled(named))
    leader = _leaders(sequence, found)
    begins = np.ones(len(leader), bool)
    begins[1:] = leader[1:] != leader[:-1]
    runs = np.flatnonzero(begins)
    first, last, one_batch = passes.span(leader[runs])
    epochs = np.zeros(len(runs), np.int64)
    number, until, single = 0, -1, False
    for run, place in enumerate(runs.tolist()):
        fetched = leader[place] != NO_PASS
        this_single = fetched and bool(one_batch[run])
        goes_on = until >= (found.start[place] if fetched else len(sequence))
        overlaps = fetched and first[run] <= until
        if run and not (goes_on or overlaps or (this_single and single)):
            number += 1
        if not goes_on:
            until = int(last[run]) if fetched else -1
        single = this_single
        epochs[run] = number
    return np.repeat(epochs, np.diff(np.append(runs, len(leader))))


NO_PASS = -1


def _leaders(sequence: Sequence, found: Found) -> Ints:
    """Return the pass of the first batch of each turn; NO_PASS for one without a batch of its own."""
    batches = np.flatnonzero(sequence.delivered)
    if not len(batches):
        return np.full(len(found.start), NO_PASS, np.int64)
    at = np.searchsorted(batches, found.start)
    place = batches[np.minimum(at, len(batches) - 1)]
    inside = (at < len(batches)) & (place < found.stop)
    leader = np.where(inside, sequence.passes[place], NO_PASS)
    # A batch fetched earlier belongs to the pass of the turn before.
    earlier = ~inside & found.fetched
    if earlier.any():
        known = np.maximum.accumulate(np.where(earlier, 0, np.arange(len(leader))))
        leader = np.where(earlier, leader[known], leader)
    return leader


def _in_order(named: Ints) -> Ints:
    """Number epochs from 0 in the order they came, where several loops count their own."""
    if np.all(named[1:] >= named[:-1]):
        return named
    return np.cumsum(np.append(0, named[1:] != named[:-1]))


def _filled(named: Ints) -> Ints:
    """Give turns that were not named the epoch of the one before, the first ones that of the one after."""
    known = named >= 0
    last = np.maximum.accumulate(np.where(known, np.arange(len(named)), -1))
    return np.where(last >= 0, named[np.maximum(last, 0)], named[int(np.argmax(known))])
