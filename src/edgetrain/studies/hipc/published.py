"""The numbers that HiPC-SRS 2021 reports, for display beside our own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from edgetrain.documents import from_document

NOT_REPORTED = "–"


@dataclass(frozen=True, slots=True)
class HipcFigures:
    """The paper's numbers, in seconds per epoch of `minibatches`; by board, medium and workers."""

    minibatches: float
    stall_s: dict[str, dict[str, dict[int, float]]]
    e2e_s: dict[str, dict[str, dict[int, float]]]
    first_stall_s: dict[str, dict[str, dict[int, float]]]
    first_e2e_s: dict[str, dict[str, float]]
    later_e2e_s: dict[str, dict[str, float]]
    scaling_e2e_s: dict[str, dict[int, float]]  # by medium and scale of the dataset
    stall_per_minibatch_s: dict[str, float]  # HDD, 0.25x


@functools.lru_cache(maxsize=1)
def published() -> HipcFigures:
    """Return the paper's numbers."""
    return from_document(HipcFigures, yaml.safe_load((Path(__file__).parent / "published.yaml").read_text()))


def paper_change(board: str, medium: str | None) -> str:
    """Return the paper's medians at 0 and 1 worker, per minibatch."""
    stall, e2e = (
        [_ms(_at(table, board, medium, workers)) for workers in (0, 1)]
        for table in (published().stall_s, published().e2e_s)
    )
    if NOT_REPORTED in (*stall, *e2e):
        return NOT_REPORTED
    return f"stall {stall[0]} → {stall[1]} ms, end to end {e2e[0]} → {e2e[1]} ms"


def paper_cold_stalls(board: str, medium: str | None, workers: tuple[int, ...]) -> str:
    """Return the paper's stalls of the first epoch by workers, per minibatch."""
    known = {count: _at(published().first_stall_s, board, medium, count) for count in workers}
    return " / ".join(f"{count}: {_ms(one)} ms" for count, one in known.items() if one is not None) or NOT_REPORTED


def paper_e2e(board: str, media: list[str], workers: int) -> str:
    """Return the paper's end-to-end times by medium, per minibatch."""
    known = {medium: _at(published().e2e_s, board, medium, workers) for medium in media}
    return ", ".join(f"{medium} {_ms(one)} ms" for medium, one in known.items() if one is not None) or NOT_REPORTED


def paper_first_and_later(board: str, slow: str, fast: str) -> tuple[str, str]:
    """Return the paper's end-to-end times without workers on two media: first epoch, later epochs."""

    def both_media(table: Mapping[str, Mapping[str, float]]) -> str:
        both = [f"{medium} {_ms(table.get(board, {}).get(medium))}" for medium in (fast, slow)]
        return NOT_REPORTED if any(NOT_REPORTED in one for one in both) else ", ".join(both) + " ms"

    return both_media(published().first_e2e_s), both_media(published().later_e2e_s)


def _at(
    table: Mapping[str, Mapping[str, Mapping[int, float]]], board: str, medium: str | None, workers: int
) -> float | None:
    return table.get(board, {}).get(medium or "", {}).get(workers)


def _ms(seconds: float | None) -> str:
    return NOT_REPORTED if seconds is None else f"{seconds / published().minibatches * 1e3:.0f}"
