"""A fetch is looked at as often as its length is worth, and never in step with what comes in turns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edgetrain.inside import counters


class Clock:
    """A thread's clocks on paper, and what the kernel counted for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.cpu_ns, self.blocks = 10**9, 0, 0
        fake = SimpleNamespace(
            monotonic_ns=lambda: self.now_ns,
            thread_time_ns=lambda: self.cpu_ns,
            process_time_ns=lambda: self.cpu_ns,
        )
        usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=self._usage)
        monkeypatch.setattr(counters, "time", fake)
        monkeypatch.setattr(counters, "resource", usage)
        self.counters = counters.ThreadCounters()

    def fetch(self, took_us: int, cpu_us: int = 0, blocks: int = 0) -> tuple[int | None, ...]:
        """Fetch once; return its columns."""
        began_us, _ = self.counters.begin()
        self.now_ns += 1000 * took_us
        self.cpu_ns += 1000 * cpu_us
        self.blocks += blocks
        return self.counters.end(began_us)

    def _usage(self, who: int) -> SimpleNamespace:
        return SimpleNamespace(ru_nvcsw=0, ru_majflt=0, ru_stime=0.0, ru_inblock=self.blocks)


@pytest.mark.parametrize(
    ("took_us", "one_in"),
    [(50, 8.5), (500, 8.5), (999, 8.5), (1500, 6.5), (3000, 3.5), (7900, 2.5), (8000, 1), (30_000, 1)],
)
def test_a_look_is_taken_for_each_eight_milliseconds(
    took_us: int, one_in: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    columns = [clock.fetch(took_us, took_us // 2) for _ in range(1700)]
    looked = [one for one in columns if one[2] is not None]
    assert len(columns) / len(looked) == pytest.approx(one_in, rel=0.05)
    timed = [one[1] for one in columns if one[1] is not None]
    assert len(timed) == (len(columns) if took_us >= counters.TIMED_US else len(looked))
    assert set(timed) == {took_us // 2}


def test_what_comes_in_turns_is_looked_at_in_each_of_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for period in range(2, 18):
        clock = Clock(monkeypatch)
        seen = {place % period for place in range(2000) if clock.fetch(900)[2] is not None}
        assert seen == set(range(period))


def test_while_it_reads_from_the_medium_each_fetch_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    cold = [clock.fetch(500, blocks=8) for _ in range(50)]
    assert all(one[7] == 8 * counters.BLOCK_BYTES for one in cold)
    warm = [clock.fetch(500) for _ in range(50)]
    assert sum(one[7] is not None for one in warm) < 8
    again = [clock.fetch(500, blocks=8) for _ in range(50)]  # noticed with the next look, and no byte is lost
    assert sum(one[7] or 0 for one in again) == 50 * 8 * counters.BLOCK_BYTES
    assert sum(one[7] is not None for one in again) > 40


def test_after_a_long_one_among_short_ones_the_next_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.fetch(200)
    clock.fetch(200)
    assert clock.fetch(40_000, 30_000)[1:3] == (30_000, None)
    assert clock.fetch(200)[2] == 0
