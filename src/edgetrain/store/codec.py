"""Reads the streams that `inside.stream` writes, into numpy columns, whatever state they were left in.

Frames stand alone and carry a checksum, so a torn or garbled part costs the rows of its frames: the reader
looks for the next frame and says how many bytes it passed over.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import StoreError
from edgetrain.inside.stream import ALL_NULL, COLUMN, FRAME, MAGIC, PLANES, SOME_NULL, checksum

NULL = -1  # a missing integer, once decoded
MOST_HEADER_BYTES = 1 << 20  # a header line longer than this is garbage
IntArray = NDArray[np.int64]
FLOATS = {"f4": 4, "f8": 8}  # encodings that are plain floats, and their size


@dataclass(frozen=True)
class Stream:
    """One stream file, decoded as it is asked for. `skipped_bytes` is what could not be read."""

    kind: str
    meta: Mapping[str, Any]
    columns: StreamColumns
    skipped_bytes: int
    rows: int


def read_stream(path: Path) -> Stream:
    """Read a stream file."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size == 0:
            raise StoreError(f"{path.name} is empty: it was cut off before its first write")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    end = data.find(b"\n", 0, MOST_HEADER_BYTES)
    try:
        header = json.loads(data[: max(end, 0)])
        if end < 0 or header["edgetrain"] != "stream":
            raise ValueError("no header")
        specs = [(str(name), str(encoding)) for name, encoding in header["columns"]]
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path.name} does not begin with a stream header ({error})") from error
    frames, skipped = _frames(data, end + 1, size, COLUMN.size * sum(encoding not in FLOATS for _, encoding in specs))
    columns = StreamColumns(np.frombuffer(data, np.uint8), frames, specs)
    return Stream(header.get("kind", ""), header.get("meta", {}), columns, skipped, columns.rows)


def _frames(data: mmap.mmap, at: int, size: int, least: int) -> tuple[list[tuple[int, int]], int]:
    """Return (payload offset, rows) of every sound frame, and how many bytes were passed over."""
    frames = []
    skipped = 0
    view = memoryview(data)
    while at + FRAME.size <= size:
        magic, length, rows, expected = FRAME.unpack_from(data, at)
        begin = at + FRAME.size
        sound = magic == MAGIC and begin + length <= size and length >= least
        if sound and checksum(view[begin : begin + length], rows) == expected:
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


class StreamColumns(Mapping[str, NDArray[Any]]):
    """The columns of one stream, each decoded over all its frames at once, when first asked for."""

    def __init__(self, buffer: NDArray[np.uint8], frames: Sequence[tuple[int, int]], specs: Sequence[tuple[str, str]]):
        self._buffer = buffer
        self._frames = frames
        self._specs = dict(specs)
        self._counts = [count for _, count in frames]
        self._in_frame = np.asarray(self._counts, np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._in_frame)]).astype(np.int64)
        self.rows = int(self._starts[-1])
        self._decoded: dict[str, NDArray[Any]] = {}
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

    def during(self, instant: str, windows_us: Sequence[tuple[int, int]]) -> StreamColumns:
        """Return only the frames that may hold rows of these windows, by a delta column that rises."""
        first = self._heads[instant]["first"] if len(self._frames) else np.zeros(0, np.int64)
        last = np.append(first[1:], np.iinfo(np.int64).max)
        keep = np.zeros(len(first), bool)
        for start, stop in windows_us:
            keep |= (last >= start) & (first <= stop)
        return StreamColumns(
            self._buffer, [self._frames[at] for at in np.flatnonzero(keep).tolist()], list(self._specs.items())
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._decoded:
            self._decoded[name] = self.once(name)
        return self._decoded[name]

    def once(self, name: str) -> NDArray[Any]:
        """Return a column without keeping it."""
        if name in self._decoded:
            return self._decoded[name]
        column, missing = self._decode(name)
        if missing is not None:
            column[missing] = NULL
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def _decode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
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

    def _reference(self, name: str) -> NDArray[Any]:
        """Return the column that another leans on; its missing values stand as 0, as they did when it was written."""
        column = self[name]
        if np.any(self._heads[name]["code"] & (SOME_NULL | ALL_NULL)):
            column = np.where(self._missing(name), 0, column)
        return column

    def _integers(self, name: str) -> IntArray:
        """Put byte planes back together; a frame without a plane has zeros there."""
        planes = (self._heads[name]["code"] & PLANES).astype(int)
        most = int(planes.max(initial=0))
        column = np.zeros(self.rows, "<i8")
        places = list(zip(self._offsets[name].tolist(), planes.tolist(), self._counts, strict=True))
        nothing = np.zeros(max(self._counts, default=0), np.uint8)
        in_bytes = column.view(np.uint8).reshape(self.rows, column.itemsize)
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
        mask = np.zeros(self.rows, bool)
        for frame in np.flatnonzero(code & (SOME_NULL | ALL_NULL)).tolist():
            part = mask[self._starts[frame] : self._starts[frame + 1]]
            if code[frame] & ALL_NULL:
                part[:] = True
            else:
                size = (len(part) + 7) // 8
                at = int(self._offsets[name][frame]) - size
                part[:] = np.unpackbits(self._buffer[at : at + size], bitorder="little")[: len(part)]
        return mask


class JoinedColumns(Mapping[str, NDArray[Any]]):
    """Streams of one kind behind each other, column by column as asked for; what a stream lacks is null there."""

    def __init__(self, parts: Sequence[StreamColumns], order_by: str | None = None) -> None:
        self._parts = [part for part in parts if part.rows]
        self._order_by = order_by
        self._names = list(dict.fromkeys(name for part in self._parts for name in part))
        self._joined: dict[str, NDArray[Any]] = {}
        self._order: NDArray[np.intp] | None = None
        if order_by in self._names and len(self._parts) > 1:
            self._order = np.argsort(self[order_by], kind="stable")
            self._joined.clear()

    def during(self, instant: str, windows_us: Sequence[tuple[int, int]]) -> JoinedColumns:
        """Return only the frames that may hold rows of these windows."""
        return JoinedColumns([part.during(instant, windows_us) for part in self._parts], self._order_by)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._joined:
            self._joined[name] = self.once(name)
        return self._joined[name]

    def once(self, name: str) -> NDArray[Any]:
        """Return a column without keeping it."""
        if name in self._joined:
            return self._joined[name]
        if name not in self._names:
            raise KeyError(name)
        known = {place: part.once(name) for place, part in enumerate(self._parts) if name in part}
        kind = next(iter(known.values())).dtype
        missing = np.nan if kind.kind == "f" else NULL
        found = [
            known[place] if place in known else np.full(part.rows, missing, kind)
            for place, part in enumerate(self._parts)
        ]
        column = found[0] if len(found) == 1 else np.concatenate(found)
        return column if self._order is None else column[self._order]

    def streams(self) -> Sequence[Mapping[str, NDArray[Any]]]:
        """Return the streams one by one, for sums that need not see them joined."""
        return self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where it is absent or broken."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def read_events(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Read a file of JSON lines; return the events and how many lines were broken."""
    events = []
    broken = 0
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
            if not isinstance(event, dict):
                raise ValueError("not an object")
            events.append(event)
        except ValueError:
            broken += 1
    return events, broken
