"""Instants on the accelerator are placed on the host's clock, in order, without waiting for it."""

from __future__ import annotations

import struct
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from edgetrain.analysis.breakdown import break_down
from edgetrain.inside import accelerator, session, stream
from edgetrain.inside.stream import now_us
from tests.inside import records, scenes


class Device:
    """An accelerator on paper: work queues up, its clock starts elsewhere and drifts, its events are float32 ms."""

    def __init__(self, drift: float = 0.0) -> None:
        self.free_s = 0.0
        self.drift = drift
        self.waits = 0
        self.capturing = False
        self.cuda = SimpleNamespace(
            Event=lambda enable_timing: Event(self),
            is_current_stream_capturing=lambda: self.capturing,
            synchronize=self.synchronize,
            max_memory_reserved=lambda: 123,
            get_device_name=lambda: "paper",
        )

    def launch(self, seconds: float) -> float:
        """Queue work; return when it will be done, in seconds on the host's clock."""
        self.free_s = max(self.free_s, time.monotonic()) + seconds
        return self.free_s

    def synchronize(self) -> None:
        self.waits += 1
        time.sleep(max(0.0, self.free_s - time.monotonic()))


class Event:
    """Finishes when all work queued before it has."""

    def __init__(self, device: Device) -> None:
        self.device, self.at_s = device, 0.0

    def record(self) -> None:
        self.at_s = max(self.device.free_s, time.monotonic())

    def query(self) -> bool:
        return time.monotonic() >= self.at_s

    def synchronize(self) -> None:
        time.sleep(max(0.0, self.at_s - time.monotonic()))

    def elapsed_time(self, later: Event) -> float:
        if time.monotonic() < max(self.at_s, later.at_s):
            raise RuntimeError("CUDA error: device not ready")
        exact = (later.at_s - self.at_s) * 1e3 * (1 + self.device.drift)
        return float(struct.unpack("f", struct.pack("f", exact))[0])


def cuda_on(device: Device) -> tuple[accelerator.Cuda, list[list[Any]], list[str]]:
    emitted: list[list[Any]] = []
    problems: list[str] = []
    return accelerator.Cuda(device, emitted.append, problems.append), emitted, problems


@pytest.mark.parametrize("drift", [0.0, 4e-4, -4e-4])
def test_instants_are_right_to_a_fraction_of_a_step_and_nothing_waits_in_the_loop(drift: float) -> None:
    device = Device(drift)
    cuda, emitted, problems = cuda_on(device)
    cuda.anchor()
    waits = device.waits
    true_us = []
    for _ in range(60):
        row: list[Any] = [None]
        time.sleep(0.001)  # the host runs ahead of a device that takes longer
        true_us.append(device.launch(0.003) * 1e6)
        cuda.remark(row, 0, now_us())
        cuda.close(row)
        cuda.settle()
    assert device.waits == waits
    assert len(emitted) < 60
    cuda.drain()
    placed = np.array([row[0] for row in emitted])
    assert len(placed) == 60 and problems == []
    assert np.all(np.diff(placed) >= 0)
    assert np.max(np.abs(placed - true_us)) < 500


def test_a_mark_set_again_moves_and_rows_leave_in_order() -> None:
    device = Device()
    cuda, emitted, _ = cuda_on(device)
    first: list[Any] = [None, "first"]
    cuda.mark(first, 0, now_us())
    early_us = time.monotonic() * 1e6
    late_us = device.launch(0.005) * 1e6
    cuda.remark(first, 0, now_us())
    cuda.close(first)
    second: list[Any] = [None, "second"]
    cuda.close(second)
    cuda.drain()
    assert [row[1] for row in emitted] == ["first", "second"]
    assert abs(first[0] - late_us) < 500 < late_us - early_us
    assert second[0] is None


def test_few_events_are_asked_whether_they_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    cuda, emitted, _ = cuda_on(device)
    cuda.anchor()
    asked = []
    query = Event.query
    monkeypatch.setattr(Event, "query", lambda self: asked.append(1) or query(self))
    for number in range(200):
        row: list[Any] = [None, number]
        device.launch(0.0001 if number < 150 else 1.0)
        cuda.mark(row, 0, now_us())
        cuda.close(row)
    time.sleep(0.05)
    assert not cuda.settle()
    assert [row[1] for row in emitted] == list(range(150))
    assert all(row[0] is not None for row in emitted)
    assert len(asked) < 12


