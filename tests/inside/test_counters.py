"""Counters are read as often as a fetch's length is worth, and never in step with periodic loads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgetrain.inside import counters


class PaperKernel(counters.Kernel):
    """A thread's clocks on paper, and what the kernel counted for it."""

    def __init__(self) -> None:
        self.cpu_ns = self.blocks = 0
        self.counters = counters.ThreadCounters(self)

    def fetch(self, took_us: int, cpu_us: int = 0, blocks: int = 0) -> tuple[int | None, ...]:
        """Fetch once; return its columns: CPU time, helpers' CPU time, ..., bytes, ..."""
        self.counters.begin()
        self.cpu_ns += 1000 * cpu_us
        self.blocks += blocks
        return self.counters.end(took_us)

    def thread_ns(self) -> int:
        return self.cpu_ns

    def process_ns(self) -> int:
        return self.cpu_ns

    def thread_usage(self) -> Any:
        return SimpleNamespace(ru_nvcsw=0, ru_majflt=0, ru_stime=0.0)

    def process_usage(self) -> Any:
        return SimpleNamespace(ru_stime=0.0, ru_inblock=self.blocks)


@pytest.mark.parametrize(
    ("took_us", "one_in"),
    [(50, 8.5), (500, 8.5), (999, 8.5), (1500, 6.9), (3000, 4), (7900, 2.9), (8000, 1), (30_000, 1)],
)
def test_counters_are_read_once_per_eight_milliseconds_and_at_least_at_one_fetch_in_nine(
    took_us: int, one_in: float
) -> None:
    kernel = PaperKernel()
    columns = [kernel.fetch(took_us, took_us // 2) for _ in range(10_000)]
    read = [one for one in columns if one[1] is not None]
    assert len(columns) / len(read) == pytest.approx(one_in, rel=0.1)
    timed = [one[0] for one in columns if one[0] is not None]
    assert len(timed) == (len(columns) if took_us >= counters.TIMED_US else len(read))
    assert set(timed) == {took_us // 2}


def test_what_comes_periodically_is_read_in_each_of_its_phases() -> None:
    for period in range(2, 18):
        kernel = PaperKernel()
        seen = {place % period for place in range(4000) if kernel.fetch(900)[1] is not None}
        assert seen == set(range(period))


def test_while_it_reads_from_the_medium_the_counters_of_each_fetch_are_read() -> None:
    kernel = PaperKernel()
    cold = [kernel.fetch(500, blocks=8) for _ in range(50)]
    assert all(one[6] == 8 * counters.BLOCK_BYTES for one in cold)
    warm = [kernel.fetch(500) for _ in range(50)]
    assert sum(one[6] is not None for one in warm) < 8
    again = [kernel.fetch(500, blocks=8) for _ in range(50)]  # noticed with the next reading, and no byte is lost
    assert sum(one[6] or 0 for one in again) == 50 * 8 * counters.BLOCK_BYTES
    assert sum(one[6] is not None for one in again) > 30


def test_after_a_long_fetch_among_short_ones_the_next_is_read() -> None:
    kernel = PaperKernel()
    kernel.fetch(200)
    kernel.fetch(200)
    assert kernel.fetch(40_000, 30_000)[:2] == (30_000, None)
    assert kernel.fetch(200)[1] == 0


def test_a_long_fetch_among_short_ones_is_read_at_times() -> None:
    kernel = PaperKernel()
    columns = [kernel.fetch(50_000 if place % 10 == 9 else 500) for place in range(2000)]
    assert sum(one[1] is not None for one in columns[9::10]) > 20


def test_the_schedule_of_a_fast_loop_counts_its_time_only() -> None:
    schedule = counters.ReadSchedule()
    read = 0
    for _ in range(10_000):
        read += schedule.due
        schedule.fetched(20, schedule.due)
    assert read == pytest.approx(10_000 * 20 / counters.READ_EVERY_US, rel=0.1)


def test_a_random_bit_is_as_often_zero_as_one() -> None:
    dither = counters.Dither()
    assert sum(dither.bit() for _ in range(10_000)) == pytest.approx(5_000, rel=0.05)
