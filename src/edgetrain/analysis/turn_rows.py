"""The rows of one training thread in order, and the passes over loaders that they belong to.

A long plain training is one entry per stretch of rows here, not one per row: each row of a stretch is a batch that was
trained, of the same pass and asked from the same place as the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from edgetrain.record import Table

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NULL = -1
TRAINED, NO_GRADIENTS, EVAL_MODE, TRAINED_IN_EVAL_MODE = 1, 2, 3, 4  # of the column `phase`
SOON_US = 2_000
WORKERS_STOPPED = -1  # the key of a row in which no loader was asked, but a pass's workers were stopped
NAMES = ("loader", "generation", "epoch", "phase", "thread", "site", "batch", "forwards", "forwards_after",
         "backwards", "steps", "other_steps", "optimizer", "reaches_back", "launched_us")  # fmt: skip
CONSTANT, PRESENT = (
    ("loader", "generation", "epoch", "thread", "site", "optimizer"),
    ("loader", "site", "batch", "launched_us"),
)


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of the record; one entry may represent several, which are all batches that were trained."""

    first: Ints  # row of the record
    count: Ints  # rows that the entry represents
    loader: Ints
    generation: Ints
    epoch: Ints  # as the loop named it, or -1
    thread: Ints
    site: Ints
    phase: Ints
    delivered: Bools
    forwards: Ints
    forwards_after: Ints
    backwards: Ints
    steps: Ints
    other_steps: Ints
    optimizer: Ints  # which one stepped first
    reaches_back: Ints  # 1: the backward pass belongs to earlier forward passes as well; 0: those were skipped
    marked: Bools  # training was marked: a backward pass, a step, or the loop's word
    asked_us: Ints
    ready_us: Ints  # of the last row represented

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of(cls, minibatches: Table) -> Entries:
        """Read a record."""
        condensed = minibatches.condensed(NAMES, CONSTANT, PRESENT, {"phase": TRAINED})
        # The first and the last row of a stretch are entries of their own: the first may complete a turn that began
        # before, and further backward passes may follow the last in rows without a fetch.
        pieces = np.minimum(condensed.count, 3)
        column = condensed.columns.take(np.repeat(np.arange(len(pieces)), pieces))
        first, count = np.repeat(condensed.first, pieces), np.ones(int(pieces.sum()), np.int64)
        last = np.cumsum(pieces)[pieces > 1] - 1
        several = condensed.count[pieces > 1]
        first[last] += several - 1
        middle, inner = last[several > 2] - 1, several[several > 2] - 2
        first[middle] += 1
        count[middle] = inner
        return cls(
            first=first,
            count=count,
            loader=column["loader"],
            generation=column["generation"],
            epoch=column["epoch"],
            thread=column["thread"],
            site=column["site"],
            phase=column["phase"],
            delivered=column["batch"] >= 0,
            forwards=column["forwards"],
            forwards_after=column["forwards_after"],
            backwards=column["backwards"],
            steps=column["steps"],
            other_steps=column["other_steps"],
            optimizer=column["optimizer"] if "optimizer" in column else np.full(len(first), NULL, np.int64),
            reaches_back=column["reaches_back"] if "reaches_back" in column else np.full(len(first), NULL, np.int64),
            marked=column["launched_us"] != NULL,
            asked_us=minibatches["asked_us"][first],
            ready_us=minibatches["ready_us"][first + count - 1],
        )

    def take(self, places: Ints | Bools) -> Entries:
        """Return some entries."""
        return Entries(*(getattr(self, item.name)[places] for item in fields(self)))

    @property
    def trained(self) -> Bools:
        """Entries in which training was seen."""
        trained: Bools = (self.phase == TRAINED) | (self.phase == TRAINED_IN_EVAL_MODE)
        return trained

    @property
    def asks(self) -> Bools:
        """Entries in which a loader was asked, or its workers were started or stopped."""
        return self.loader >= 0

    @property
    def passes(self) -> Ints:
        """Loader and generation as one number."""
        return (self.loader << 32) + self.generation


@dataclass(frozen=True, slots=True)
class Sequence:
    """The entries of one thread without evaluation, in order, and where training ended."""

    entries: Entries
    passes: Ints
    site: Ints
    loader: Ints
    delivered: Bools
    asks: Bools
    event: Bools  # training ended in this row: a backward pass or step, or a forward pass on its own
    soon: Bools  # the loader was asked at once after the row before was ready
    mid_step: bool  # loaders are asked between the forward and the backward pass of a step

    def __len__(self) -> int:
        return len(self.loader)

    @classmethod
    def of(cls, entries: Entries) -> Sequence:
        """Find where training ended."""
        loader, site, delivered, asks = entries.loader, entries.site, entries.delivered, entries.asks
        trained, forwards = entries.trained, entries.forwards
        computed = trained & delivered
        after, before = (
            (np.maximum(made, 0) * entries.count)[computed].sum() for made in (entries.forwards_after, forwards)
        )
        mid_step = bool(after > before)
        event = trained.copy()
        ends = np.flatnonzero(asks & ~delivered & trained)
        # A last step for gradients left over is not another minibatch.
        event[ends] = (entries.backwards[ends] > 0) | (forwards[ends] > 0)
        forward_only = delivered & ~trained & (forwards > 0)
        if forward_only.any() and not mid_step:
            # Only where the same place trains as well: a network may be shown a batch before training.
            keys = (loader << 32) + site
            event |= forward_only & np.isin(keys, np.unique(keys[computed])) & ~_was_skipped(entries)
        soon = np.zeros(len(loader), bool)
        soon[1:] = entries.asked_us[1:] - entries.ready_us[:-1] < SOON_US
        return cls(entries, entries.passes, site, loader, delivered, asks, event, soon, mid_step)


