"""Runs that are recorded: list, open, summarize, compare, export, remove."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, overload

from edgetrain import analysis
from edgetrain.analysis import Comparison, Summary
from edgetrain.documents import to_document
from edgetrain.errors import StoreError, UsageError
from edgetrain.importers import Imported, import_path
from edgetrain.record import STATES, FolderStore, Run, RunRow, import_pandas
from edgetrain.report import (
    minibatch_table,
    prometheus_text,
    sample_table,
    write_csv,
    write_parquet,
    write_trace,
)

if TYPE_CHECKING:
    import pandas

StoreLike: TypeAlias = "FolderStore | Path | str | None"
RunLike: TypeAlias = "Run | Summary | str"
FORMATS = {"csv": ".csv", "parquet": ".parquet", "trace": ".trace.json", "prometheus": ".prom"}
SECONDS_PER = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


@dataclass(frozen=True, slots=True)
class RunList(Sequence[RunRow]):
    """Rows of recorded runs, oldest first."""

    store: str
    runs: tuple[RunRow, ...]

    def __len__(self) -> int:
        return len(self.runs)

    @overload
    def __getitem__(self, place: int) -> RunRow: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RunRow, ...]: ...

    def __getitem__(self, place: int | slice) -> RunRow | tuple[RunRow, ...]:
        return self.runs[place]

    def __iter__(self) -> Iterator[RunRow]:
        return iter(self.runs)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the list as a pandas data frame."""
        library = import_pandas()
        columns = [item.name for item in fields(RunRow)]
        return library.DataFrame([to_document(row) for row in self.runs], columns=columns)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Which runs were removed, or would be."""

    store: str
    dry_run: bool
    runs: tuple[str, ...]
    freed_bytes: int
    being_recorded: tuple[str, ...] = ()  # these fit too, and stay


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written from a run."""

    path: str
    rows: int  # minibatches, readings, events of a trace, or values of metrics
    size_bytes: int
    minibatches_left_out: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What was imported, and into which store."""

    store: str
    imported: tuple[Imported, ...]


def open_store(store: StoreLike = None) -> FolderStore:
    """Return a store: the folder given, else EDGETRAIN_STORE, else the user's own."""
    return store if isinstance(store, FolderStore) else FolderStore(store)


def open_run(name: str | Path = "last", store: StoreLike = None, light: bool = False) -> Run:
    """Open a run by its id, the start or end of one, the path of its folder, or `last`. `light`: without telemetry."""
    return open_store(store).open(str(name), light)


def runs(
    store: StoreLike = None,
    network: str | None = None,
    campaign: str | None = None,
    newest: int | None = None,
) -> RunList:
    """List the recorded runs, oldest first; `campaign` is an id or the name in its plan."""
    place = open_store(store)
    rows = [row for row in place.runs() if network in (None, row.network)]
    if campaign is not None:
        ids = campaign_ids(campaign, {row.campaign for row in rows if row.campaign})
        rows = [row for row in rows if row.campaign in ids]
    return RunList(str(place.path), tuple(rows if newest is None else rows[max(0, len(rows) - newest) :]))


def campaign_ids(name: str, known: set[str]) -> set[str]:
    """Return the campaigns that a name means: an id, or the name in a plan (an id is that name and eight digits)."""
    if name in known:
        return {name}
    named = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")
    return {each for each in known if re.fullmatch(rf"{re.escape(named)}-[0-9a-f]{{8}}(-\d+)?", each)}


def summarize(run: RunLike, store: StoreLike = None) -> Summary:
    """Sum a run up: epoch by epoch where time and energy went, and the doubts."""
    if isinstance(run, Summary):
        return run
    return analysis.summarize(run if isinstance(run, Run) else open_run(run, store))


def compare(
    a: RunLike | Sequence[RunLike], b: RunLike | Sequence[RunLike], store: StoreLike = None, seed: int = 0
) -> Comparison:
    """Decide whether two settings differ, from repeated runs of each."""
    sides = [[side] if isinstance(side, (Run, Summary, str)) else list(side) for side in (a, b)]
    found = [[summarize(run, store) for run in side] for side in sides]
    both = {each.run for each in found[0]} & {each.run for each in found[1]}
    if both:
        raise UsageError(f"{', '.join(sorted(both))} cannot be on both sides: a run does not differ from itself")
    return analysis.compare(found[0], found[1], seed)


