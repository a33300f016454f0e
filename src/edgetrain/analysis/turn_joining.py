"""Joins turns that are one turn of the loop: a backward pass for each of several loaders, then one optimizer step.

    for ...:
        network(next(labelled)).backward()
        network(next(unlabelled)).backward()
        optimizer.step()

Gradient accumulation looks alike, but asks from one place again and again; here each place is asked once per turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.turn_rows import Passes, Sequence

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_PLACE = -1  # of a turn without a batch


@dataclass(frozen=True, slots=True)
class Found:
    """Turns as places in a sequence: [start, stop) each, whether it was trained, whether it had a batch."""

    start: Ints
    stop: Ints
    trained: Bools
    fetched: Bools


def join_turns(sequence: Sequence, passes: Passes, found: Found) -> Found:
    """Join each turn without an optimizer step to the one that always follows it, from another place."""
    entries = sequence.entries
    if len(found.start) < 2 or not ((entries.steps > 0) | (entries.other_steps > 0)).any():
        return found
    batches = np.append(np.flatnonzero(sequence.delivered), len(sequence))
    first = batches[np.searchsorted(batches, found.start)]  # batch of each turn
    place = np.where(first < found.stop, np.append(sequence.site, NO_PLACE)[first], NO_PLACE)
    pairs = _pairs(sequence, passes, found, place, first)
    if not pairs:
        return found
    joins = np.zeros(len(place), bool)  # to the turn before
    for before, after in pairs:
        joins[1:] |= (place[:-1] == before) & (place[1:] == after)
    begins = np.flatnonzero(~joins)
    ends = np.append(begins[1:], len(place)) - 1
    return Found(
        found.start[begins],
        found.stop[ends],
        np.logical_or.reduceat(found.trained, begins),
        np.logical_or.reduceat(found.fetched, begins),
    )


def _pairs(sequence: Sequence, passes: Passes, found: Found, place: Ints, first: Ints) -> list[tuple[int, int]]:
    """Return places of which the second always follows the first, where the first has training but no step."""
    entries = sequence.entries
    stepped = np.cumsum(np.append(0, (entries.steps > 0) | (entries.other_steps > 0)))
    has_step = stepped[found.stop] > stepped[found.start]
    repeated = entries.count[found.start] > 1  # several turns from one place, one after the other
    follows = np.append(place[1:], NO_PLACE)
    pairs = []
    for one in np.unique(place[:-1][found.trained[:-1] & ~has_step[:-1]]).tolist():
        at = np.flatnonzero(place == one)
        inner = at[at < len(place) - 1]
        other = int(follows[at[0]])
        if one == NO_PLACE or other in (NO_PLACE, one) or len(inner) < 2 or repeated[at].any():
            continue
        after = np.flatnonzero(place == other)
        always = np.array_equal(after, inner + 1) and not (has_step[at] | ~found.trained[at]).any()
        if always and not passes.apart(first[inner], first[after]).any() and not repeated[after].any():
            pairs.append((one, other))
    return pairs