def _was_skipped(entries: Entries) -> Bools:
    """Return for each entry whether the next training leaves out the forward passes before it, or there is none."""
    trained = np.append(np.flatnonzero(entries.trained), len(entries))
    following = trained[np.searchsorted(trained, np.arange(len(entries)))]
    skipped: Bools = np.append(entries.reaches_back, 0)[following] == 0
    return skipped


class Passes:
    """When each pass over a loader began and ended, as places in a sequence."""

    def __init__(self, sequence: Sequence) -> None:
        self._passes, self._sites = sequence.passes, sequence.site
        self._events = int(sequence.entries.count[sequence.event].sum())
        self._ended, self._soon = sequence.asks & ~sequence.delivered, sequence.soon
        changes = np.ones(len(sequence), bool)
        changes[1:] = self._passes[1:] != self._passes[:-1]
        starts = np.flatnonzero(changes)
        self._known, where = np.unique(self._passes[starts], return_inverse=True)
        where = np.ravel(where)
        self._first = np.full(len(self._known), len(sequence), np.int64)
        np.minimum.at(self._first, where, starts)
        # A pass ends when it was last asked: its workers may be stopped later, while the next pass begins.
        asked = np.flatnonzero(sequence.asks & (self._sites >= 0))
        self._last = self._first.copy()
        np.maximum.at(self._last, np.searchsorted(self._known, self._passes[asked]), asked)
        self._single = (self._first == self._last) & (sequence.entries.count[self._first] == 1)
        self._lane = self._lanes()
        self._recurring: Bools | None = None

    def _lanes(self) -> Ints:
        """Number passes over one loader that go on at the same time; 0 for all others."""
        lane = np.zeros(len(self._known), np.int64)
        loader = self._known >> 32
        order = np.lexsort((self._first, loader))
        same = loader[order[1:]] == loader[order[:-1]]
        overlap = same & (self._first[order[1:]] < self._last[order[:-1]])
        for number in np.unique(loader[order[1:]][overlap]).tolist():
            ends: list[int] = []
            for one in order[loader[order] == number].tolist():
                free = next((at for at, end in enumerate(ends) if end < self._first[one]), len(ends))
                ends[free : free + 1] = [int(self._last[one])]
                lane[one] = free
        return lane

    def span(self, passes: Ints) -> tuple[Ints, Ints, Bools]:
        """Return the first and the last place of these passes, and which of them are one batch only."""
        found = np.minimum(np.searchsorted(self._known, passes), len(self._known) - 1)
        return self._first[found], self._last[found], self._single[found]

    def begins_at(self, places: Ints) -> Bools:
        """Return which of these places are the first of their pass."""
        begins: Bools = self._first[np.searchsorted(self._known, self._passes[places])] == places
        return begins

    def keys(self, places: Ints) -> Ints:
        """Return from where batches were asked for: loader, place, and which of simultaneous passes."""
        found = np.searchsorted(self._known, self._passes[places])
        loader, lane, site = self._known[found] >> 32, self._lane[found], self._sites[places]
        return np.where(site < 0, WORKERS_STOPPED, (loader << 32) + (lane << 24) + site)

    def distinct_keys(self, places: Ints) -> set[int]:
        """Return the keys of these places, each once."""
        passes, sites = self._passes[places], self._sites[places]
        changes = np.ones(len(places), bool)
        changes[1:] = (passes[1:] != passes[:-1]) | (sites[1:] != sites[:-1])
        return set(self.keys(places[changes]).tolist())

    def all_apart(self, places: list[int]) -> list[bool]:
        """Return for each of some places in a row whether its pass overlapped with none before it, since the last."""
        passes = self._passes[places].tolist()
        apart, group = [], dict.fromkeys(passes[:1], places[0] if places else 0)
        for place, one in zip(places, passes, strict=True):
            new = one not in group and all(
                bool(self.apart(np.array([other]), np.array([place]))[0]) for other in group.values()
            )
            apart.append(new)
            if new:
                group.clear()
            group[one] = place
        return apart

    def apart(self, before: Ints, after: Ints) -> Bools:
        """Return whether the passes of two places, one before the other, did not overlap in time."""
        first = np.searchsorted(self._known, self._passes[before])
        second = np.searchsorted(self._known, self._passes[after])
        # A pass of one batch, made anew for each step, overlaps with nothing and still belongs to a turn.
        apart: Bools = (first != second) & (self._last[first] < self._first[second]) & ~self._made_anew()[first]
        return apart & ~self._restarts(before, after)

    def _restarts(self, before: Ints, after: Ints) -> Bools:
        """Return where a loop met the end of a pass and began another at once, from another place: by hand.

        From the same place it is a `for` statement that ended and was entered again, in the next epoch.
        """
        same_loader = self._passes[before] >> 32 == self._passes[after] >> 32
        elsewhere = (self._sites[before] >= 0) & (self._sites[before] != self._sites[after])
        restarts: Bools = self._ended[before] & same_loader & elsewhere & self._soon[after] & (after == before + 1)
        return restarts

    def _made_anew(self) -> Bools:
        """Return which passes have one batch only and come from a place that begins one for every turn or so."""
        if self._recurring is None:
            single = np.flatnonzero(self._single)
            places = self._first[single]
            keys = (self._passes[places] >> 32 << 32) + self._sites[places]
            _, where, counts = np.unique(keys, return_inverse=True, return_counts=True)
            self._recurring = np.zeros(len(self._known), bool)
            self._recurring[single] = counts[np.ravel(where)] > max(1, self._events // 3)
        return self._recurring