def export_run(
    run: RunLike, form: str, path: Path | str | None = None, store: StoreLike = None, samples: bool = False
) -> Exported:
    """Write a run for other programs: `csv`, `parquet`, `trace` (for Perfetto) or `prometheus` (text format).

    Tables have one row per minibatch; with `samples`, one per reading of a sensor.
    """
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; known: {', '.join(FORMATS)}")
    if samples and form not in ("csv", "parquet"):
        raise UsageError(f"samples are exported as csv or parquet, not as {form}; a trace has them anyway")
    opened = run if isinstance(run, Run) else open_run(run.run if isinstance(run, Summary) else run, store)
    summary = analysis.summarize(opened)
    if not summary.epochs and not samples:
        raise StoreError(f"run {opened.id} holds no training minibatches to export; edgetrain show says why")
    if samples and not opened.probes:
        raise StoreError(f"run {opened.id} holds no samples to export: no sensor was read")
    target = Path(path) if path is not None else Path(opened.id + (".samples" if samples else "") + FORMATS[form])
    left_out = 0
    try:
        if form == "trace":
            written = write_trace(opened, summary, target)
            rows, left_out = written.events, written.minibatches_left_out
        elif form == "prometheus":
            text = prometheus_text(opened, summary)
            target.write_text(text, encoding="utf-8")
            rows = sum(not line.startswith("#") for line in text.splitlines())
        else:
            table = sample_table(opened) if samples else minibatch_table(opened, summary)
            rows = (write_csv if form == "csv" else write_parquet)(table, target)
        return Exported(str(target), rows, target.stat().st_size, left_out)
    except OSError as error:
        raise UsageError(f"cannot write {target} ({error.strerror}); choose another path") from error


def import_logs(
    path: Path | str,
    store: StoreLike = None,
    window: str | None = None,
    interval_s: float | None = None,
    device: str | None = None,
    network: str | None = None,
) -> ImportResult:
    """Convert other people's logs into runs and tables of the store; problems in them are listed."""
    from edgetrain.api.boards import power_range  # loads the catalogue of boards, which listing runs does not need

    place = open_store(store)
    about = {"device": device, "network": network}
    found = import_path(Path(path), place, window, interval_s, about, power_range(device))
    return ImportResult(str(place.path), tuple(found))


def remove_run(name: str, store: StoreLike = None, dry_run: bool = False) -> str:
    """Delete one run; return its id. `dry_run`: only check that it can be deleted."""
    place = open_store(store)
    return place.removable(name).name if dry_run else place.remove(name)


def prune(
    store: StoreLike = None,
    older_than: str | None = None,
    state: str | None = None,
    campaign: str | None = None,
    keep: int = 0,
    dry_run: bool = False,
) -> Pruned:
    """Delete the runs that fit every condition given, except for the newest `keep` of them."""
    if older_than is None and state is None and campaign is None:
        raise UsageError("which runs? give --older-than 30d, --state failed or --campaign NAME")
    if state is not None and state not in STATES:
        raise UsageError(f"--state is {state!r}; it is one of {', '.join(STATES)}")
    place = open_store(store)
    limit_s = None if older_than is None else time.time() - _duration_s(older_than)
    chosen = [
        row
        for row in runs(place, campaign=campaign)
        if (state is None or row.state == state) and (limit_s is None or _started_s(row) < limit_s)
    ]
    removed: list[str] = []
    live: list[str] = []
    freed = 0
    for row in chosen[: max(0, len(chosen) - keep)]:
        try:
            path = place.removable(row.run)
        except StoreError:
            live.append(row.run)
            continue
        freed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if not dry_run:
            place.remove(row.run)
        removed.append(row.run)
    return Pruned(str(place.path), dry_run, tuple(removed), freed, tuple(live))


def _duration_s(text: str) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)\s*", text)
    if not match or match[2] not in SECONDS_PER:
        raise UsageError(f"cannot read {text!r} as a duration; write for example 30d, 12h or 2w")
    return float(match[1]) * SECONDS_PER[match[2]]


def _started_s(row: RunRow) -> float:
    """Return when a run started, by its manifest, else by its id."""
    for text, form in ((row.started or "", None), (row.run[:15], "%Y%m%d-%H%M%S")):
        try:
            started = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        except ValueError:
            continue
        return (started if started.tzinfo else started.replace(tzinfo=timezone.utc)).timestamp()
    return time.time()


__all__ = [
    "Exported",
    "ImportResult",
    "Pruned",
    "RunList",
    "campaign_ids",
    "compare",
    "export_run",
    "import_logs",
    "open_run",
    "open_store",
    "prune",
    "remove_run",
    "runs",
    "summarize",
]
