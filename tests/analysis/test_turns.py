"""Rows are grouped into turns of a loop, however the record is stored; parts add up for any sequence of rows."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.epochs import find_epochs
from edgetrain.analysis.loop import find_loops
from edgetrain.analysis.row_runs import RowRuns
from edgetrain.analysis.turns import Turns, assemble
from edgetrain.inside.stream import MINIBATCHES, StreamWriter
from edgetrain.record import ArrayTable, Manifest, Process, Run, Table
from edgetrain.record.decoder import read_stream

Row = dict[str, int | None]


class Paper:
    """A training on paper: rows as `inside` writes them, on a clock that the script turns."""

    def __init__(self) -> None:
        self.now, self.rows, self.passes = 1_000_000, [], {}

    def fetch(self, loader: int = 0, site: int = 0, generation: int = 0, wait: int = 500) -> Row:
        """A batch is delivered."""
        key = loader, generation
        self.passes[key] = self.passes.get(key, -1) + 1
        return self._open(loader, generation, self.passes[key], site, wait)

    def end(self, loader: int = 0, site: int | None = 0, generation: int = 0, wait: int = 50) -> Row:
        """A pass ends."""
        return self._open(loader, generation, None, site, wait)

    def train(self, took: int = 2_000, forwards: int = 5) -> None:
        """Forward, backward and a step; in a row of its own where the last one has a backward pass already."""
        if not self.rows or self.rows[-1]["backwards"]:
            self._open(None, None, None, None, 0)
        row = self.rows[-1]
        self.now += took
        row |= {"phase": 1, "forwards": forwards, "forwards_after": 0, "backwards": 1, "steps": 1}
        row |= {"launched_us": self.now, "done_us": self.now}

    def look(self, took: int = 300) -> None:
        """A forward pass alone."""
        self.now += took
        self.rows[-1]["forwards"] = 5

    def _open(self, loader: int | None, generation: int | None, batch: int | None, site: int | None, wait: int) -> Row:
        row: Row = dict.fromkeys((name for name, _ in MINIBATCHES), None)
        row |= {"loader": loader, "generation": generation, "batch": batch, "site": site, "phase": 0, "thread": 0}
        row |= {"asked_us": self.now, "ready_us": self.now + wait, "forwards": 0, "backwards": 0, "steps": 0}
        row |= {"other_steps": 0, "samples": None if batch is None else 2}
        self.now += wait
        self.rows.append(row)
        self.now += 10
        return row

    def table(self) -> Table:
        """As arrays in memory."""
        return ArrayTable.from_rows(MINIBATCHES, [tuple(row.values()) for row in self.rows])

    def stream(self, path: Path, frame: int) -> Table:
        """As a stream of frames."""
        writer = StreamWriter(str(path), "minibatches", MINIBATCHES)
        for place, row in enumerate(self.rows):
            writer.add(tuple(row.values()))
            if place % frame == frame - 1:
                writer.flush()
        writer.close()
        return read_stream(path).table


def random_training(seed: int) -> Paper:
    """Loops of random shapes, one after the other."""
    draw, paper = random.Random(seed), Paper()
    for generation in range(draw.randrange(1, 6)):
        shape = draw.choice(("plain", "plain", "pair", "ahead", "skips", "groups", "evaluation", "steps"))
        batches = draw.randrange(1, 30)
        if shape == "ahead":
            paper.fetch(generation=generation)
        for number in range(batches):
            if shape == "steps":
                paper.train()
                continue
            paper.fetch(generation=generation, wait=draw.randrange(1, 3_000))
            if shape == "pair":
                paper.fetch(loader=1, generation=generation, wait=draw.randrange(1, 3_000))
            if shape == "evaluation":
                paper.rows[-1]["phase"] = 2
            elif shape == "groups" and number % 3 == 2:
                for _ in range(3):
                    paper.train(draw.randrange(100, 5_000))
            elif shape in ("plain", "pair", "ahead") or (shape == "skips" and draw.random() < 0.6):
                paper.train(draw.randrange(100, 5_000))
        if shape != "steps" and draw.random() < 0.8:
            paper.end(generation=generation)
            if shape == "ahead":
                paper.train()
        paper.now += draw.randrange(10_000)
    return paper


def same(one: Turns, other: Turns, minibatches: Table, others: Table) -> None:
    assert one.epoch.tolist() == other.epoch.tolist()
    ours, theirs = break_down(minibatches, one), break_down(others, other)
    for name in ("begin_us", "done_us", "stall_s", "compute_s", "overhead_s", "e2e_s"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name))
    assert find_epochs(minibatches, one, ours) == find_epochs(others, other, theirs)


@pytest.mark.parametrize("frame", [1, 3, 10, 1000])
@pytest.mark.parametrize("seed", range(40))
def test_a_record_says_the_same_whether_its_frames_are_condensed_or_not(seed: int, frame: int, tmp_path: Path) -> None:
    paper = random_training(seed)
    table, stream = paper.table(), paper.stream(tmp_path / "minibatches-1.ets", frame)
    same(assemble(table), assemble(stream), table, stream)


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_any_sequence_of_rows_add_up_and_minibatches_do_not_overlap(seed: int) -> None:
    table = random_training(seed).table()
    turns = assemble(table)
    parts = break_down(table, turns)
    if not len(parts):
        return
    whole = parts.stall_s + parts.copy_s + parts.compute_s + parts.overhead_s
    np.testing.assert_allclose(whole, parts.e2e_s, atol=1e-9)
    for part in (parts.stall_s, parts.copy_s, parts.compute_s, parts.overhead_s, parts.e2e_s):
        assert part.min() >= 0
    assert np.all(parts.begin_us[1:] >= parts.done_us[:-1])
    epochs = find_epochs(table, turns, parts)
    assert sum(epoch.stop - epoch.first for epoch in epochs) == len(parts)
    for epoch in epochs:
        assert epoch.stall_s + epoch.copy_s + epoch.compute_s <= epoch.e2e_s + 1e-9


def test_batches_trained_one_after_the_other_have_their_own_instants_and_the_first_has_the_waits() -> None:
    paper = Paper()
    for _ in range(3):
        for _ in range(4):
            paper.fetch(wait=1_000)
        for _ in range(4):
            paper.train(2_000)
    parts = break_down(paper.table())
    assert len(parts) == 12 and parts.trained is None
    stalls = parts.stall_s.reshape(3, 4)
    assert stalls[:, 0] == pytest.approx([4e-3] * 3) and not stalls[:, 1:].any()
    assert parts.compute_s.reshape(3, 4)[:, 1:] == pytest.approx(np.full((3, 3), 2e-3), abs=2e-5)


def test_a_loop_that_looks_ahead_has_as_many_minibatches_as_batches_and_its_fill_is_all_it_waited_first() -> None:
    paper = Paper()
    for generation in range(2):
        paper.fetch(generation=generation, wait=7_000)
        for _ in range(4):
            paper.fetch(generation=generation, wait=1_000)
            paper.train()
        paper.end(generation=generation)
        paper.train()
    table = paper.table()
    turns = assemble(table)
    epochs = find_epochs(table, turns, break_down(table, turns))
    assert turns.epoch.tolist() == [0] * 5 + [1] * 5 and turns.trained is None
    assert [epoch.fill_s for epoch in epochs] == pytest.approx([8e-3, 8e-3])


def test_a_skipped_batch_keeps_its_wait_and_what_the_loop_did_with_it_is_overhead() -> None:
    paper = Paper()
    for number in range(6):
        paper.fetch(wait=3_000)
        if number % 2:
            paper.now += 4_000
        else:
            paper.train()
    parts = break_down(paper.table())
    assert parts.trained is not None and parts.trained.tolist() == [True, False] * 3
    assert parts.stall_s == pytest.approx([3e-3] * 6)
    assert not parts.compute_s[1::2].any()
    assert parts.overhead_s[2::2] == pytest.approx([4.01e-3] * 2, abs=1e-4)


def test_evaluation_within_an_epoch_is_neither_compute_nor_part_of_a_minibatch() -> None:
    paper = Paper()
    for number in range(6):
        paper.fetch()
        paper.train()
        if number == 2:
            for _ in range(3):
                paper.fetch(loader=1, site=1, wait=5_000)["phase"] = 2
            paper.end(loader=1, site=1)
    paper.end()
    table = paper.table()
    turns = assemble(table)
    parts = break_down(table, turns)
    assert len(parts) == 6 and parts.e2e_s.max() < 4e-3
    (epoch,) = find_epochs(table, turns, parts)
    assert epoch.evaluation_s == pytest.approx(15.08e-3, abs=1e-4)
    assert epoch.e2e_s == pytest.approx((paper.now - 10 - 1_000_000) / 1e6)


def test_the_time_for_workers_to_end_is_in_the_epoch_and_named() -> None:
    paper = Paper()
    for _ in range(3):
        paper.fetch()
        paper.train()
    paper.end(wait=30_000)
    table = paper.table()
    turns = assemble(table)
    (epoch,) = find_epochs(table, turns, break_down(table, turns))
    assert epoch.worker_join_s == pytest.approx(30e-3)
    assert epoch.e2e_s > 30e-3 + 3 * 2.5e-3


def test_waiting_in_the_middle_of_a_step_is_stall_not_compute() -> None:
    paper = Paper()
    paper.fetch(site=0)
    for _ in range(8):
        paper.rows[-1]["forwards" if len(paper.rows) == 1 else "forwards_after"] = 9
        paper.now += 1_000
        paper.fetch(site=1, wait=4_000)
        paper.train(1_500, forwards=0)
        paper.rows[-1]["forwards_after"] = 9
    parts = break_down(paper.table())
    assert len(parts) == 8
    assert parts.stall_s[1:] == pytest.approx([4e-3] * 7)
    assert parts.compute_s[1:] == pytest.approx([2.51e-3] * 7, abs=1e-4)


def test_steps_without_a_loader_have_no_stall() -> None:
    paper = Paper()
    for _ in range(5):
        paper.train()
    turns = assemble(paper.table())
    assert len(turns) == 5 and turns.fetched is not None and not turns.fetched.any()


@pytest.mark.parametrize("seed", range(10))
def test_runs_of_rows_are_what_an_index_would_be(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = np.flatnonzero(draw.random(300) < draw.random())
    runs = RowRuns.joined(rows, np.ones(len(rows), np.int64))
    column = draw.integers(0, 9, 300)
    assert len(runs) == len(rows) and runs.rows().tolist() == rows.tolist()
    assert runs.take(column).tolist() == column[rows].tolist()
    low, high = sorted(draw.integers(0, len(rows) + 1, 2).tolist())
    assert runs.between(low, high).rows().tolist() == rows[low:high].tolist()
    if len(rows):
        place = int(draw.integers(0, len(rows)))
        assert runs.row(place) == rows[place]


def test_a_process_that_only_iterates_a_loader_does_not_speak_for_the_run() -> None:
    statistics, training = Paper(), Paper()
    for _ in range(30):
        statistics.fetch(wait=9_000)
    for _ in range(10):
        training.fetch()
        training.train()
    run = Run("r", Manifest(), (Process(minibatches=statistics.table()), Process(minibatches=training.table())))
    assert [len(loop.parts) for loop in find_loops(run)] == [10]
    assert len(run.main.minibatches) == 10


def test_a_loader_of_another_thread_makes_the_stall_unknown_unless_the_loop_is_watched() -> None:
    paper = Paper()
    for _ in range(6):
        paper.fetch(loader=1)["thread"] = 1
        paper.fetch(loader=0)
        paper.train()
    table = paper.table()
    turns = assemble(table)
    assert [doubt.kind for doubt in turns.doubts] == ["loader_in_another_thread"]
    assert len(turns) == 6 and turns.fetched is not None and not turns.fetched.any()
    assert not assemble(table, watched=frozenset({0})).doubts


def test_what_a_loop_looked_at_and_left_is_not_trained_but_what_its_loss_needs_is() -> None:
    for reaches, trained in ((0, 3), (1, 6)):
        paper = Paper()
        for _ in range(3):
            paper.fetch()
            paper.look()
            paper.fetch()
            paper.train()
            paper.rows[-1]["reaches_back"] = reaches
        turns = assemble(paper.table())
        assert len(turns) == 6
        assert (6 if turns.trained is None else int(turns.trained.sum())) == trained


def test_workers_that_are_stopped_after_the_last_batch_are_not_waited_for() -> None:
    paper = Paper()
    for _ in range(5):
        paper.fetch()
        paper.train()
    paper.fetch(wait=700)  # and then the loop was left
    paper.end(site=None, wait=20_000)
    table = paper.table()
    turns = assemble(table)
    parts = break_down(table, turns)
    assert len(parts) == 6 and parts.stall_s[-1] == pytest.approx(700e-6)
    (epoch,) = find_epochs(table, turns, parts)
    assert epoch.worker_join_s == pytest.approx(20e-3)
    assert epoch.end_us == paper.rows[-1]["ready_us"]


def test_a_loop_that_skips_most_batches_in_evaluation_mode_keeps_those_that_it_trains() -> None:
    paper = Paper()
    for _ in range(4):
        for _ in range(3):
            paper.fetch()["phase"] = 3
        paper.fetch()
        paper.train()
    turns = assemble(paper.table())
    assert len(turns) == 4 and turns.fetched is None
