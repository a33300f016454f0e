"""What every importer shares: reading damaged text, a list of what was wrong, and writing the run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetrain.errors import UsageError
from edgetrain.inside.stream import MINIBATCHES
from edgetrain.record import ImportFacts, Manifest, RowWriter, SteadyWindow, Store
from edgetrain.schema import Origin
from edgetrain.units import US_PER_S

MAX_FILE_BYTES = 256 * 2**20  # a log longer than this is not one run
MAX_PROBLEMS = 200  # listed one by one; beyond that they are counted
# The instant from which a foreign log counted a minibatch. Ours run from the end of the one before; a logger that
# stops its own watch while it writes leaves a gap there, which is its cost and not training's.
FOREIGN_MINIBATCHES = (*MINIBATCHES, ("begin_us", "after:asked_us"))


class Problems:
    """What was wrong in a foreign log, in the order it was met; each kind of a file named once, with a count."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], str] = {}

    def add(self, where: str, what: str, detail: str = "") -> None:
        """Note one thing that was wrong: file, kind, and what exactly (of the first one)."""
        key = (where, what)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._first.setdefault(key, detail)

    def __len__(self) -> int:
        return len(self._counts)

    def listed(self) -> list[str]:
        """Return the problems as sentences."""
        lines = []
        for (where, what), count in self._counts.items():
            detail = self._first[(where, what)]
            text = f"{where}: {what}"
            if detail:
                text += f" ({'first: ' if count > 1 else ''}{detail})"
            lines.append(text if count == 1 else f"{text}, {count} times")
        more = len(lines) - MAX_PROBLEMS
        return lines if more <= 0 else [*lines[:MAX_PROBLEMS], f"and {more} more kinds of problems"]


@dataclass(slots=True)
class Rows:
    """One stream being gathered: rows by instant, columns in the order they first appear."""

    at_us: list[int] = field(default_factory=list)
    rows: list[Mapping[str, float]] = field(default_factory=list)

    def add(self, at_us: int, row: Mapping[str, float]) -> None:
        """Take the readings of one instant."""
        self.at_us.append(at_us)
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> list[str]:
        """Every column that any row has."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


@dataclass(slots=True)
class Draft:
    """A run as an importer found it, before it is written."""

    source: str
    problems: Problems
    manifest: Manifest = field(default_factory=Manifest)
    minibatches: list[dict[str, int | None]] = field(default_factory=list)  # by column of the stream
    samples: dict[str, Rows] = field(default_factory=dict)
    lines: int | None = None  # of a tegrastats log
    unknown_tokens: tuple[str, ...] = ()

    def stream(self, name: str) -> Rows:
        """Return the stream of that name, made when first asked for."""
        return self.samples.setdefault(name, Rows())


@dataclass(frozen=True, slots=True)
class Imported:
    """One thing that was imported, and what was wrong in it."""

    source: str
    kind: str  # run | campaign
    id: str
    path: str | None  # None: into a store in memory
    minibatches: int | None
    samples: int
    problems: tuple[str, ...]
    origin: Origin = Origin.REPLAYED


def read_text(path: Path, problems: Problems, name: str | None = None) -> str:
    """Read a text file however damaged: NUL and undecodable bytes are reported and replaced, never fatal."""
    name = name or path.name
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            problems.add(name, f"is {size} bytes; only the first {MAX_FILE_BYTES} were read")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except OSError as error:
        problems.add(name, f"cannot be read: {error.strerror or error}")
        return ""
    return clean(data, problems, name)


def clean(data: bytes, problems: Problems, name: str) -> str:
    """Decode bytes; what is no text becomes U+FFFD, so that a damaged number cannot read as a shorter one."""
    nuls = data.count(b"\0")
    if nuls:
        problems.add(name, f"holds {nuls} NUL bytes", f"at byte {data.index(0)}")
        data = data.replace(b"\0", b"\xff")
    text = data.decode("utf-8", errors="replace")
    garbled = text.count("�") - nuls
    if garbled > 0:
        problems.add(name, f"holds {garbled} bytes that are not text")
    return text.removeprefix("﻿")


def read_csv(text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header and the rows with their line numbers; quoting that never ends costs its own rows only."""
    header: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    # Line by line: a quote left open by a torn write would otherwise swallow the rest of the file.
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = next(csv.reader(io.StringIO(line)))
        except (csv.Error, StopIteration):
            row = [line]
        if not header:
            header = [cell.strip() for cell in row]
        else:
            rows.append((number, row))
    return header, rows


def number(text: str) -> float:
    """Return a finite number, NaN where the text is none."""
    if len(text) > 40 or "_" in text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def instant_us(seconds: float) -> int | None:
    """Return an instant of the log on the run's clock; None where it is none (a year is more than any run)."""
    if not math.isfinite(seconds) or not 0 <= seconds < 366 * 86400:
        return None
    return round(seconds * US_PER_S)


def parse_window(text: str | None) -> SteadyWindow | None:
    """Read `5:`, `:40` or `5:40` as the steady minibatches, first included, last excluded as in a slice."""
    if text is None:
        return None
    first, colon, stop = text.partition(":")
    try:
        if not colon:
            raise ValueError("no colon")
        begin = int(first) if first.strip() else 0
        end = int(stop) - 1 if stop.strip() else None
        if begin < 0 or (end is not None and end < begin):
            raise ValueError("empty")
    except ValueError:
        raise UsageError(
            f"cannot read the window {text!r}; write 5: for all minibatches from number 5 on (the first is 0), or 5:45"
        ) from None
    return SteadyWindow(begin, end, f"asked: --window {text}")


def write_run(store: Store, draft: Draft, window: SteadyWindow | None) -> Imported:
    """Write a draft as a run of the store."""
    steady = window if draft.minibatches else None
    if steady is not None and steady.first >= len(draft.minibatches):
        raise UsageError(
            f"the window begins at minibatch {steady.first} but {draft.source} holds {len(draft.minibatches)}"
        )
    problems = tuple(draft.problems.listed())
    manifest = replace(
        draft.manifest,
        origin=Origin.REPLAYED,
        steady=steady,
        imported=ImportFacts(draft.source, steady, problems, draft.lines, draft.unknown_tokens),
    )
    writer = store.create(manifest)
    streams: list[RowWriter] = []
    if draft.minibatches:
        names = [name for name, _ in FOREIGN_MINIBATCHES]
        rows = writer.stream("minibatches-1", "minibatches", FOREIGN_MINIBATCHES)
        for row in draft.minibatches:
            rows.add(tuple(row.get(name) for name in names))
        streams.append(rows)
    count = 0
    for name, gathered in draft.samples.items():
        if not len(gathered):
            continue
        count += len(gathered)
        columns = gathered.columns
        samples = writer.stream(
            f"samples-{name}", "samples", [("at_us", "delta"), *((column, "f8") for column in columns)]
        )
        for place in sorted(range(len(gathered)), key=gathered.at_us.__getitem__):
            readings = gathered.rows[place]
            samples.add((gathered.at_us[place], *(readings.get(column, math.nan) for column in columns)))
        streams.append(samples)
    for stream in streams:
        stream.close()
    failed = next((stream.failed for stream in streams if stream.failed), None)
    if failed:
        manifest = replace(manifest, state="failed", reason=f"the import could not be written to the store: {failed}")
        writer.write_manifest(manifest)
    path = store.open(writer.id, light=True).path
    minibatches = len(draft.minibatches) or None
    return Imported(draft.source, "run", writer.id, None if path is None else str(path), minibatches, count, problems)