def recording_on(
    device: Device, run: Path, flush_interval_s: float | None = None, steps: bool = False
) -> session.Session:
    recording = session.begin(str(run), steps=steps, flush_interval_s=flush_interval_s)
    recording.use_accelerator(accelerator.Cuda(device, recording._writer.add, recording.problem))
    return recording


def test_the_loop_reads_its_events_itself_every_sixteenth_minibatch(tmp_path: Path) -> None:
    device = Device()
    recording = recording_on(device, tmp_path, flush_interval_s=3600.0)  # no other thread does
    read = []
    for _ in torch.utils.data.DataLoader(scenes.Numbers(64 * 4), batch_size=4):
        recording.copied()
        device.launch(0.0001)
        time.sleep(0.0005)
        recording.launched()
        read.append(len(recording._writer._rows))
    cost_us = recording.cost_us()
    assert recording.housekeeping_ns > 0 and cost_us is not None
    assert cost_us > recording.housekeeping_ns / 1e3 / 64
    recording.end()
    assert np.flatnonzero(np.diff([0, *read])).tolist() == [8, 24, 40, 56]
    assert read[-1] == 56
    rows = records.batches(tmp_path)
    assert len(rows["done_us"]) == 64 and (rows["done_us"] >= rows["launched_us"]).all()


def test_the_loop_encodes_its_rows_itself(tmp_path: Path) -> None:
    recording = session.begin(str(tmp_path), flush_interval_s=3600.0)  # no other thread does
    recording._writer.encode_interval_s = 0.0
    for _ in torch.utils.data.DataLoader(scenes.Numbers(2 * 128), batch_size=2):
        recording.launched()
    assert recording._writer._frames and len(recording._writer._rows) < stream.MIN_ENCODED_ROWS
    assert not records.columns(tmp_path, "minibatches")  # encoded is not yet written
    recording.flush()
    assert records.columns(tmp_path, "minibatches")["batch"].size >= stream.MIN_ENCODED_ROWS
    recording.end()
    assert records.batches(tmp_path)["batch"].tolist() == list(range(128))


@pytest.mark.parametrize("breaks", ["query", "synchronize"])
def test_a_device_that_breaks_is_not_heard_of_from_us_and_leaves_what_the_host_saw(
    breaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device()
    recording = recording_on(device, tmp_path)

    def broken(*_: Any) -> bool:
        raise RuntimeError("device-side assert triggered")

    for number, _ in enumerate(torch.utils.data.DataLoader(scenes.Numbers(20 * 4), batch_size=4)):
        recording.launched()
        if number == 12:
            monkeypatch.setattr(*((Event, "query") if breaks == "query" else (device.cuda, "synchronize")), broken)
    recording.end()
    problems = records.facts(tmp_path)["problems"]
    assert any("could not be read" in problem and "device-side assert" in problem for problem in problems)
    rows = records.batches(tmp_path)
    assert rows["batch"].tolist() == list(range(20)) and (rows["launched_us"] > 0).all()
    assert (rows["done_us"][:8] > 0).all() and rows["done_us"][-1] == -1


def test_the_writer_thread_reads_events_only_if_the_loop_has_not_since(tmp_path: Path) -> None:
    recording = session.begin(tmp_path)
    cuda = recording.cuda = SimpleNamespace(times_settled=0)
    read: list[int] = []

    def settle() -> None:
        cuda.times_settled += 1
        read.append(cuda.times_settled)

    cuda.settle = settle
    recording.flush()
    recording.flush()
    assert read == [1, 2]
    cuda.times_settled = 5
    recording.flush()
    assert read == [1, 2]
    recording.flush()
    assert read == [1, 2, 6]
    recording.cuda = None
    recording.flush()
    recording.end()


def test_an_event_recorded_again_behind_the_readers_back_waits_for_its_new_instant() -> None:
    device = Device()
    cuda, emitted, problems = cuda_on(device)
    cuda.anchor()
    row: list[Any] = [None]
    cuda.mark(row, 0, now_us())
    counted = cuda._count_finished

    def then_again() -> int:
        finished = counted()
        device.launch(0.02)
        cuda._waiting[0][0].record()
        return finished

    cuda._count_finished = then_again
    assert not cuda.settle() and emitted == []
    cuda._count_finished = counted
    cuda.close(row)
    cuda.drain()
    assert emitted == [row] and problems == []


def test_rows_go_out_in_order_while_the_loop_and_the_writer_thread_take_turns_at_any_instant() -> None:
    device = Device()
    cuda, emitted, problems = cuda_on(device)
    cuda.anchor()
    stop, failed = threading.Event(), []

    def keep() -> None:
        while not stop.is_set():
            try:
                cuda.settle()
            except Exception as error:
                failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=keep)
    reader.start()
    device.launch(0.1)  # many wait at first
    try:
        for number in range(3000):
            row: list[Any] = [None, None, number]
            cuda.mark(row, 0, now_us())
            cuda.remark(row, 1, now_us())
            cuda.remark(row, 1, now_us())
            cuda.close(row)
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(interval)
    cuda.drain()
    assert failed == [] and problems == []
    assert [row[2] for row in emitted] == list(range(3000))
    assert all(row[0] is not None and row[0] <= row[1] for row in emitted)


