"""Reads the streams that `inside.stream` writes, into numpy columns, whatever state they were left in.

Frames stand alone and carry a checksum, so a torn or garbled part costs the rows of its frames: the reader
looks for the next frame and says how many bytes it passed over.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import StoreError
from edgetrain.inside.stream import ALL_NULL, COLUMN, FRAME, MAGIC, PLANES, SOME_NULL

NULL = -1  # a missing integer, once decoded
MOST_HEADER_BYTES = 1 << 20  # a header line longer than this is garbage
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """One stream file, decoded. `skipped_bytes` is what could not be read."""

    kind: str
    meta: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]
    skipped_bytes: int
    rows: int


def read_stream(path: Path, only: Iterable[str] | None = None) -> Stream:
    """Read a stream file; `only` names the columns wanted (others are passed over, which is fast)."""
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
    frames, skipped = _frames(data, end + 1, size)
    wanted = _with_references(specs, set(only)) if only is not None else {name for name, _ in specs}
    try:
        columns = _decode(data, frames, specs, wanted)
    except (struct.error, IndexError, ValueError) as error:
        raise StoreError(f"{path.name} holds frames that do not fit its header ({error})") from error
    return Stream(header.get("kind", ""), header.get("meta", {}), columns, skipped, sum(rows for _, rows in frames))


def _with_references(specs: Sequence[tuple[str, str]], wanted: set[str]) -> set[str]:
    """Add the columns that `after:` encodings of the wanted ones lean on."""
    encodings = dict(specs)
    for name in list(wanted):
        while encodings.get(name, "").startswith("after:"):
            name = encodings[name][6:]
            wanted.add(name)
    return wanted


def _frames(data: mmap.mmap, at: int, size: int) -> tuple[list[tuple[int, int]], int]:
    """Return (payload offset, rows) of every sound frame, and how many bytes were passed over."""
    frames = []
    skipped = 0
    view = memoryview(data)
    while at + FRAME.size <= size:
        magic, length, rows, checksum = FRAME.unpack_from(data, at)
        begin = at + FRAME.size
        sound = magic == MAGIC and begin + length <= size and zlib.crc32(view[begin : begin + length]) == checksum
        if sound:
            frames.append((begin, rows))
            at = begin + length
        else:
            found = data.find(MAGIC, at + 1)
            found = size if found < 0 else found
            skipped += found - at
            at = found
    view.release()
    return frames, skipped + size - at


def _decode(
    data: mmap.mmap, frames: Sequence[tuple[int, int]], specs: Sequence[tuple[str, str]], wanted: set[str]
) -> dict[str, NDArray[Any]]:
    total = sum(rows for _, rows in frames)
    columns: dict[str, NDArray[Any]] = {}
    for name, encoding in specs:
        if name in wanted:
            kind: Any = {"f4": np.float32, "f8": np.float64}.get(encoding, np.int64)
            columns[name] = np.empty(total, kind)
    nulls: dict[str, list[tuple[int, int, NDArray[np.bool_] | None]]] = {name: [] for name in wanted}
    starts = np.concatenate([[0], np.cumsum([rows for _, rows in frames])]).astype(int)
    buffer = np.frombuffer(data, np.uint8)

    def decode_some(part: range) -> None:
        for index in part:
            offset, rows = frames[index]
            _decode_frame(buffer, offset, rows, int(starts[index]), specs, columns, nulls)

    # Byte planes are copied by numpy with the interpreter lock released: two threads use two cores.
    half = len(frames) // 2
    if len(frames) > 64:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(decode_some, [range(half), range(half, len(frames))]))
    else:
        decode_some(range(len(frames)))

    encodings = dict(specs)
    for name, column in columns.items():
        encoding = encodings[name]
        if encoding.startswith("after:"):
            column += columns[encoding[6:]]
        # Nulls are written last, in the order of the columns: `after:` leans on a reference whose nulls are 0.
        for start, stop, mask in nulls[name]:
            column[start:stop] = 0 if mask is None else np.where(mask, 0, column[start:stop])
    for name, spans in nulls.items():
        for start, stop, mask in spans:
            part = columns[name][start:stop]
            part[slice(None) if mask is None else mask] = NULL
    return columns


def _decode_frame(
    buffer: NDArray[np.uint8],
    offset: int,
    rows: int,
    start: int,
    specs: Sequence[tuple[str, str]],
    columns: Mapping[str, NDArray[Any]],
    nulls: Mapping[str, list[tuple[int, int, NDArray[np.bool_] | None]]],
) -> None:
    for name, encoding in specs:
        column = columns.get(name)
        if encoding in ("f4", "f8"):
            width = 4 if encoding == "f4" else 8
            if column is not None:
                raw = buffer[offset : offset + rows * width].tobytes()
                column[start : start + rows] = np.frombuffer(raw, f"<f{width}")
            offset += rows * width
            continue
        code, first, smallest = COLUMN.unpack_from(buffer.data, offset)
        offset += COLUMN.size
        mask: NDArray[np.bool_] | None = None
        if code & SOME_NULL:
            size = (rows + 7) // 8
            if column is not None:
                bits = np.unpackbits(buffer[offset : offset + size], bitorder="little")
                mask = bits[:rows].astype(bool)
            offset += size
        planes = code & PLANES
        if column is not None:
            target = column[start : start + rows]
            if code & ALL_NULL:
                target[:] = 0
                nulls[name].append((start, start + rows, None))
            else:
                _fill(target, buffer[offset : offset + planes * rows], planes, rows, smallest)
                if encoding == "delta":
                    np.cumsum(target, out=target)
                    target += first
                if mask is not None:
                    nulls[name].append((start, start + rows, mask))
        offset += planes * rows


def _fill(target: IntArray, data: NDArray[np.uint8], planes: int, rows: int, smallest: int) -> None:
    """Put byte planes back together into integers."""
    if planes <= 4:
        # Shifts of whole planes beat a strided write of single bytes.
        if planes == 0:
            target[:] = smallest
            return
        value = data[:rows].astype(np.uint32)
        for plane in range(1, planes):
            value |= data[plane * rows : (plane + 1) * rows].astype(np.uint32) << np.uint32(8 * plane)
        target[:] = value
    else:
        wide = data[:rows].astype(np.uint64)
        for plane in range(1, planes):
            wide |= data[plane * rows : (plane + 1) * rows].astype(np.uint64) << np.uint64(8 * plane)
        target[:] = wide.astype(np.int64)
    if smallest:
        target += smallest


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


def join_columns(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Put streams of one kind behind each other; a column that a part lacks is null there."""
    parts = [part for part in parts if part and len(next(iter(part.values())))]
    if not parts:
        return {}
    names = list(dict.fromkeys(name for part in parts for name in part))
    if len(parts) == 1:
        return dict(parts[0])
    joined = {}
    for name in names:
        kind = next(part[name].dtype for part in parts if name in part)
        missing = np.nan if kind.kind == "f" else NULL
        joined[name] = np.concatenate(
            [part[name] if name in part else np.full(len(next(iter(part.values()))), missing, kind) for part in parts]
        )
    return joined
