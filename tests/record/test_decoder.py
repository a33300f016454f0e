"""Decode undoes encode, and a damaged stream costs only the damaged part."""

import random
from pathlib import Path

import numpy as np
import pytest

from edgetrain.errors import StoreError
from edgetrain.inside import stream
from edgetrain.inside.stream import MAX_FRAME_ROWS, MINIBATCHES, StreamWriter
from edgetrain.record import NULL
from edgetrain.record.decoder import read_stream

MIXED = (
    ("at_us", "delta"),
    ("back", "after:at_us"),
    ("plain", "plain"),
    ("wide", "plain"),
    ("x_w", "f4"),
    ("y_j", "f8"),
)


def mixed_rows(count: int, seed: int) -> list[tuple]:
    draw = random.Random(seed)
    at = draw.randrange(10**12)
    rows = []
    for _ in range(count):
        at += draw.choice([0, 1, 900, 70_000, 5_000_000])
        rows.append(
            (
                None if draw.random() < 0.1 else at,
                None if draw.random() < 0.2 else at + draw.randrange(-5, 10**6),
                None if draw.random() < 0.3 else draw.randrange(-3, 4),
                draw.randrange(-(2**62), 2**62) if draw.random() < 0.5 else None,
                draw.random() if draw.random() < 0.9 else None,
                draw.random(),
            )
        )
    return rows


def write(path: Path, rows: list[tuple], columns=MIXED, every: int = 100) -> None:
    writer = StreamWriter(str(path), "test", columns)
    for start in range(0, len(rows), every):
        for row in rows[start : start + every]:
            writer.add(row)
        writer.flush()
    writer.close()


@pytest.mark.parametrize("count", [0, 1, 7, 100, 101, 5000])
@pytest.mark.parametrize("seed", range(4))
def test_decode_undoes_encode(tmp_path: Path, count: int, seed: int) -> None:
    rows = mixed_rows(count, seed)
    write(tmp_path / "s.ets", rows)
    stream = read_stream(tmp_path / "s.ets")
    assert stream.skipped_bytes == 0
    for (name, encoding), values in zip(MIXED, zip(*rows, strict=True) if rows else [()] * 6, strict=True):
        got = stream.table[name]
        if encoding.startswith("f"):
            expected = np.array([np.nan if v is None else v for v in values], got.dtype)
            np.testing.assert_array_equal(got, expected)
        else:
            assert got.tolist() == [NULL if v is None else v for v in values], name


def test_a_frame_larger_than_the_limit_is_split_and_read_back(tmp_path: Path) -> None:
    rows = mixed_rows(MAX_FRAME_ROWS + 10, 3)
    write(tmp_path / "s.ets", rows, every=len(rows))
    assert len(read_stream(tmp_path / "s.ets").table) == len(rows)


