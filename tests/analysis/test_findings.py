"""Findings are judged from rows: the paper's own numbers hold, their opposites do not, too little is said so."""

import pytest

from edgetrain.analysis.factors import EpochTimes, Row
from edgetrain.analysis.findings import CANNOT_SAY, DOES_NOT, HOLDS, Judge, published

COMPUTE = {"xavier-nx": 562.0, "xavier-agx": 281.0}


def times(stall, compute, read=0.0, minibatches=1443.0):
    return EpochTimes(stall + compute, stall, 0.0, compute, minibatches, read, None)


def row(factors, first, later, read=0.0):
    compute = COMPUTE.get(factors.get("preset"), 281.0)
    later_times = times(later, compute, read)
    return Row(factors, ("r",), times(first, compute), later_times, later_times, 0, "published")


# Stalls per epoch, first and later: the paper's where it has them, else what its text says.
GRID = {
    ("xavier-nx", "hdd"): {0: (850, 704), 1: (300, 173), 2: (20, 18.9), 4: (19, 18)},
    ("xavier-nx", "sd"): {0: (600, 502), 1: (25, 18.4), 2: (18, 18), 4: (18, 18)},
    ("xavier-nx", "ssd"): {0: (470, 455), 1: (19, 18.6), 2: (18, 18), 4: (18, 18)},
    ("xavier-agx", "hdd"): {0: (741, 317), 1: (408.2, 14.7), 2: (223.9, 14), 4: (115.4, 13)},
    ("xavier-agx", "sd"): {0: (485, 311), 1: (134, 14.6), 2: (12.3, 14), 4: (12, 13)},
    ("xavier-agx", "ssd"): {0: (306, 309), 1: (15, 14.5), 2: (14, 13), 4: (13, 13)},
}


def paper_rows():
    return [
        row({"preset": board, "storage": medium, "workers": workers}, *stalls)
        for (board, medium), by_workers in GRID.items()
        for workers, stalls in by_workers.items()
    ]


def size_rows(hdd_4x=1.167, hdd_later=0.3, ssd_4x=1.0):
    rows = []
    for scale in (0.25, 1.0, 4.0):
        count = 1443 * scale
        slow = hdd_4x if scale == 4 else 1.0
        fast = ssd_4x if scale == 4 else 1.0
        for medium, first, later, compute in (
            ("ssd", 0.013 * fast, 0.013 * fast, 0.4),
            ("hdd", 0.55, hdd_later, 0.36),
        ):
            grown = slow if medium == "hdd" else 1.0
            extra = (later + compute) * grown - compute
            rows.append(
                Row(
                    {"storage": medium, "dataset_scale": scale},
                    ("r",),
                    times(first * count, compute * count, minibatches=count),
                    times(extra * count, compute * count, read=scale * 1e9 if scale > 1 else 0, minibatches=count),
                    times(extra * count, compute * count, minibatches=count),
                    0,
                    "published",
                )
            )
    return rows


def ram_rows(small_again=0.6, large_again=0.0):
    return [
        Row({"page_cache": size}, ("r",), times(9, 1), times(5, 1, read=again * 3e8), times(5, 1), 0, "emulated")
        for size, again in (("100MB", small_again), ("400MB", large_again))
    ]


def verdicts(judge):
    return {finding.letter: finding.verdict for finding in judge.all()}


def test_the_papers_own_numbers_hold():
    found = Judge(paper_rows(), size_rows(), ram_rows(), 1.0, 3e8).all()
    assert {one.letter: one.verdict for one in found} == dict.fromkeys("ABCDEF", HOLDS), [
        (one.letter, evidence) for one in found for evidence in one.evidence if not evidence.speaks_for
    ]


def test_without_runs_nothing_is_said():
    assert verdicts(Judge()) == dict.fromkeys("ABCDEF", CANNOT_SAY)


def changed(**stalls):
    rows = []
    for one in paper_rows():
        key = f"{one.get('preset').removeprefix('xavier-')}_{one.get('storage')}_{one.get('workers')}"
        rows.append(row(dict(one.factors), *stalls[key]) if key in stalls else one)
    return rows


@pytest.mark.parametrize(
    "letter, rows",
    [
        ("A", changed(nx_ssd_1=(470, 400))),  # one worker left the stall where it was
        ("B", changed(agx_hdd_2=(400, 14), agx_hdd_4=(400, 13))),  # more workers brought nothing
        ("D", changed(agx_hdd_0=(741, 600))),  # the medium still shows in later epochs
    ],
)
def test_the_opposite_does_not_hold(letter, rows):
    assert verdicts(Judge(rows, size_rows(), ram_rows(), 1.0, 3e8))[letter] == DOES_NOT


def test_ram_that_holds_the_dataset_must_not_read_it_again():
    judge = Judge(paper_rows(), size_rows(), ram_rows(large_again=0.5), 1.0, 3e8)
    assert verdicts(judge)["D"] == DOES_NOT


def test_scaling_findings_turn_with_the_data():
    assert verdicts(Judge(sizes=size_rows(hdd_4x=1.0)))["F"] == DOES_NOT
    assert verdicts(Judge(sizes=size_rows(hdd_later=0.55)))["F"] == DOES_NOT
    assert verdicts(Judge(sizes=size_rows(ssd_4x=20.0)))["E"] == DOES_NOT


def test_speed_scales_what_is_shown_and_not_what_is_judged():
    slow, fast = (Judge(paper_rows(), size_rows(), ram_rows(), speed, 3e8) for speed in (1.0, 5.0))
    assert verdicts(slow) == verdicts(fast)
    assert slow.all("B")[0].evidence[0].ours != fast.all("B")[0].evidence[0].ours


def test_every_published_number_is_positive():
    def numbers(value):
        if isinstance(value, dict):
            return [number for item in value.values() for number in numbers(item)]
        return [value] if isinstance(value, (int, float)) else []

    assert all(number > 0 for number in numbers(published()))
