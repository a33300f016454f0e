"""Decodes the streams that `inside.stream` writes into tables, in whatever state they were left.

Each frame is independent and carries a checksum, so a torn or damaged part costs the rows of its frames only: the
decoder searches for the next frame and reports how many bytes it skipped.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import StoreError
from edgetrain.inside.stream import ALL_NULL, COLUMN, FRAME, MAGIC, PLANES, SOME_NULL, checksum
from edgetrain.record.table import NULL, ArrayTable, Column, Condensed, Table, Windows

MAX_HEADER_BYTES = 1 << 20  # a longer header line was not written by edgetrain
STREAM_VERSION = 1
IntArray = NDArray[np.int64]
FLOATS = {"f4": 4, "f8": 8}  # encodings that are plain floats, and their size


@dataclass(frozen=True)
class Stream:
    """One stream file, decoded on demand. `skipped_bytes` is what could not be read."""

    kind: str
    main_pid: int | None  # the training process it belongs to, where the header says so
    table: StreamTable
    skipped_bytes: int


def read_stream(path: Path) -> Stream:
    """Read a stream file."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size == 0:
            raise StoreError(f"{path.name} is empty: it was cut off before its first write")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    end = data.find(b"\n", 0, MAX_HEADER_BYTES)
    try:
        header = json.loads(data[: max(end, 0)])
        if end < 0 or header["edgetrain"] != "stream":
            raise ValueError("no header")
        specs = [(str(name), str(encoding)) for name, encoding in header["columns"]]
        meta = header.get("meta") or {}
        pids = [meta[key] for key in ("main_pid", "pid") if type(meta.get(key)) is int]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path.name} does not begin with a stream header ({error})") from error
    if header.get("version", STREAM_VERSION) != STREAM_VERSION:
        raise StoreError(
            f"{path.name} is of stream version {header['version']!r}; this edgetrain reads version {STREAM_VERSION}"
        )
    frames, skipped = _frames(data, end + 1, size, COLUMN.size * sum(encoding not in FLOATS for _, encoding in specs))
    table = StreamTable(np.frombuffer(data, np.uint8), frames, specs)
    return Stream(str(header.get("kind", "")), pids[0] if pids else None, table, skipped)


def _frames(data: mmap.mmap, at: int, size: int, least: int) -> tuple[list[tuple[int, int]], int]:
    """Return (payload offset, rows) of every intact frame, and how many bytes were skipped."""
    frames = []
    skipped = 0
    view = memoryview(data)
    while at + FRAME.size <= size:
        magic, length, rows, expected = FRAME.unpack_from(data, at)
        begin = at + FRAME.size
        intact = magic == MAGIC and begin + length <= size and length >= least
        if intact and checksum(view[begin : begin + length], rows) == expected:
            frames.append((begin, rows))
            at = begin + length
        else:
            found = data.find(MAGIC, at + 1)
            found = size if found < 0 else found
            skipped += found - at
            at = found
    view.release()
    return frames, skipped + size - at


HEAD = np.dtype([("code", "u1"), ("first", "<i8"), ("smallest", "<i8")])  # COLUMN, as numpy sees it


