"""Visiting power modes, and whole runs, on boards that do not exist."""

from __future__ import annotations

import random
import re
import time
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from edgetrain.analysis import summarize
from edgetrain.device import ModeRequest, SimulatedDevice, open_simulated
from edgetrain.errors import UsageError, WorkloadError
from edgetrain.record import FolderStore
from edgetrain.runner.baseload import measure_baseload
from edgetrain.runner.modes import cost_s, settle, switches, visit, visit_order
from edgetrain.runner.simulated import simulate_run
from edgetrain.runner.simulated_measure import SimulatedMeasure
from edgetrain.schema import Experiment, Limits, Loading, Origin, PowerMode, Workload


@pytest.fixture
def orin(tmp_path: Path) -> SimulatedDevice:
    return open_simulated("orin-agx", tmp_path / "board")


def some_modes(device: SimulatedDevice, count: int, seed: int = 0) -> list[PowerMode]:
    space = device.modes()
    assert space is not None
    draw = random.Random(seed)
    tables = (space.cores[1::2], space.cpu_hz[4:], space.gpu_hz, space.emc_hz)
    found: dict[PowerMode, None] = {}
    while len(found) < count:
        found[PowerMode(*(draw.choice(table) for table in tables))] = None
    return list(found)


def test_the_order_of_visits_descends_and_changes_least(orin: SimulatedDevice) -> None:
    modes = some_modes(orin, 40)
    ordered = visit_order(modes)
    assert sorted(ordered) == sorted(modes)
    assert switches(ordered) <= min(switches(random.Random(seed).sample(modes, 40)) for seed in range(50))
    slowest = [mode.emc_hz or 0 for mode in ordered]
    assert slowest == sorted(slowest, reverse=True)


def test_a_visit_settles_trains_and_puts_the_board_back(orin: SimulatedDevice) -> None:
    before = orin.state()
    measure = SimulatedMeasure(orin, "resnet18", minibatches=10)
    done = list(visit(orin, some_modes(orin, 4), lambda mode: measure.train()))
    assert len(done) == 4 and all(each.result and each.settled and not each.reason for each in done)
    assert all(each.settled and each.settled.waited_s >= 2 for each in done)
    assert orin.state() == before


def test_modes_done_are_skipped_and_those_that_fail_are_tried_again_at_the_end(orin: SimulatedDevice) -> None:
    modes = visit_order(some_modes(orin, 4, 1))
    calls: list[PowerMode] = []

    def train(mode: PowerMode) -> int:
        calls.append(mode)
        if mode == modes[1] and calls.count(mode) == 1:
            raise WorkloadError("a bad day")
        if mode == modes[2]:
            raise WorkloadError("never works")
        return len(calls)

    done = {each.mode: each for each in visit(orin, modes, train, skip=lambda mode: mode == modes[0], settling=False)}
    assert modes[0] not in done
    assert done[modes[1]].result is not None and done[modes[1]].tries == 2
    assert done[modes[2]].reason == "never works" and done[modes[2]].tries == 2
    assert calls[:3] == modes[1:]


def test_a_mode_the_board_lacks_ends_the_visit_before_it_starts(orin: SimulatedDevice) -> None:
    before = orin.state()
    with pytest.raises(UsageError, match="nearest"):
        next(iter(visit(orin, [PowerMode(4, 1_000_000_000, 624_750_000, 3_199_000_000)], lambda mode: mode)))
    assert orin.state() == before


def test_cost_is_known_beforehand(orin: SimulatedDevice) -> None:
    modes = some_modes(orin, 5)
    assert cost_s(modes, lambda mode: 10.0) >= 50


def test_settling_reads_the_clocks_back(orin: SimulatedDevice) -> None:
    control, mode = orin.control(), some_modes(orin, 1, 5)[0]
    assert control is not None
    with control.hold(ModeRequest(mode)):
        assert settle(orin, mode).doubts == ()
        other = PowerMode(
            mode.cores, mode.cpu_hz, 1_300_500_000 if mode.gpu_hz != 1_300_500_000 else 114_750_000, 204_000_000
        )
        assert any(
            re.fullmatch(r"GPU clock: requested [\d.]+ MHz, read back [\d.]+ MHz \(gpu_hz\)", doubt)
            for doubt in settle(orin, other).doubts
        )


def test_a_measured_mode_repeats_within_its_noise(tmp_path: Path, orin: SimulatedDevice) -> None:
    mode = PowerMode(8, 1_728_000_000, 624_750_000, 2_133_000_000)
    first = SimulatedMeasure(orin, "resnet18", seed=1)(mode)
    again = SimulatedMeasure(open_simulated("orin-agx", tmp_path / "other"), "resnet18", seed=2)(mode)
    assert first.origin is Origin.SIMULATED and first.cost_s > 5
    assert again.time_s == pytest.approx(first.time_s, rel=0.02)
    assert again.power_w == pytest.approx(first.power_w, rel=0.03)
    slower = SimulatedMeasure(orin, "resnet18")(PowerMode(8, 1_728_000_000, 114_750_000, 2_133_000_000))
    assert slower.time_s > 1.5 * first.time_s and slower.power_w < first.power_w


