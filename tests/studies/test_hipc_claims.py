"""The six findings of HiPC 2021: the paper's own numbers hold, their opposites do not, what is close cannot say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgetrain.analysis import Verdict
from edgetrain.documents import to_document
from edgetrain.schema import Origin
from edgetrain.studies.data import CampaignData
from edgetrain.studies.hipc.claims import FINDINGS
from edgetrain.studies.hipc.published import published
from edgetrain.studies.judging import judge_claims
from tests.studies.planted import Point, plant, planted, point

RAM = {"xavier-nx": 8 * 2**30, "xavier-agx": 32 * 2**30}
DATASET_BYTES = 2.8e9
COMPUTE = {"xavier-nx": 390.0, "xavier-agx": 195.0}
# Stalls in ms per minibatch, first and later: the paper's where it has them, else what its text says.
GRID = {
    ("xavier-nx", "hdd"): {0: (590, 488), 1: (208, 120), 2: (14, 13)},
    ("xavier-nx", "ssd"): {0: (326, 315), 1: (13, 13), 2: (12, 12)},
    ("xavier-agx", "hdd"): {0: (514, 220), 1: (283, 10), 2: (155, 10)},
    ("xavier-agx", "sd"): {0: (336, 216), 1: (93, 10), 2: (9, 10)},
    ("xavier-agx", "ssd"): {0: (160, 160), 1: (10, 10), 2: (10, 10)},
}


def grid(**changed: tuple[float, float]) -> list[Point]:
    """Return the grid; `agx_hdd_2=(400, 14)` changes one setting."""
    points = []
    for (board, medium), by_workers in GRID.items():
        for workers, stalls in by_workers.items():
            first, later = changed.get(f"{board.removeprefix('xavier-')}_{medium}_{workers}", stalls)
            cached = 1.0 if board == "xavier-agx" else 0.3
            compute = COMPUTE[board]
            known: dict[str, Any] = {"board": board, "medium": medium, "workers": workers, "cached": cached}
            known["ram_bytes"] = RAM[board]
            points.append(point((later, compute), cold=(first, compute), **known))
    return points


def sizes(hdd_4x: float = 1.2, hdd_later: float = 300.0, ssd_4x: float = 1.0) -> list[Point]:
    points = []
    for scale in (0.5, 1.0, 4.0):
        known: dict[str, Any] = {"dataset_scale": scale, "cached": 1.0 if scale < 1 else 0.4, "board": "xavier-nx"}
        known |= {"dataset_bytes": DATASET_BYTES * scale, "ram_bytes": RAM["xavier-nx"]}
        grown = (hdd_later + 360) * (hdd_4x if scale == 4 else 1.0) - 360
        points.append(point((grown, 360), cold=(550, 360), medium="hdd", workers=0, **known))
        stall = 13.0 * (ssd_4x if scale == 4 else 1.0)
        points.append(point((stall, 400), cold=(13, 400), medium="ssd", workers=1, **known))
    return points


def ram(small_again: float = 0.6, large_again: float = 0.0) -> list[Point]:
    return [
        point((50, 10), cold=(90, 10), read=(1.0, again), page_cache_bytes=limit, medium="hdd", workers=2, board="here")
        for limit, again in ((1_000_000_000, small_again), (4_000_000_000, large_again))
    ]


def hidden_media(hdd_ms: float = 200, alone: bool = True) -> list[Point]:
    """Return two media that 2 workers hide in a cold epoch, with the runs without workers that show it."""
    none = [
        point((90, 200), cold=(fetch, 200), medium=medium, workers=0) for medium, fetch in (("ssd", 100), ("hdd", 200))
    ]
    some = [
        point((10, 200), cold=(10, compute), medium=medium, workers=2)
        for medium, compute in (("ssd", 200.0), ("hdd", hdd_ms))
    ]
    return [*none, *some] if alone else some


def verdicts(points: list[Point], **how: Any) -> dict[str, Verdict]:
    found = judge_claims("hipc", FINDINGS, planted(points, **how), Origin.EMULATED)
    return {one.letter: one.verdict for one in found}


def test_the_papers_own_numbers_hold():
    found = judge_claims("hipc", FINDINGS, planted([*grid(), *sizes(), *ram()]), Origin.EMULATED)
    assert {one.letter: one.verdict for one in found} == dict.fromkeys("ABCDEF", Verdict.HOLDS), [
        (one.letter, one.reason, evidence) for one in found for evidence in one.evidence if not evidence.supports
    ]


def test_the_papers_numbers_stand_beside_ours():
    found = judge_claims("hipc", FINDINGS, planted(grid()), Origin.EMULATED)
    papers = {one.letter: {evidence.paper for evidence in one.evidence} for one in found}
    assert "stall 220 → 10 ms, end to end 419 → 213 ms" in papers["A"]
    assert "1: 283 ms / 2: 155 ms / 4: 80 ms" in papers["B"]
    assert "hdd 409 ms, ssd 409 ms" in papers["C"]
    assert "ssd 430, hdd 735 ms" in papers["D"]


def test_without_runs_no_finding_is_judged():
    assert verdicts([]) == dict.fromkeys("ABCDEF", Verdict.CANNOT_SAY)


@pytest.mark.parametrize(
    "letter, points",
    [
        ("A", grid(nx_ssd_1=(300, 300))),  # one worker left the stall where it was
        ("B", grid(agx_hdd_2=(283, 10))),  # more workers brought nothing
        ("C", hidden_media(hdd_ms=260)),
        ("D", grid(agx_hdd_0=(514, 430))),  # the medium still shows in later epochs
        ("D", [*grid(), *ram(large_again=0.5)]),  # RAM that holds the dataset, and it is read again
        ("E", sizes(ssd_4x=20.0)),
        ("F", sizes(hdd_4x=1.0)),
        ("F", sizes(hdd_later=550.0)),
    ],
)
def test_the_opposite_does_not_hold(letter, points):
    assert verdicts(points)[letter] is Verdict.DOES_NOT


@pytest.mark.parametrize("letter", "ABCDEF")
def test_a_campaign_that_is_too_noisy_cannot_say(letter):
    assert verdicts([*grid(), *sizes()], noise=1.0)[letter] is Verdict.CANNOT_SAY


def one_worker(left: float) -> list[Point]:
    return [point((100, 200), workers=0), point((left, 200), workers=1)]


def test_89_percent_against_90_in_single_runs_cannot_say():
    found = judge_claims("hipc", FINDINGS[:1], planted(one_worker(11), repeats=1, noise=0.0), Origin.EMULATED)[0]
    assert found.verdict is Verdict.CANNOT_SAY and "make each run at least 3 times" in found.reason
    removed = found.evidence[0].bounds[0]
    assert removed.value == pytest.approx(0.89) and removed.lo < 0.9 < removed.hi and removed.least == 0.9


def test_far_from_the_threshold_a_single_run_is_enough_and_near_it_repeats_decide():
    assert verdicts(one_worker(3), repeats=1)["A"] is Verdict.HOLDS
    assert verdicts(one_worker(60), repeats=1)["A"] is Verdict.DOES_NOT
    assert verdicts(one_worker(12), repeats=1)["A"] is Verdict.CANNOT_SAY
    assert verdicts(one_worker(12), repeats=5, noise=0.01)["A"] is Verdict.DOES_NOT


def test_a_simulated_board_is_not_asked_about_its_loader_or_its_page_cache():
    runs = plant([*grid(), *sizes(), *ram()], origin=Origin.SIMULATED)
    found = judge_claims("hipc", FINDINGS, CampaignData.of_runs(runs), Origin.SIMULATED)
    assert {one.letter for one in found if one.refused} == set("ABCDEF")


def test_media_that_are_not_read_say_nothing_about_a_medium_that_is_enough():
    assert verdicts(hidden_media())["C"] is Verdict.HOLDS
    warm = [replace(one, cold=None) for one in hidden_media()]
    assert verdicts(warm)["C"] is Verdict.CANNOT_SAY
    read_again = [replace(one, cold=None, cached=0.3, read=(1.0, 0.8)) for one in hidden_media()]
    assert verdicts(read_again)["C"] is Verdict.HOLDS


def test_whether_compute_hides_fetching_needs_runs_without_workers():
    assert verdicts(hidden_media(alone=False))["C"] is Verdict.CANNOT_SAY


def test_a_page_cache_alone_does_not_show_that_ram_makes_up_for_a_slow_medium():
    found = judge_claims("hipc", FINDINGS[3:4], planted(ram()), Origin.EMULATED)[0]
    assert found.verdict is Verdict.CANNOT_SAY and "on two media" in found.reason
    half = judge_claims("hipc", FINDINGS[3:4], planted([*grid(), *ram()[1:]]), Origin.EMULATED)[0]
    assert half.verdict is Verdict.CANNOT_SAY and "does not hold the dataset" in half.reason
    assert verdicts([*grid(), *ram()])["D"] is Verdict.HOLDS


def test_no_bytes_read_in_a_single_run_have_an_interval():
    found = judge_claims("hipc", FINDINGS[3:4], planted(ram(), repeats=1, noise=0.0), Origin.EMULATED)[0]
    again = next(one for one in found.evidence if "holds the dataset" in one.what).bounds[0]
    assert again.value == again.lo == 0 < again.hi


def test_one_gpu_does_not_show_that_more_workers_help_a_fast_one():
    one_board = [one for one in grid() if one.board == "xavier-nx"]
    found = judge_claims("hipc", FINDINGS[1:2], planted(one_board), Origin.EMULATED)[0]
    assert found.verdict is Verdict.CANNOT_SAY and "two GPUs" in found.reason
    assert verdicts(grid())["B"] is Verdict.HOLDS


def test_a_faster_gpu_that_waits_less_for_the_same_medium_contradicts_more_workers():
    assert verdicts(grid(agx_hdd_1=(100, 10), agx_hdd_2=(40, 10)))["B"] is Verdict.DOES_NOT


def test_every_published_number_is_positive():
    def numbers(value):
        if isinstance(value, dict):
            return [number for item in value.values() for number in numbers(item)]
        return [value] if isinstance(value, (int, float)) else []

    assert all(number > 0 for number in numbers(to_document(published())))
