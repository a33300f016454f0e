"""What runs beside the loop finds the moments at which the loop does without the interpreter, and gives up in time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from edgetrain.inside import quiet, session
from edgetrain.inside.quiet import Quiet
from tests.inside import scenes


@contextmanager
def doing(work: Callable[[threading.Event], None]) -> Iterator[Quiet]:
    """A thread at work until told to stop."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield Quiet(thread.ident or 0)
    finally:
        stop.set()
        thread.join()


def shares(found: Quiet, looks: int = 300) -> float:
    seen = 0
    for _ in range(looks):
        seen += found.now()
        time.sleep(0.0005)
    return seen / looks


def step(weights: torch.Tensor, backward: bool) -> None:
    loss = torch.zeros(())
    for _ in range(4):
        loss = loss + (weights @ weights).tanh().sum()
    if backward:
        loss.backward()


def train(stop: threading.Event) -> None:
    weights = torch.randn(400, 400, requires_grad=True)
    while not stop.is_set():
        step(weights, backward=True)


def infer(stop: threading.Event) -> None:
    weights = torch.randn(400, 400, requires_grad=True)
    while not stop.is_set():
        step(weights, backward=False)


def wait_for_data(stop: threading.Event) -> None:
    data: queue.Queue[int] = queue.Queue()
    while not stop.is_set():
        try:
            data.get(timeout=0.2)
        except queue.Empty:
            pass


def wait_for_workers(stop: threading.Event) -> None:
    loader = torch.utils.data.DataLoader(scenes.Numbers(40, sleep_s=0.05), batch_size=4, num_workers=1)
    for _ in loader:
        if stop.is_set():
            break


def test_backward_passes_are_quiet_and_forward_passes_are_not() -> None:
    with doing(train) as found:
        assert 0.15 < shares(found) < 0.98
    with doing(infer) as found:
        assert shares(found) == 0.0


def test_waiting_for_data_is_quiet() -> None:
    with doing(wait_for_data) as found:
        assert shares(found, 100) > 0.9
    with doing(wait_for_workers) as found:
        until = time.monotonic() + 30
        while not found.now() and time.monotonic() < until:
            time.sleep(0.01)  # its worker is being started
        assert shares(found, 100) > 0.5


def test_a_thread_that_is_gone_is_quiet() -> None:
    with doing(wait_for_data) as found:
        pass
    assert found.now()


def test_patience_ends_and_covers_all_waits_since_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(quiet, "sleep", slept.append)
    busy = Quiet(threading.get_ident())  # this very thread is at work whenever it looks
    busy.begin()
    assert quiet.MOST_WAIT_S <= sum(slept) < 3 * quiet.MOST_WAIT_S and len(slept) < 10
    for _ in range(20):
        busy.rest()
    assert sum(slept) < 3 * quiet.MOST_WAIT_S + 20 * quiet.REST_S + 1e-9


def test_the_record_is_kept_at_quiet_moments(tmp_path: Path) -> None:
    recording = session.begin(tmp_path)
    order: list[str] = []
    recording._quiet = SimpleNamespace(begin=lambda: order.append("begin"), rest=lambda: order.append("rest"))
    recording._cuda = SimpleNamespace(settle=lambda rest: [order.append("settle"), rest()])
    recording._writer.flush = lambda sync=False: order.append("flush")
    recording.keep()
    assert order == ["begin", "settle", "rest", "rest", "flush"]
    recording._cuda = None
    order.clear()
    recording.keep()
    assert order == ["begin", "flush"]
    recording.end()


def test_a_loop_without_quiet_moments_is_on_record_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "KEEP_S", 0.1)
    recording = session.begin(tmp_path)
    until = time.monotonic() + 20
    weights = torch.randn(300, 300)
    while not recording.written_bytes() > 2000 and time.monotonic() < until:
        for _ in torch.utils.data.DataLoader(scenes.Numbers(40), batch_size=4):
            weights @ weights
            recording.launched()
    assert recording.written_bytes() > 2000
    recording.end()
