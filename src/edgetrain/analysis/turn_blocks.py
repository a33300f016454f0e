"""What lies between two trainings, cut into turns: skipped batches, batches of several loaders, batches trained later.

A block is some fetches and the training that follows them (one backward pass or step, or several). Most blocks are one
fetch and its training, and are found all at once; the others are few, or alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.turn_joining import Found, join_turns
from edgetrain.analysis.turn_rounds import Rounds
from edgetrain.analysis.turn_rows import Passes, Sequence

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def find_turns(sequence: Sequence, passes: Passes) -> Found:
    """Return the turns of a sequence, in order."""
    blocks = Blocks(sequence, passes)
    simple = blocks.simple
    starts, stops = [blocks.first[simple]], [blocks.stop[simple]]
    trained = [np.ones(int(simple.sum()), bool)]
    fetched = [trained[0]]
    alike = blocks.grouped_alike()
    if len(alike):
        starts.append(alike[:, 0])
        stops.append(alike[:, 1])
        trained.append(alike[:, 2].astype(bool))
        fetched.append(np.ones(len(alike), bool))
    for several in map(blocks.turns, np.flatnonzero(blocks.special).tolist()):
        starts.append(several[:, 0])
        stops.append(several[:, 1])
        trained.append(several[:, 2].astype(bool))
        fetched.append(several[:, 3].astype(bool))
    start = np.concatenate(starts)
    order = np.argsort(start, kind="stable") if len(starts) > 1 else slice(None)
    found = Found(
        start[order], np.concatenate(stops)[order], np.concatenate(trained)[order], np.concatenate(fetched)[order]
    )
    return join_turns(sequence, passes, _without_other_loops(sequence, found))


def _without_other_loops(sequence: Sequence, found: Found) -> Found:
    """Drop turns without training whose batches come from places that never train: they are not of this loop."""
    if found.trained.all():
        return found
    keys = (sequence.loader << 32) + sequence.site
    in_trained = np.zeros(len(sequence) + 1, np.int64)
    np.add.at(in_trained, found.start[found.trained], 1)
    np.add.at(in_trained, found.stop[found.trained], -1)
    inside = np.cumsum(in_trained)[:-1] > 0
    trains, passes = (np.unique(column[inside & sequence.delivered]) for column in (keys, sequence.passes))
    # A turn is known by the place of its first batch, or by the pass that goes on in trained turns.
    batch_at = np.flatnonzero(sequence.delivered)
    first = np.append(batch_at, len(sequence) - 1)[np.searchsorted(batch_at, found.start)]
    keep = found.trained | np.isin(keys[first], trains) | np.isin(sequence.passes[first], passes)
    return Found(found.start[keep], found.stop[keep], found.trained[keep], found.fetched[keep])


class Blocks:
    """The blocks of a sequence; `simple` ones are one batch and its training, `special` ones are judged singly."""

    def __init__(self, sequence: Sequence, passes: Passes) -> None:
        self.sequence, self._passes = sequence, passes
        begins = sequence.asks.copy()
        begins[1:] &= sequence.event[:-1]
        begins[:1] = True
        self.first = np.flatnonzero(begins)
        self.stop = np.append(self.first[1:], len(sequence))
        self.asked = np.add.reduceat(sequence.asks.astype(np.int64), self.first)
        self.events = np.add.reduceat(sequence.event.astype(np.int64), self.first)
        self.simple = (self.asked == 1) & sequence.delivered[self.first] & (self.events > 0)
        self._only_fetch = self.simple & (self.events > 1) & self._asked_once()
        self.simple &= ~self._only_fetch
        self._leaders = passes.distinct_keys(self.first[self.events > 0])  # where turns begin
        self._alone = passes.distinct_keys(self.first[self.simple])  # where one batch makes a turn
        # What a turn usually has: backward passes, and steps of the first optimizer.
        self._steps = np.maximum(sequence.entries.steps, 0)
        weights = sequence.entries.count[self.first[self.simple]]
        self._usual_events = max(1, _median(self.events[self.simple], weights, 1))
        stepped = np.add.reduceat(self._steps, self.first)[self.simple]
        self._usual_steps = _median(stepped, weights, int(bool(self._steps.any())))
        self._rounds = Rounds(sequence.entries.optimizer)
        per_block = self._rounds.per_block(self.first, len(self.first))
        self._usual_rounds = _median(per_block[self.simple], weights, int(bool(self._rounds)))
        self._fetched_ahead = self._passes_fetched_ahead()
        ends = np.add.reduceat((sequence.asks & ~sequence.delivered).astype(np.int64), self.first) > 0
        several = ~self.simple & ~ends & (self.asked > 1)
        self._alike = several & (self.events <= 1) & ~self._breaks() & ~self._begins_fetched_ahead()
        self.special = ~self.simple & ~self._alike
        # The end of a pass and nothing else, which is most of the rest.
        self.special &= ~((self.asked == 1) & (self.events == 0) & ~sequence.delivered[self.first])

    def _asked_once(self) -> Bools:
        """Return which blocks begin with the only batch asked for at that place and of that pass: for many steps."""
        sequence = self.sequence
        keys = (sequence.loader << 32) + sequence.site
        known, which = np.unique(keys[sequence.delivered], return_inverse=True)
        counts = np.bincount(np.ravel(which), sequence.entries.count[sequence.delivered], len(known))
        _, _, single = self._passes.span(sequence.passes[self.first])
        once: Bools = np.isin(keys[self.first], known[counts == 1]) & single
        return once

    def _breaks(self) -> Bools:
        """Return which blocks hold rows of passes that did not overlap in time."""
        sequence = self.sequence
        inside = np.ones(len(sequence), bool)
        inside[self.first] = False
        places = np.flatnonzero(inside & sequence.asks)
        breaks = np.zeros(len(self.first), bool)
        if len(places):
            apart = self._passes.apart(places - 1, places)
            breaks[np.searchsorted(self.first, places[apart], side="right") - 1] = True
        return breaks

    def _passes_fetched_ahead(self) -> set[int]:
        """Return the passes whose end was followed by training on a batch, and the loaders' places they came from."""
        sequence = self.sequence
        ends = np.flatnonzero(sequence.asks & ~sequence.delivered & sequence.event & (sequence.site >= 0))
        return set(sequence.passes[ends].tolist())

    def _begins_fetched_ahead(self) -> Bools:
        """Return which blocks begin with the first batches of a pass that was fetched ahead."""
        if not self._fetched_ahead:
            return np.zeros(len(self.first), bool)
        known = np.isin(self.sequence.passes[self.first], list(self._fetched_ahead))
        return known & self._passes.begins_at(self.first)

    def grouped_alike(self) -> Ints:
        """Return the turns of blocks of several batches and at most one training: start, stop, trained."""
        blocks = np.flatnonzero(self._alike)
        turns = []
        for length in np.unique(self.asked[blocks]).tolist():
            same = blocks[self.asked[blocks] == length]
            # Without further events the rows of a block are its fetches.
            places = self.first[same][:, None] + np.arange(length)
            keys = self._passes.keys(places.ravel()).reshape(places.shape)
            patterns, which = np.unique(keys, axis=0, return_inverse=True)
            for number, pattern in enumerate(patterns.tolist()):
                of_pattern = same[np.ravel(which) == number]
                cuts = [at for at, begins in enumerate(self._group(pattern)) if begins]
                for cut, next_cut in zip(cuts, [*cuts[1:], length], strict=True):
                    last = next_cut == length
                    start = self.first[of_pattern] + cut
                    turn = [start, start + next_cut - cut, (self.events[of_pattern] > 0) & last]
                    turns.append(np.stack(turn, axis=1))
        return np.concatenate(turns) if turns else np.zeros((0, 3), np.int64)

    def _group(self, keys: list[int], apart: list[bool] | None = None, several: bool = False) -> list[bool]:
        """Return for fetches in a row which of them begin a turn; `several`: as many trainings follow.

        The same place again begins a turn if turns begin there; another place joins, unless both can train alone.
        """
        begins = []
        seen: set[int] = set()
        for at, key in enumerate(keys):
            leads = key in self._leaders or not self._leaders or (several and key >> 32 == keys[0] >> 32)
            begin = at == 0 or (key in seen and leads) or (key in self._alone and bool(seen & self._alone))
            begin = begin or (apart is not None and apart[at])
            begins.append(begin)
            seen = {key} if begin else seen | {key}
        return begins

    def turns(self, block: int) -> Ints:
        """Return the turns of one block: start, stop, trained, has a batch."""
        sequence = self.sequence
        first, stop = int(self.first[block]), int(self.stop[block])
        asks = (first + np.flatnonzero(sequence.asks[first:stop])).tolist()
        events = first + np.flatnonzero(sequence.event[first:stop])
        groups = self._groups(asks, len(events) > 1)
        delivered = [group for group in groups if any(sequence.delivered[place] for place in group)]
        with_batch = [group for group in delivered if not self._left(group)]
        only_fetch = bool(self._only_fetch[block])
        units = self._units(events, bool(with_batch) and not only_fetch)
        after_end = bool(groups) and groups[-1] not in delivered
        count = self._trained_turns(len(with_batch), after_end, len(units)) if len(events) else 0
        count = len(units) if only_fetch else count
        skipped = max(0, len(with_batch) - count)
        if skipped and count and self._fetches_ahead(with_batch[0][0]):
            skipped = 0
        turns = [np.array([[group[0], self._last_batch(group) + 1, 0, 1] for group in with_batch[:skipped]], np.int64)]
        if count:
            begin = with_batch[skipped][0] if skipped < len(with_batch) else (groups[-1][0] if groups else first)
            # Where there are not as many units of training as turns, they are shared out in order.
            shared = (np.arange(count) + 1) * len(events) // count - 1
            ends = (units if count == len(units) else events[shared]) + 1
            ends[-1] = stop
            had = np.count_nonzero(sequence.delivered[begin:stop]) + (self._batches_left(asks[-1]) if after_end else 0)
            starts = np.append(begin, ends[:-1])
            turns.append(np.stack([starts, ends, np.ones(count, np.int64), np.arange(count) < had], axis=1))
        return np.concatenate([np.zeros((0, 4), np.int64), *(some for some in turns if len(some))])

    def _batches_left(self, end: int) -> int:
        """Return how many batches of a pass were left to train when it ended: as many as it was fetched ahead."""
        sequence = self.sequence
        (first,), _, _ = self._passes.span(sequence.passes[[end]])
        untrained = 0
        for place in range(int(first), end):
            untrained += bool(sequence.delivered[place])
            if sequence.event[place]:
                break
        return untrained - 1 if first < end else 0

    def _groups(self, asks: list[int], several: bool) -> list[list[int]]:
        """Return the fetches of a block, turn by turn."""
        keys = self._passes.keys(np.array(asks, np.int64)).tolist()
        groups: list[list[int]] = []
        for at, begins in enumerate(self._group(keys, self._passes.all_apart(asks), several)):
            if begins:
                groups.append([])
            groups[-1].append(asks[at])
        return groups

    def _last_batch(self, group: list[int]) -> int:
        """Return the last fetch of a turn that delivered a batch; the loop does not wait for what ends after it."""
        return max(place for place in group if self.sequence.delivered[place])

    def _left(self, group: list[int]) -> bool:
        """Return whether the loop was left before the turn was complete: a loader of it had come to its end."""
        sequence = self.sequence
        ended = {int(sequence.loader[place]) for place in group if not sequence.delivered[place]}
        return bool(ended - {int(sequence.loader[place]) for place in group if sequence.delivered[place]})

    def _units(self, events: Ints, has_batch: bool) -> Ints:
        """Return where each unit of training ends: what a turn usually has of steps, or else of backward passes."""
        ends = np.zeros(0, np.int64)
        if not has_batch and self._rounds and self._usual_rounds:
            ends = self._rounds.ends(events)[self._usual_rounds - 1 :: self._usual_rounds]
        elif not has_batch and self._usual_steps:  # the record does not say which optimizer stepped
            total = np.cumsum(self._steps[events]) // self._usual_steps
            ends = events[np.diff(total, prepend=0) > 0]
        if len(ends):
            return ends
        found = events[self._usual_events - 1 :: self._usual_events]
        return found if len(found) else events[-1:]

    def _trained_turns(self, batches: int, after_end: bool, units: int) -> int:
        """Return how many trained turns a block holds, given its batches and units of training."""
        if not batches:
            return units
        if after_end:
            return units if units > batches else min(units, batches)  # fetched ahead, or repeated from memory
        return min(units, batches) if batches > 1 else 1

    def _fetches_ahead(self, place: int) -> bool:
        """Return whether a pass begins here that was fetched ahead."""
        known = int(self.sequence.passes[place]) in self._fetched_ahead
        return known and bool(self._passes.begins_at(np.array([place]))[0])


def _median(values: Ints, weights: Ints, otherwise: int) -> int:
    """Return the middle one of values of which each occurs as often as its weight."""
    if not len(values):
        return otherwise
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return int(values[order[np.searchsorted(total, total[-1] / 2)]])