def test_forty_modes_take_seconds(orin: SimulatedDevice) -> None:
    measure = SimulatedMeasure(orin, "resnet18", minibatches=20)
    began = time.process_time()
    assert sum(1 for _ in visit(orin, some_modes(orin, 40), lambda mode: measure.train())) == 40
    assert time.process_time() - began < 30


@pytest.mark.parametrize("workers", [0, 4])
def test_a_simulated_run_is_a_whole_record(workers: int, tmp_path: Path, orin: SimulatedDevice) -> None:
    store = FolderStore(tmp_path / "store")
    mode = PowerMode(8, 1_728_000_000, 624_750_000, 2_133_000_000)
    experiment = Experiment(
        Workload("mobilenet_v3"),
        Loading(workers=workers, cache="cold"),
        epochs=2,
        minibatches=60,
        baseload_s=8,
        power_mode=mode,
    )
    before = orin.state()
    summary = summarize(store.open(simulate_run(experiment, orin, store)))
    assert orin.state() == before
    assert summary.origin is Origin.SIMULATED and summary.state == "finished"
    assert replace(summary.power_mode.start, name=None) == replace(summary.power_mode.end, name=None) == mode
    for epoch in summary.epochs:
        assert epoch.fetch_stall_s + epoch.copy_s + epoch.compute_s + epoch.overhead_s == pytest.approx(epoch.e2e_s)
        assert sum(astuple(epoch.stall_by)) == pytest.approx(epoch.fetch_stall_s)
        assert epoch.energy_j > epoch.baseload_j > 0 and epoch.energy_pm_j > 0
    assert summary.epochs[0].read_bytes > 0
    assert summary.overhead_pct is None  # nothing of ours ran beside it
    expected = SimulatedMeasure(orin, "mobilenet_v3", workers=4)(mode)
    if workers == 4:
        assert summary.minibatch.median_ms == pytest.approx(1e3 * expected.time_s, rel=0.03)
        assert summary.power_w.median == pytest.approx(expected.power_w, rel=0.04)


def test_a_network_the_board_does_not_know_is_a_usage_error(tmp_path: Path, orin: SimulatedDevice) -> None:
    with pytest.raises(UsageError, match="does not know the network"):
        simulate_run(Experiment(Workload("my:own")), orin, FolderStore(tmp_path))


def test_the_page_cache_is_kept_between_runs(tmp_path: Path, orin: SimulatedDevice) -> None:
    store = FolderStore(tmp_path / "store")
    experiment = Experiment(Workload("mobilenet_v3", dataset_scale=0.05), Loading(cache="keep"), epochs=1)
    shares = [
        summarize(store.open(simulate_run(experiment, orin, store))).epochs[0].cached_share_before for _ in range(2)
    ]
    assert shares == [0.0, 1.0]


def test_idle_is_measured_with_clocks_held_and_free(tmp_path: Path) -> None:
    device = open_simulated("xavier-agx", tmp_path / "board")
    before = device.state()
    rows = {(row.logging, row.dvfs): row for row in measure_baseload(device, 20)}
    assert set(rows) == {(True, False), (False, False), (True, True), (False, True)}
    held, free = rows[(True, False)], rows[(True, True)]
    assert held.power_w and free.power_w and held.pm_w is not None
    assert held.power_w > free.power_w + 2 and held.scope == "module"
    assert held.power_w == pytest.approx(7.3, rel=0.1)  # SIGMETRICS 2023: 7.5 W at the module in mode g
    assert device.state() == before
    as_found = measure_baseload(device, 20, change=False)
    assert [row.power_w is None for row in as_found] == [True] * 4 + [False] * 2
    assert all(row.reason for row in as_found[:4])


def test_a_hot_board_throttles_and_the_run_is_doubted(tmp_path: Path) -> None:
    device = open_simulated("nano", tmp_path / "board", ambient_c=85.0)
    store = FolderStore(tmp_path / "store")
    experiment = Experiment(Workload("resnet18"), Loading(2), epochs=1, minibatches=300)
    summary = summarize(store.open(simulate_run(experiment, device, store)))
    assert any(doubt.kind == "throttle" for doubt in summary.doubts)


def test_lab_limits_are_refused_on_a_board(tmp_path: Path, orin: SimulatedDevice) -> None:
    for experiment in (
        Experiment(Workload("lenet5"), limits=Limits(cores=2)),
        Experiment(Workload("lenet5"), preset="nano"),
        Experiment(Workload("lenet5"), compute="paced", compute_ms=10),
        Experiment(Workload("lenet5"), limits=Limits(storage="tape")),
    ):
        with pytest.raises(UsageError):
            simulate_run(experiment, orin, FolderStore(tmp_path))