def test_the_current_stream_is_asked_for_only_when_it_has_changed() -> None:
    device = Device()
    streams = ["default", "side"]
    now, asked, recorded = [0, 0], [], []

    def current_stream() -> str:
        asked.append(tuple(now))
        return f"{streams[now[1]]} of {now[0]}"

    class OnStream(Event):
        def record(self, stream: str = "anchor") -> None:
            recorded.append(stream)
            Event.record(self)

    device.cuda.Event = lambda enable_timing: OnStream(device)
    device.cuda.current_stream = current_stream
    device._C = SimpleNamespace(
        _cuda_getDevice=lambda: now[0], _cuda_getCurrentRawStream=lambda number: now[1], _CudaEventBase=OnStream
    )
    cuda, _, _ = cuda_on(device)
    cuda.anchor()
    del recorded[:]
    for now[:] in ([0, 0], [0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 0]):
        cuda.mark([None], 0, now_us())
    assert recorded == ["default of 0"] * 2 + ["side of 0"] * 2 + ["side of 1", "default of 1", "default of 0"]
    assert asked == [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]


def test_where_there_is_one_device_only_its_stream_is_asked_for() -> None:
    device = Device()
    now, recorded = ["default"], []

    class OnStream(Event):
        def record(self, stream: str = "anchor") -> None:
            recorded.append(stream)
            Event.record(self)

    def nobody() -> int:
        raise AssertionError("asked which device is current")

    device.cuda.Event = lambda enable_timing: OnStream(device)
    device.cuda.device_count = lambda: 1
    device.cuda.current_stream = lambda: now[0]
    device._C = SimpleNamespace(
        _cuda_getDevice=nobody, _cuda_getCurrentRawStream=lambda number: (number, now[0]), _CudaEventBase=OnStream
    )
    cuda, _, _ = cuda_on(device)
    cuda.anchor()
    del recorded[:]
    for now[0] in ("default", "side", "default"):
        cuda.mark([None], 0, now_us())
    assert recorded == ["default", "side", "default"]


def test_a_graph_being_captured_is_left_alone() -> None:
    device = Device()
    cuda, emitted, _ = cuda_on(device)
    device.capturing = True
    row: list[Any] = [None]
    cuda.mark(row, 0, now_us())
    cuda.close(row)
    assert cuda.settle() and emitted == [[None]] and device.waits == 0


def test_no_thread_looks_at_events_while_a_graph_is_captured() -> None:
    device = Device()
    calls: list[str] = []
    graph = type(
        "CUDAGraph",
        (),
        {"capture_begin": lambda _: calls.append("begin"), "capture_end": lambda _: calls.append("end")},
    )
    device.cuda.CUDAGraph = graph
    cuda, emitted, _ = cuda_on(device)
    row: list[Any] = [None]
    cuda.mark(row, 0, now_us())
    cuda.close(row)
    capture = graph()
    capture.capture_begin()
    assert not cuda.settle() and emitted == []
    capture.capture_end()
    assert calls == ["begin", "end"]
    cuda.drain()
    assert emitted == [row]


def test_a_device_that_cannot_be_anchored_is_a_problem_on_record_not_an_end() -> None:
    device = Device()

    def broken() -> None:
        raise RuntimeError("device-side assert triggered")

    device.cuda.synchronize = broken
    cuda, emitted, problems = cuda_on(device)
    row: list[Any] = [None]
    cuda.mark(row, 0, now_us())
    cuda.close(row)
    assert cuda.settle() and emitted == [[None]]
    assert problems and "device-side assert" in problems[0]


