"""Finds how the loaders that train differ from the others of a script, so that later trials change only these.

A script may make its training loader anew for each epoch or fold, so the place in the program where it was made tells
it apart, not only the order of creation. The stack of the call is compared with as few frames as are needed to leave
out the places of all other loaders: a framework makes the second loader from another line than the first. Where one
statement makes loaders for training and for evaluation, it is which one of a period, or the dataset, that differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from edgetrain.analysis import TrainingLoop, loader_minibatches
from edgetrain.record import LoaderFacts, Process
from edgetrain.schema import LoaderTarget

PERIODS_SEEN = 2  # a period counts where it was seen this often
NOT_KNOWN = 0  # value of the column `phase`: neither training nor evaluation was seen


def find_target(loop: TrainingLoop, loader: LoaderFacts) -> LoaderTarget:
    """Return how trials recognise the training loader of a loop, and those made like it."""
    created = loader.created or 0
    if not loader.made_at:
        return LoaderTarget(created)
    facts = loop.process.facts
    trained = {one.loader for one, _ in loader_minibatches(loop)}
    here = [one for one in facts.loaders if one.made_at == loader.made_at]
    others = ({one.loader for one in here} - trained) & _used(loop.process)
    if not others:
        training = {one.made_at for one in facts.loaders if one.loader in trained}
        elsewhere = {one.made_at for one in facts.loader_places} | {one.made_at for one in facts.loaders}
        return LoaderTarget(created, _shortest(loader.made_at, elsewhere - training))
    period = _period(here, trained, others)
    if period is not None:
        return LoaderTarget(created, loader.made_at, period=period[0], phases=period[1])
    datasets = {one.dataset for one in here if one.loader in trained}
    known = tuple(sorted(each for each in datasets if each is not None))
    if len(known) == len(datasets) and datasets.isdisjoint(one.dataset for one in here if one.loader in others):
        return LoaderTarget(created, loader.made_at, datasets=known)
    return LoaderTarget(created)


def _used(process: Process) -> set[int]:
    """Return the loaders whose batches were trained on or evaluated; of one that has just begun neither is known."""
    rows = process.minibatches
    numbers, phase = rows.get("loader"), rows.get("phase")
    if numbers is None or phase is None:
        return set()
    return set(np.unique(numbers[(numbers >= 0) & (phase != NOT_KNOWN)]).tolist())


def _shortest(place: tuple[str, ...], others: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the fewest innermost frames of a place that none of the others has."""
    shared = 0
    for other in others:
        alike = 0
        while alike < min(len(place), len(other)) and place[alike] == other[alike]:
            alike += 1
        shared = max(shared, alike)
    return place[: shared + 1]


def _period(
    here: Iterable[LoaderFacts], trained: Collection[int], others: Collection[int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return after how many loaders made at one place the training ones come again, and which those are."""
    trains = {one.made_before: True for one in here if one.loader in trained}
    trains |= {one.made_before: False for one in here if one.loader in others}
    order = {place: known for place, known in trains.items() if place is not None}
    count = max(order, default=-1) + 1
    for period in range(2, count // PERIODS_SEEN + 1):
        seen: list[set[bool]] = [set() for _ in range(period)]
        for place, known in order.items():
            seen[place % period].add(known)
        if all(len(each) == 1 for each in seen):
            return period, tuple(place for place, each in enumerate(seen) if True in each)
    return None
