"""Append-only columns on disk: a JSON header line, then frames that each stand alone.

A frame holds some rows, column by column: the heads of all integer columns, then the data of all columns. Integers
are stored as an offset from the frame's smallest value in as few bytes as the largest needs, byte plane by byte plane,
after the encoding the header names:

    plain         the value
    delta         the difference to the previous row
    after:NAME    the difference to column NAME in the same row
    f4, f8        a float; NaN where nothing was read

A missing integer is None. A reader that meets a broken frame skips to the next one, so a kill or a torn tail
costs the rows not yet flushed and nothing else. Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
import zlib
from array import array
from operator import sub
from typing import Any, Dict, List, Optional, Sequence, Tuple

MAGIC = b"EtF1"
FRAME = struct.Struct("<4sIII")  # magic, payload bytes, rows, checksum
COLUMN = struct.Struct("<Bqq")  # code, first value (delta only), smallest stored value
PLANES = 0x0F  # code: how many byte planes
ALL_NULL = 0x40  # code: no row has a value
SOME_NULL = 0x20  # code: a bitmap of missing rows follows
FLUSH_INTERVAL_S = 0.9
SYNC_INTERVAL_S = 3.5  # at the next flush: every four seconds
MAX_FRAME_ROWS = 8192
# The thread that adds rows may encode them itself: at least 64 at a time, at this interval; sooner when 1024 wait.
MIN_ENCODED_ROWS, ENCODE_INTERVAL_S, MAX_WAITING_ROWS = 64, 0.75, 1024
# A thread that encoded less than this ago will do so again: rows added since then can wait for it. With both intervals
# no row waits for two seconds.
ENCODED_LATELY_S = 1.0
LOCK_S = 1.0  # a flush waits at most this long for another one

# One row per fetch of the training process; it covers the time until the next fetch of any loader on that thread. A row
# without a batch is the end of a pass (or a fetch that failed, or the stop of a pass's workers). A row without a loader
# has no fetch: it begins with the second backward pass since the last fetch, or with a step where nothing is fetched.
MINIBATCHES = (
    ("loader", "plain"),  # which loader of this process, in order of creation; None: no fetch
    ("generation", "plain"),  # which pass over that loader
    ("epoch", "plain"),  # as the loop named it; None: it did not
    ("batch", "delta"),  # the loader's index of this minibatch within the pass; None: no batch was delivered
    ("phase", "plain"),  # 1 trained in this interval, 2 gradients were off, 3 evaluation mode, 4 both 1 and 3, else 0
    ("asked_us", "delta"),  # the loop asked the loader; without a fetch: the interval began
    ("ready_us", "after:asked_us"),  # the loop had received the batch, or the fetch ended without one
    ("copied_us", "after:ready_us"),  # it was on the accelerator
    ("launched_us", "after:ready_us"),  # the host had issued the last backward pass or step of the interval
    ("done_us", "after:ready_us"),  # that had finished on the accelerator
    ("copying_us", "after:ready_us"),  # the copy began; None: not reported, so when the minibatch was ready
    ("sent_us", "after:asked_us"),  # this minibatch's index was sent to its worker
    ("worker", "plain"),  # which worker made it; None: the loop itself
    ("samples", "plain"),  # how many samples it holds
    ("queued_us", "plain"),  # run-queue wait of the loop's thread between asked and ready
    ("cpu_us", "plain"),  # CPU time of the loop's thread between them; both read once per 8 ms of waiting
    ("thread", "plain"),  # which thread of this process, in order of its first fetch or step
    ("site", "plain"),  # from which place in the program the loader was asked; None: it was not
    ("forwards", "plain"),  # autograd nodes made in the interval before its first backward pass; None: not countable
    ("forwards_after", "plain"),  # those made after its last backward pass; None where there was none
    ("backwards", "plain"),  # backward passes that ended in the interval
    ("steps", "plain"),  # steps of the optimizer that was first to step in this process
    ("other_steps", "plain"),  # steps of other optimizers
    ("optimizer", "plain"),  # which optimizer stepped first in the interval, in order of their first steps; None: none
    ("reaches_back", "plain"),  # 1: its backward pass reached forward passes of earlier intervals that had none; 0: not
    ("idle_us", "after:asked_us"),  # the accelerator had finished what was issued before this fetch, if in mid-step
)

# Counters are read once per 8 ms of fetching, and at each fetch that reads from the medium: the others have instants,
# their CPU time if they took a millisecond, and None for the rest. Bytes are never lost: they are counted with the next
# fetch whose counters are read.
WORKERS = (
    ("loader", "plain"),
    ("generation", "plain"),
    ("batch", "delta"),
    ("worker", "plain"),
    ("began_us", "delta"),  # the fetch began
    ("fetched_us", "after:began_us"),  # the fetch ended, batch collated
    ("shipped_us", "after:fetched_us"),  # the feeder thread had sent it; None: not seen
    ("cpu_us", "plain"),  # CPU time of the fetching thread
    ("helpers_us", "plain"),  # CPU time of the process's other threads meanwhile
    ("system_us", "plain"),  # kernel share of the process's CPU time
    ("queued_us", "plain"),  # run-queue wait of the fetching thread
    ("helpers_queued_us", "plain"),  # run-queue wait of the other threads, summed; None: they did too little
    ("stolen_us", "plain"),  # residual without one voluntary switch: cannot be blocking
    ("read_bytes", "plain"),  # bytes that came from the storage medium
    ("faults", "plain"),  # major faults
    ("switches", "plain"),  # voluntary switches
    ("collate_us", "plain"),  # of the fetch, time in the collate function
    ("feeder_cpu_us", "plain"),  # CPU time of the feeder thread for this batch
    ("feeder_queued_us", "plain"),  # its run-queue wait
    ("pickled_us", "after:fetched_us"),  # it began to send, pickling done
    ("waking_us", "plain"),  # run-queue wait of the fetching thread since its last fetch, before this one began
    ("helpers", "plain"),  # how many other threads ran during the fetch
)


def now_us() -> int:
    """Return the instant on the run's clock, shared by all processes of one boot."""
    return time.monotonic_ns() // 1000


