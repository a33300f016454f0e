"""A place in a program keeps its number, and two places have two."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from edgetrain.inside.sites import MAX_SITES, Sites


class Source:
    """Asks where it is called from, as a loader does."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.seen: list[int | None] = []
        self.generators: list[int] = []

    def __iter__(self) -> Source:
        return self

    def __next__(self) -> int:
        frame = sys._getframe(1)
        self.seen.append(self.sites.number(frame))
        self.generators.append(self.sites.generator(frame))
        if len(self.seen) % 40 == 0:
            raise StopIteration
        return len(self.seen)


def test_a_loop_asks_from_one_place_however_often_it_turns() -> None:
    source = Source(Sites())
    for _ in source:
        pass
    assert len(source.seen) == 40 and len(set(source.seen)) == 1


def test_a_call_that_python_specialises_stays_the_same_place() -> None:
    source = Source(Sites())
    for _ in range(39):
        next(source)
    assert set(source.seen) == {0}


def test_two_calls_of_one_statement_are_two_places() -> None:
    source = Source(Sites())
    for _ in range(15):
        left, right = next(source), next(source)
        assert right == left + 1
    assert source.seen == [0, 1] * 15


def test_calls_through_one_helper_or_generator_are_told_apart_by_their_callers() -> None:
    source = Source(Sites())

    def helper() -> int:
        return next(source)

    def endless() -> Iterator[int]:
        while True:
            yield from source

    batches = endless()
    for _ in range(5):
        helper()
        helper()
        next(batches)
        next(batches)
    assert source.seen == [0, 1, 2, 3] * 5


def test_a_generator_is_known_by_itself_not_by_its_code() -> None:
    source = Source(Sites())

    def some() -> Iterator[int]:
        for _ in range(3):
            yield next(source)

    list(some())
    kept = some()
    list(kept)
    next(source)
    first, second, outside = source.generators[:3], source.generators[3:6], source.generators[6]
    assert len(set(first)) == 1 and len(set(second)) == 1 and 0 not in (*first, *second)
    assert outside == 0


def test_a_program_that_makes_new_code_all_the_time_does_not_fill_the_memory() -> None:
    source = Source(Sites())
    source.sites._numbers.update({(-at,): at for at in range(MAX_SITES)})
    assert next(source) == 1
    assert source.seen == [None]


def test_a_new_generator_is_another_one_even_at_the_address_of_one_that_has_ended() -> None:
    source = Source(Sites())

    def twice() -> Iterator[int]:
        yield next(source)
        yield next(source)

    for _ in range(10):
        list(twice())
    assert source.generators == [number for number in range(1, 11) for _ in range(2)]


def test_a_loop_has_its_batch_once_it_goes_on_in_the_function_that_asked() -> None:
    sites = Sites()
    here = sites.number(sys._getframe())
    assert sites.has_gone_on(here, sys._getframe())

    def fetch() -> int | None:
        return sites.number(sys._getframe())

    assert not sites.has_gone_on(fetch(), sys._getframe())  # returned: what it fetched is on its way to this function

    def batches() -> Iterator[int | None]:
        yield sites.number(sys._getframe())

    assert sites.has_gone_on(next(batches()), sys._getframe())
