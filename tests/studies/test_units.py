"""Groups of runs are compared on the units that they share."""

from __future__ import annotations

from dataclasses import replace

from edgetrain.studies.units import on_shared_units, same_units
from tests.studies.planted import planted, point


def group(*units):
    (found,) = planted([replace(point(), unit=unit) for unit in units], repeats=1).groups
    return found


def test_groups_are_reduced_to_the_units_that_all_of_them_ran_on():
    (found,) = on_shared_units({"x": group("a", "b"), "y": group("b", "c")})
    assert {key: one.units for key, one in found.items()} == {"x": {"b"}, "y": {"b"}}


def test_groups_without_a_common_unit_are_not_compared():
    assert on_shared_units({"x": group("a"), "y": group("b")}) == []
    assert same_units(group("a"), group("b")) is None


def test_what_ran_on_other_units_forms_a_set_of_its_own():
    found = on_shared_units({0: group("a"), 1: group("a"), 2: group("b"), 4: group("b")})
    assert [set(one) for one in found] == [{0, 1}, {2, 4}]


def test_groups_that_ran_on_the_same_units_keep_all_their_runs():
    one, other = group("a", "b"), group("b", "a")
    assert same_units(one, other) == (one, other)