class Offered:
    """A stream whose adder encodes, on a clock that the test sets."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.path = 1000.0, path
        monkeypatch.setattr(stream.time, "monotonic", lambda: self.now_s)
        self.writer = StreamWriter(str(path), "test", (("n", "plain"),))

    def add(self, count: int) -> None:
        for _ in range(count):
            self.writer.add((1,))
        self.writer.encode()

    def written(self) -> int:
        return len(read_stream(self.path).table)


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offered:
    return Offered(tmp_path / "s.ets", monkeypatch)


def test_rows_that_the_adder_encoded_are_written_and_those_since_wait_for_it(offered: Offered) -> None:
    offered.add(stream.MIN_ENCODED_ROWS)
    offered.add(stream.MIN_ENCODED_ROWS)  # at once again: too soon
    assert offered.written() == 0
    offered.writer.flush()
    assert offered.written() == stream.MIN_ENCODED_ROWS
    offered.now_s += stream.ENCODE_INTERVAL_S
    offered.add(1)
    offered.writer.flush()
    assert offered.written() == 2 * stream.MIN_ENCODED_ROWS + 1


def test_an_adder_in_a_hurry_encodes_more_often_so_that_it_never_stands_still_for_long(offered: Offered) -> None:
    offered.add(stream.MIN_ENCODED_ROWS)
    offered.add(stream.MAX_WAITING_ROWS - 1)
    offered.add(1)
    offered.writer.flush()
    assert offered.written() == stream.MIN_ENCODED_ROWS + stream.MAX_WAITING_ROWS


def test_rows_do_not_wait_for_an_adder_that_has_stopped_encoding(offered: Offered) -> None:
    offered.add(stream.MIN_ENCODED_ROWS)
    offered.add(3)
    offered.now_s += stream.ENCODED_LATELY_S + 0.1
    offered.writer.flush()
    assert offered.written() == stream.MIN_ENCODED_ROWS + 3


def test_few_rows_are_left_to_the_flush_and_the_end_leaves_none(offered: Offered) -> None:
    offered.add(stream.MIN_ENCODED_ROWS - 1)
    offered.writer.flush()
    assert offered.written() == stream.MIN_ENCODED_ROWS - 1
    offered.add(stream.MIN_ENCODED_ROWS)
    offered.add(1)
    offered.writer.close()
    assert offered.written() == 2 * stream.MIN_ENCODED_ROWS


def test_adding_rows_does_not_wait_for_a_slow_disk(offered: Offered) -> None:
    with offered.writer._lock:  # as a flush holds it
        offered.add(stream.MIN_ENCODED_ROWS)
    offered.writer.close()
    assert offered.written() == stream.MIN_ENCODED_ROWS


def test_a_column_is_the_same_whichever_is_asked_for_first(tmp_path: Path) -> None:
    write(tmp_path / "s.ets", mixed_rows(300, 1))
    names = [name for name, _ in MIXED]
    forwards, backwards = read_stream(tmp_path / "s.ets").table, read_stream(tmp_path / "s.ets").table
    found = {name: backwards[name] for name in reversed(names)}
    for name in names:
        np.testing.assert_array_equal(forwards[name], found[name])


def test_a_cut_tail_costs_only_the_last_frame(tmp_path: Path) -> None:
    rows = mixed_rows(1000, 2)
    write(tmp_path / "s.ets", rows)
    data = (tmp_path / "s.ets").read_bytes()
    (tmp_path / "s.ets").write_bytes(data[:-3])
    stream = read_stream(tmp_path / "s.ets")
    assert len(stream.table) == 900
    assert stream.skipped_bytes > 0


def test_garbage_in_the_middle_costs_only_that_frame(tmp_path: Path) -> None:
    rows = mixed_rows(1000, 5)
    write(tmp_path / "s.ets", rows)
    data = bytearray((tmp_path / "s.ets").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "s.ets").write_bytes(bytes(data))
    stream = read_stream(tmp_path / "s.ets")
    assert len(stream.table) == 900
    plain = [NULL if row[2] is None else row[2] for row in rows]
    got = stream.table["plain"].tolist()
    assert any(got == plain[:cut] + plain[cut + 100 :] for cut in range(0, 1000, 100))


def test_a_frame_whose_count_of_rows_was_garbled_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "s.ets", mixed_rows(300, 5))
    data = bytearray((tmp_path / "s.ets").read_bytes())
    second = data.index(b"EtF1", data.index(b"EtF1") + 1)
    data[second + 10] ^= 0x04  # the third byte of the row count
    (tmp_path / "s.ets").write_bytes(bytes(data))
    stream = read_stream(tmp_path / "s.ets")
    assert len(stream.table) == 200
    assert len(stream.table["plain"]) == 200


def test_a_file_that_is_no_stream_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "s.ets").write_bytes(b"\x00\xff garbage")
    with pytest.raises(StoreError, match=r"s\.ets"):
        read_stream(tmp_path / "s.ets")


def test_a_minibatch_row_stays_small(tmp_path: Path) -> None:
    draw = random.Random(1)
    at = 10**9
    rows = []
    for batch in range(4000):
        at += draw.randrange(900, 40_000)
        ready = at + draw.randrange(20, 30_000)
        row = dict.fromkeys(name for name, _ in MINIBATCHES)
        row |= {"loader": 0, "generation": 0, "epoch": 0, "batch": batch, "phase": 1, "asked_us": at, "ready_us": ready}
        row |= {"copied_us": ready + 90, "launched_us": ready + 900, "done_us": ready + 20_000, "samples": 16}
        row |= {"copying_us": ready + 3, "sent_us": at - 60_000, "worker": batch % 4}
        rows.append(tuple(row.values()))
    write(tmp_path / "s.ets", rows, MINIBATCHES, every=1000)
    assert (tmp_path / "s.ets").stat().st_size / len(rows) < 26