def _planes(values: Sequence[int]) -> Tuple[int, int, bytes]:
    """Return (smallest, planes, bytes) of a list of ints."""
    smallest = min(values)
    width = ((max(values) - smallest).bit_length() + 7) // 8
    if width == 0:
        return smallest, 0, b""
    raw = array("Q", map((-smallest).__add__, values)) if smallest else array("Q", values)
    if sys.byteorder == "big":
        raw.byteswap()
    data = raw.tobytes()
    return smallest, width, b"".join([data[plane::8] for plane in range(width)])


def encode_integers(values: Sequence[Any], encoding: str, reference: Optional[Sequence[int]]) -> Tuple[bytes, bytes]:
    """Encode one integer column as head and data; `reference` is the column that `after:` names."""
    count = len(values)
    missing = None
    if None in values:
        present = [value for value in values if value is not None]
        if not present:
            return COLUMN.pack(ALL_NULL, 0, 0), b""
        bits = bytearray((count + 7) // 8)
        filled = []
        # A missing value is filled so that the differences stay small.
        filler = present[0] if encoding != "plain" else min(present)
        for row, value in enumerate(values):
            if value is None:
                bits[row >> 3] |= 1 << (row & 7)
                filled.append(reference[row] if reference is not None else filler)
            else:
                filler = value if encoding == "delta" else filler
                filled.append(value)
        missing = bytes(bits)
        values = filled
    first = 0
    if encoding == "delta":
        first = values[0]
        values = [0, *map(sub, values[1:], values)]
    elif reference is not None:
        values = list(map(sub, values, reference))
    smallest, width, data = _planes(values)
    head = COLUMN.pack(width | (SOME_NULL if missing else 0), first, smallest)
    return head, (missing or b"") + data


def encode_frame(columns: Sequence[Tuple[str, str]], rows: Sequence[Tuple[Any, ...]]) -> bytes:
    """Encode rows (tuples in the order of `columns`) as one frame."""
    if len(rows[0]) != len(columns):
        raise ValueError("a row holds %d values, the stream has %d columns" % (len(rows[0]), len(columns)))
    by_name: Dict[str, Sequence[int]] = {}
    heads = []
    parts = []
    for (name, encoding), values in zip(columns, zip(*rows)):
        if encoding in ("f4", "f8"):
            raw = array("f" if encoding == "f4" else "d", [float("nan") if v is None else v for v in values])
            if sys.byteorder == "big":
                raw.byteswap()
            parts.append(raw.tobytes())
            continue
        reference = None
        if encoding.startswith("after:"):
            # A reference that is itself missing counts as 0, on both sides.
            reference = by_name[encoding[6:]]
        head, data = encode_integers(values, encoding, reference)
        heads.append(head)
        parts.append(data)
        by_name[name] = [0 if value is None else value for value in values] if None in values else values
    payload = b"".join(heads + parts)
    return FRAME.pack(MAGIC, len(payload), len(rows), checksum(payload, len(rows))) + payload


def checksum(payload: Any, rows: int) -> int:
    """Return the checksum of a frame: over its payload, and over how many rows it says it has."""
    return zlib.crc32(payload, rows)


class StreamWriter:
    """Appends rows to one stream file; flushes every second, fdatasyncs every four.

    `add` only appends to a list. Call `flush` yourself, or `start` a thread that does. A thread that encodes holds the
    interpreter, and the one that adds rows waits for it; one that adds many does better to call `encode` now and then.
    Several processes may append to one file, each frame in one write; the first one writes the header.
    """

    def __init__(
        self, path: str, kind: str, columns: Sequence[Tuple[str, str]], meta: Optional[Dict[str, Any]] = None
    ) -> None:
        self.path = path
        self.columns = tuple((str(name), str(encoding)) for name, encoding in columns)
        self.written_bytes = 0
        self.cpu_ns = 0  # of the thread that `start` started
        self.failed: Optional[str] = None  # the first error met while writing; nothing is written after it
        self._rows: List[Tuple[Any, ...]] = []
        self._frames: List[bytes] = []  # encoded, not yet written
        self._encoded_at = float("-inf")  # when `encode` last did
        self.encode_interval_s = ENCODE_INTERVAL_S
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._synced = self._flushed = self._opened = time.monotonic()
        header = {
            "edgetrain": "stream",
            "version": 1,
            "kind": kind,
            "columns": self.columns,
            "meta": meta or {},
        }
        self._fd: Optional[int] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if os.fstat(self._fd).st_size == 0:
            self._write((json.dumps(header) + "\n").encode())

    def add(self, row: Tuple[Any, ...]) -> None:
        """Take one row, a tuple in the order of the columns."""
        self._rows.append(row)

    def due(self) -> bool:
        """Return whether rows wait that are older than the flush interval."""
        return bool(self._rows) and time.monotonic() - self._flushed >= FLUSH_INTERVAL_S

    def flush_by_age(self) -> None:
        """Flush if a tenth of this writer's life has passed since it last did: whenever it ends, little is lost."""
        now = time.monotonic()
        if self._rows and now - self._flushed >= min(FLUSH_INTERVAL_S, (now - self._opened) / 10):
            self.flush()

    def encode(self) -> None:
        """Encode the rows that wait, if there are enough of them. Does not wait for a disk."""
        now, waiting = time.monotonic(), len(self._rows)
        enough = MIN_ENCODED_ROWS if now - self._encoded_at >= self.encode_interval_s else MAX_WAITING_ROWS
        if waiting < enough or not self._lock.acquire(False):
            return
        try:
            self._encode()
            self._encoded_at = now
        finally:
            self._lock.release()

    def _encode(self) -> None:
        rows, self._rows = self._rows, []
        for start in range(0, len(rows), MAX_FRAME_ROWS):
            self._frames.append(encode_frame(self.columns, rows[start : start + MAX_FRAME_ROWS]))

    def flush(self, sync: bool = False) -> None:
        """Write what waits. Never raises: a full disk must not end the training."""
        if os.getpid() != self._pid or self._fd is None:
            return  # a forked child must not write its parent's rows
        # A signal handler may call this while the same thread is in here: then there is nothing to wait for.
        if not self._lock.acquire(timeout=LOCK_S):
            return
        try:
            if sync or time.monotonic() - self._encoded_at > ENCODED_LATELY_S:
                self._encode()
            frames, self._frames = self._frames, []
            if frames:
                self._write(b"".join(frames))
            self._flushed = time.monotonic()
            if sync or self._flushed - self._synced >= SYNC_INTERVAL_S:
                self._synced = self._flushed
                try:
                    os.fdatasync(self._fd)
                except OSError as error:
                    self.failed = self.failed or str(error)
        finally:
            self._lock.release()

    def _write(self, data: bytes) -> None:
        if self.failed or self._fd is None:
            return
        try:
            done = 0
            while done < len(data):
                done += os.write(self._fd, data[done:])
            self.written_bytes += len(data)
        except OSError as error:
            self.failed = str(error)

    def start(self) -> StreamWriter:
        """Flush from a daemon thread until `close`."""
        self._thread = threading.Thread(target=self._run, name="edgetrain-writer", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_INTERVAL_S):
            self.flush()
            self.cpu_ns = time.thread_time_ns()

    def close(self) -> None:
        """Flush, sync and close; safe to call twice."""
        if self._fd is None or os.getpid() != self._pid:
            return
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self.flush(sync=True)
        os.close(self._fd)
        self._fd = None


def append_event(path: str, kind: str, text: str, **facts: Any) -> None:
    """Append one event, a JSON line with its instant, to an events file. Never raises."""
    line = dict({"at_us": now_us()}, **facts)
    line.update(kind=kind, text=text)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, (json.dumps(line) + "\n").encode())
        finally:
            os.close(fd)
    except OSError:
        pass


def write_json(path: str, document: Any) -> None:
    """Replace a JSON file atomically: a reader sees the old one or the new one, never half of either."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    with open(temporary, "w") as file:
        json.dump(document, file, indent=1, default=str)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
