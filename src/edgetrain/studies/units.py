"""Comparisons on the same units: what differs between groups that share no unit may be the units' doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from edgetrain.studies.repeated import RepeatedRuns

Key = TypeVar("Key")


def on_shared_units(members: Mapping[Key, RepeatedRuns]) -> list[dict[Key, RepeatedRuns]]:
    """Return the members that can be compared, set by set, each with its runs on the units that its set shares.

    A member that shares no unit with any other is in no set.
    """
    units = {key: group.units for key, group in members.items()}
    left, found = list(members), []
    while left:
        everywhere = sorted({unit for key in left for unit in units[key]})

        def reach(unit: str, left: list[Key] = left) -> tuple[int, int]:
            return sum(unit in units[key] for key in left), sum(unit in one for one in units.values())

        unit = max(everywhere, key=reach)
        chosen = [key for key in members if unit in units[key]]
        left = [key for key in left if key not in chosen]
        if len(chosen) > 1:
            common = frozenset[str].intersection(*(units[key] for key in chosen))
            found.append({key: members[key].on_units(common) for key in chosen})
    return found


def same_units(one: RepeatedRuns, other: RepeatedRuns) -> tuple[RepeatedRuns, RepeatedRuns] | None:
    """Return both groups with their runs on the units that they share; None where they share none."""
    common = one.units & other.units
    return (one.on_units(common), other.on_units(common)) if common else None
