"""Whether the papers' findings hold in somebody's own runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from edgetrain.analysis import FindingsReport, Summary
from edgetrain.api.records import StoreLike, open_store, runs, summarize
from edgetrain.device import load_catalogue
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import FolderStore, RunRow
from edgetrain.schema import PowerMode
from edgetrain.studies import STUDIES, ObservedRun, judge_runs, observe
from edgetrain.units import spell_count


def findings(
    campaigns: Sequence[str] | str = (), papers: Sequence[str] = STUDIES, store: StoreLike = None
) -> FindingsReport:
    """Judge each statement of the papers by the runs of these campaigns; by every run of the store where none is named.

    Runs of different origins are judged apart. Runs that failed, or hold no epoch, are listed in `left_out`;
    UsageError where no other run is left to judge.
    """
    place = open_store(store)
    named = [campaigns] if isinstance(campaigns, str) else list(campaigns)
    rows = _rows(named, place)
    observed: list[ObservedRun] = []
    doubtful: list[str] = []
    left_out: dict[str, str] = {}  # why, by run
    for row in rows:
        try:
            run = place.open(row.run)
            summary = summarize(run)
        except EdgetrainError as error:
            left_out[row.run] = str(error)
            continue
        if summary.state != "finished" or not summary.epochs:
            left_out[row.run] = _why_left_out(summary)
            continue
        observed.append(observe(run, summary))
        if summary.doubts:
            doubtful.append(row.run)
    if not observed:
        counts = Counter(left_out.values()).items()
        why = "; ".join(f"{spell_count(count, 'run')}: {reason}" for reason, count in counts)
        raise UsageError(f"no run is left to judge ({why}); edgetrain ls lists the runs of the store")
    ids = tuple(sorted({row.campaign for row in rows if row.campaign}))
    judged = judge_runs(observed, papers, factory_default)
    reasons = tuple(f"{run}: {reason}" for run, reason in left_out.items())
    return FindingsReport(ids, len(observed), tuple(doubtful), reasons, tuple(judged))


def factory_default(board: str) -> PowerMode | None:
    """Return the mode a board of the catalogue has when it is delivered; None where that is not known."""
    known = load_catalogue().find(board)
    if known is None:
        return None
    stock = next((mode for mode in known.stock_modes if mode.id == known.stock_default), None)
    return None if stock is None else stock.held_on(known)


def _why_left_out(summary: Summary) -> str:
    if summary.state != "finished":
        return f"{summary.state} ({summary.reason})" if summary.reason else summary.state
    return "holds no epoch"


def _rows(campaigns: list[str], place: FolderStore) -> list[RunRow]:
    chosen: dict[str, RunRow] = {}
    every: list[str | None] = [*campaigns] or [None]  # None: every run
    for campaign in every:
        found = runs(place, campaign=campaign)
        if not found:
            what = f"campaign {campaign!r}" if campaign is not None else "run"
            raise UsageError(f"no {what} is recorded in {place.path}; edgetrain ls lists what there is")
        chosen.update({row.run: row for row in found})
    return list(chosen.values())