def test_a_loop_that_runs_ahead_is_cut_on_the_accelerators_timeline(tmp_path: Path) -> None:
    device = Device()
    recording = recording_on(device, tmp_path)
    loader = torch.utils.data.DataLoader(scenes.Numbers(80, sleep_s=0.0015), batch_size=4)  # 6 ms and more a minibatch
    true_us = []
    for epoch in range(2):
        recording.epoch(epoch)
        waits = None
        for _ in loader:
            recording.copying()
            device.launch(0.001)
            recording.copied()
            true_us.append(device.launch(0.004) * 1e6)
            recording.launched()
            waits = device.waits if waits is None else waits
            assert device.waits == waits  # never within a pass, once the clocks are tied
    recording.end()
    rows, facts = records.batches(tmp_path), records.facts(tmp_path)
    assert facts["problems"] == [] and (facts["gpu"], facts["peak_gpu_bytes"]) == ("paper", 123)
    assert len(facts["anchors"]) >= 3
    assert np.max(np.abs(rows["done_us"] - true_us)) < 1_000
    assert np.all(rows["copying_us"] <= rows["copied_us"]) and np.all(rows["copied_us"] <= rows["done_us"])
    parts = break_down(rows)
    for part in (parts.stall_s, parts.copy_s, parts.compute_s, parts.overhead_s):
        assert np.all(part >= 0)
    assert np.allclose(parts.stall_s + parts.copy_s + parts.compute_s + parts.overhead_s, parts.e2e_s)
    # Most of each fetch hides behind the step before it.
    assert parts.hidden_s[1:20].sum() > 0.5 * parts.stall_s[1:20].sum()


def test_a_forward_pass_whose_backward_pass_comes_later_is_done_when_the_accelerator_has_finished_it(
    tmp_path: Path,
) -> None:
    device, network = Device(), torch.nn.Linear(1, 1)
    recording = recording_on(device, tmp_path, steps=True)
    true_us, total = [], 0.0
    for number, batch in enumerate(torch.utils.data.DataLoader(scenes.Numbers(32), batch_size=4)):
        total = total + network(batch.float()).sum()
        true_us.append(device.launch(0.004) * 1e6)
        if number % 4 == 3:
            total.backward()
            total = 0.0
    recording.end()
    rows = records.batches(tmp_path)
    assert rows["backwards"].tolist() == [0, 0, 0, 1] * 2
    # Tying the clocks together takes a moment, at the first mark.
    assert np.median(np.abs(rows["done_us"] - true_us)[1:]) < 1_000


def test_of_a_wait_in_mid_step_only_what_idles_the_accelerator_is_stall(tmp_path: Path) -> None:
    device = Device()
    network = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(6)))
    recording = recording_on(device, tmp_path, steps=True)
    batches = iter(torch.utils.data.DataLoader(scenes.Numbers(48, sleep_s=0.002), batch_size=4))  # 8 ms per minibatch
    batch = next(batches)
    for _ in range(11):
        loss = network(batch.float()).sum()
        device.launch(0.005)
        batch = next(batches)
        loss.backward()
        device.launch(0.003)
        device.synchronize()
    recording.end()
    rows, loop = records.batches(tmp_path), records.loop(tmp_path)
    assert loop.turns.mid_step and len(loop.parts) == 11
    assert (rows["idle_us"][1:] > 0).all()
    waits = (rows["ready_us"] - rows["asked_us"])[2:] / 1e6
    assert np.median(loop.parts.stall_s[1:]) == pytest.approx(np.median(waits) - 0.005, abs=0.002)
    assert np.median(loop.parts.hidden_s[1:]) == pytest.approx(0.005, abs=0.002)


@pytest.mark.gpu()
@pytest.mark.parametrize("timing", ["async", "sync"])
def test_on_a_gpu_steps_are_done_in_order_after_they_were_launched(timing: str, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible")
    big = torch.randn(4096, 4096, device="cuda")
    loader = torch.utils.data.DataLoader(torch.arange(64), batch_size=2, num_workers=1, pin_memory=True)
    recording = session.begin(tmp_path, timing)
    for epoch in range(2):
        recording.epoch(epoch)
        for batch in loader:
            recording.copying()
            batch.cuda(non_blocking=True)
            recording.copied()
            for _ in range(4):
                big @ big
            recording.launched()
    recording.end()
    rows = records.batches(tmp_path)
    facts = records.facts(tmp_path)
    assert facts["problems"] == [] and facts["gpu"]
    assert len(rows["batch"]) == 64
    for earlier, later in (("ready_us", "copying_us"), ("copying_us", "copied_us"), ("copied_us", "done_us")):
        assert np.all(rows[earlier] <= rows[later] + 50)
    assert np.all(rows["launched_us"] <= rows["done_us"])
    assert np.all(np.diff(rows["done_us"]) >= 0)
    if timing == "async":
        assert all(anchor["pm_us"] < 200 for anchor in facts["anchors"])