class StreamTable(Table):
    """The rows of one stream; a column is decoded over all frames at once, when it is first asked for."""

    def __init__(self, buffer: NDArray[np.uint8], frames: Sequence[tuple[int, int]], specs: Sequence[tuple[str, str]]):
        self._buffer = buffer
        self._frames = frames
        self._specs = dict(specs)
        self._counts = [count for _, count in frames]
        self._in_frame = np.asarray(self._counts, np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._in_frame)]).astype(np.int64)
        self._rows = int(self._starts[-1])
        self._decoded: dict[str, Column] = {}
        self._locate(np.asarray([offset for offset, _ in frames], np.int64))

    def _locate(self, payloads: IntArray) -> None:
        """Find where every column of every frame lies, from the heads in front of each payload."""
        integers = [name for name, encoding in self._specs.items() if encoding not in FLOATS]
        heads = self._buffer[payloads[:, None] + np.arange(HEAD.itemsize * len(integers))].view(HEAD)
        self._heads = {name: heads[:, place] for place, name in enumerate(integers)}
        self._offsets: dict[str, IntArray] = {}
        at = payloads + HEAD.itemsize * len(integers)
        for name, encoding in self._specs.items():
            self._offsets[name] = at
            if encoding in FLOATS:
                at = at + self._in_frame * FLOATS[encoding]
                continue
            code = self._heads[name]["code"]
            bitmap = np.where(code & SOME_NULL, (self._in_frame + 7) // 8, 0)
            self._offsets[name] = at + bitmap
            at = at + bitmap + self._in_frame * (code & PLANES)

    def near(self, instant: str, windows_us: Windows) -> StreamTable:
        """Return the frames that may hold rows of these windows; `instant` is a delta column that rises."""
        first = self._heads[instant]["first"] if len(self._frames) else np.zeros(0, np.int64)
        last = np.append(first[1:], np.iinfo(np.int64).max)
        keep = np.zeros(len(first), bool)
        for start, stop in windows_us:
            keep |= (last >= start) & (first <= stop)
        return StreamTable(
            self._buffer, [self._frames[at] for at in np.flatnonzero(keep).tolist()], list(self._specs.items())
        )

    def condensed(
        self, names: Sequence[str], constant: Sequence[str], present: Sequence[str], equal: Mapping[str, int]
    ) -> Condensed:
        names = [name for name in names if name in self._specs]
        alike = np.ones(len(self._frames), bool)
        for name in (*(each for each in constant if each in self._specs), *equal):
            alike &= (self._heads[name]["code"] & (PLANES | SOME_NULL)) == 0
        for name in (*present, *equal):
            alike &= (self._heads[name]["code"] & (SOME_NULL | ALL_NULL)) == 0
        for name, value in equal.items():
            alike &= self._heads[name]["smallest"] == value
        rows = np.where(alike, 1, self._in_frame)
        stops = np.cumsum(rows)
        total = int(stops[-1]) if len(stops) else 0
        represents = np.zeros(total, bool)
        represents[(stops - rows)[alike]] = True
        first = np.arange(total) + np.repeat(self._starts[:-1] - (stops - rows), rows)
        count = np.ones(total, np.int64)
        count[represents] = self._in_frame[alike]
        others = StreamTable(
            self._buffer, [self._frames[at] for at in np.flatnonzero(~alike).tolist()], list(self._specs.items())
        )
        columns: dict[str, Column] = {}
        for name in names:
            heads = self._heads[name][alike]
            values = heads["first"] if self._specs[name] == "delta" else heads["smallest"]
            columns[name] = np.empty(total, np.int64)
            columns[name][represents] = np.where(heads["code"] & ALL_NULL, NULL, values)
            columns[name][~represents] = others[name]
        return Condensed(first, count, ArrayTable(columns))

    def constant(self, name: str) -> int | None:
        heads = self._heads[name]
        smallest = heads["smallest"]
        plain = self._specs[name] == "plain" and not np.any(heads["code"] & (PLANES | SOME_NULL | ALL_NULL))
        return int(smallest[0]) if plain and len(smallest) and np.all(smallest == smallest[0]) else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._specs)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> Column:
        if name not in self._decoded:
            self._decoded[name] = self.once(name)
        return self._decoded[name]

    def once(self, name: str) -> Column:
        if name in self._decoded:
            return self._decoded[name]
        column, missing = self._decode(name)
        if missing is not None:
            column[missing] = NULL
        return column

    def _decode(self, name: str) -> tuple[Column, NDArray[np.bool_] | None]:
        """Return a column and which of its rows are missing; those hold 0."""
        encoding = self._specs[name]
        if encoding in FLOATS:
            size = FLOATS[encoding]
            places = zip(self._offsets[name].tolist(), self._counts, strict=True)
            raw = b"".join([self._buffer[start : start + count * size].tobytes() for start, count in places])
            return np.frombuffer(raw, f"<f{size}").copy(), None
        column = self._integers(name)
        if encoding == "delta":
            column = self._undo_delta(name, column)
        elif encoding.startswith("after:"):
            column += self._reference(encoding[6:])
        code = self._heads[name]["code"]
        if not np.any(code & (SOME_NULL | ALL_NULL)):
            return column, None
        missing = self._missing(name)
        column[missing] = 0
        return column, missing

    def _reference(self, name: str) -> Column:
        """Return the column that another is relative to; its missing values are 0, as they were for the encoder."""
        column = self[name]
        if np.any(self._heads[name]["code"] & (SOME_NULL | ALL_NULL)):
            column = np.where(self._missing(name), 0, column)
        return column

    def _integers(self, name: str) -> IntArray:
        """Put byte planes back together; a frame without a plane has zeros there."""
        planes = (self._heads[name]["code"] & PLANES).astype(int)
        most = int(planes.max(initial=0))
        column = np.zeros(self._rows, "<i8")
        places = list(zip(self._offsets[name].tolist(), planes.tolist(), self._counts, strict=True))
        nothing = np.zeros(max(self._counts, default=0), np.uint8)
        in_bytes = column.view(np.uint8).reshape(self._rows, column.itemsize)
        for plane in range(most):
            parts = [
                self._buffer[at + plane * rows : at + (plane + 1) * rows] if held > plane else nothing[:rows]
                for at, held, rows in places
            ]
            np.concatenate(parts, out=in_bytes[:, plane])
        smallest = self._heads[name]["smallest"]
        if np.any(smallest):
            column += smallest[0] if np.all(smallest == smallest[0]) else np.repeat(smallest, self._in_frame)
        return column

    def _undo_delta(self, name: str, steps: IntArray) -> IntArray:
        """Sum differences up, starting anew in every frame at its own first value."""
        if not len(steps):
            return steps
        sums = np.cumsum(steps)
        starts = self._starts[:-1]
        sums += np.repeat(self._heads[name]["first"] - sums[starts] + steps[starts], self._in_frame)
        return sums

    def _missing(self, name: str) -> NDArray[np.bool_]:
        code = self._heads[name]["code"]
        mask = np.zeros(self._rows, bool)
        for frame in np.flatnonzero(code & (SOME_NULL | ALL_NULL)).tolist():
            part = mask[self._starts[frame] : self._starts[frame + 1]]
            if code[frame] & ALL_NULL:
                part[:] = True
            else:
                size = (len(part) + 7) // 8
                at = int(self._offsets[name][frame]) - size
                part[:] = np.unpackbits(self._buffer[at : at + size], bitorder="little")[: len(part)]
        return mask


class JoinedTable(Table):
    """Several streams of one kind as one table; a column that a stream lacks is missing in its rows."""

    def __init__(self, parts: Sequence[Table], order_by: str | None = None) -> None:
        self._parts = [part for part in parts if len(part)]
        self._order_by = order_by
        self._names = tuple(dict.fromkeys(name for part in self._parts for name in part.names))
        self._joined: dict[str, Column] = {}
        self._order: NDArray[np.intp] | None = None
        if order_by in self._names and len(self._parts) > 1:
            self._order = np.argsort(self[order_by], kind="stable")
            self._joined.clear()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def parts(self) -> Sequence[Table]:
        return self._parts

    def condensed(
        self, names: Sequence[str], constant: Sequence[str], present: Sequence[str], equal: Mapping[str, int]
    ) -> Condensed:
        if len(self._parts) == 1:
            return self._parts[0].condensed(names, constant, present, equal)
        return Table.condensed(self, names, constant, present, equal)

    def constant(self, name: str) -> int | None:
        return self._parts[0].constant(name) if len(self._parts) == 1 else None

    def near(self, instant: str, windows_us: Windows) -> JoinedTable:
        return JoinedTable([part.near(instant, windows_us) for part in self._parts], self._order_by)

    def __getitem__(self, name: str) -> Column:
        if name not in self._joined:
            self._joined[name] = self.once(name)
        return self._joined[name]

    def once(self, name: str) -> Column:
        if name in self._joined:
            return self._joined[name]
        if name not in self._names:
            raise KeyError(name)
        known = {place: part.once(name) for place, part in enumerate(self._parts) if name in part}
        kind = next(iter(known.values())).dtype
        missing = np.nan if kind.kind == "f" else NULL
        found = [
            known[place] if place in known else np.full(len(part), missing, kind)
            for place, part in enumerate(self._parts)
        ]
        column = found[0] if len(found) == 1 else np.concatenate(found)
        return column if self._order is None else column[self._order]
