"""The simulated board: behaves like one, and says that it is none."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from edgetrain.device.base import open_device
from edgetrain.device.control import Setting
from edgetrain.device.jetson.probes import GpuProbe, RailsProbe, ThermalProbe
from edgetrain.device.simulated import open_simulated
from edgetrain.device.simulated.physics import Physics, coefficients
from edgetrain.device.simulated.pipeline import Plan, Training
from edgetrain.device.simulated.shapes import SIMULATED, read_shape
from edgetrain.device.simulated.world import REGISTER_S, Load
from edgetrain.errors import UsageError
from edgetrain.schema import PowerMode
from edgetrain.units import NS_PER_S

COUNTS = {"orin-agx": 18_096, "orin-nano": 1_800, "xavier-agx": 29_232}  # published


@pytest.mark.parametrize("name", SIMULATED)
def test_every_simulated_board_opens_by_name_and_is_simulated(name: str, tmp_path: Path) -> None:
    device = open_device(f"sim:{name}@{tmp_path / 'board'}")
    assert device.spec.name == name and device.spec.kind == "simulated"
    space = device.modes()
    assert space is not None and len(space) == COUNTS.get(name, len(space)) and space.stock


def test_an_unknown_board_and_a_folder_of_somebody_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="orin-agx, orin-nano"):
        open_simulated("orin-max", tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="something else"):
        open_simulated("nano", tmp_path / "mine")
    open_simulated("nano", tmp_path / "nano")
    with pytest.raises(UsageError, match="holds a simulated nano"):
        open_simulated("orin-agx", tmp_path / "nano")


@pytest.mark.parametrize("name", SIMULATED)
def test_a_shape_survives_being_written_down(name: str) -> None:
    shape = SIMULATED[name]()
    assert read_shape(shape.text()) == shape


def test_a_register_costs_its_time_on_the_bus(tmp_path: Path) -> None:
    device = open_simulated("orin-agx", tmp_path / "board")
    probe = RailsProbe(device.tree, device.rails)
    before = device.tree.now_ns()
    probe.read()
    assert (device.tree.now_ns() - before) / NS_PER_S == pytest.approx(2 * len(probe.columns) * REGISTER_S)


def test_a_step_in_power_takes_more_than_one_refresh_to_show(tmp_path: Path) -> None:
    device = open_simulated("orin-nano", tmp_path / "board")
    world, probe = device.world, RailsProbe(device.tree, device.rails)
    idle = probe.read()[0]
    start_ns = world.now_ns()
    world.timeline.append(start_ns + 30 * NS_PER_S, Load(20.0))
    seen = []
    for _ in range(6):
        world.sleep(0.43)
        seen.append(probe.read()[0])
    assert idle < seen[0] < 19.0  # the chip averages as it runs
    assert seen[-1] == pytest.approx(20.0, rel=0.05)
    # What it shows comes in steps of the shunt's quantum.
    assert all(abs(value / 0.04 - round(value / 0.04)) < 1e-6 for value in seen)


def test_a_working_board_warms_up_and_its_power_creeps(tmp_path: Path) -> None:
    device = open_simulated("xavier-agx", tmp_path / "board")
    world = device.world
    thermal = ThermalProbe(device.tree)
    cool = max(value for value in thermal.read() if not math.isnan(value))
    start = world.now_ns()
    for second in range(300):
        world.timeline.append(start + (second + 1) * NS_PER_S, Load(30.0))
    early_j = world.timeline.energy_until_j(start + 10 * NS_PER_S) / 10
    late_j = (world.timeline.energy_j[-1] - world.timeline.energy_until_j(start + 290 * NS_PER_S)) / 10
    assert late_j > 1.01 * early_j
    world.sleep(299)
    assert max(value for value in thermal.read() if not math.isnan(value)) > cool + 10


def test_a_hot_board_throttles_and_the_probe_tells(tmp_path: Path) -> None:
    device = open_simulated("nano", tmp_path / "board", ambient_c=90.0)
    world = device.world
    gpu = GpuProbe(device.tree, device.clocks)
    world.timeline.append(world.now_ns() + 120 * NS_PER_S, Load(10.0, gpu_share=0.99))
    world.sleep(60)
    for _ in range(4):
        gpu.read()
        world.sleep(0.2)
    assert [kind for kind, _ in gpu.told()] == ["throttle"]


def test_the_residual_is_fixed_seeded_and_of_the_promised_size() -> None:
    physics = Physics("orin-agx", "resnet18")
    space = [
        PowerMode(cores, cpu * 76_800_000, gpu * 102_000_000, 2_133_000_000)
        for cores in (2, 6, 12)
        for cpu in range(3, 28)
        for gpu in range(2, 12)
    ]
    drawn = [physics.residual(mode) for mode in space]
    assert drawn == [Physics("orin-agx", "resnet18").residual(mode) for mode in space]
    assert drawn != [Physics("orin-agx", "resnet18", seed=1).residual(mode) for mode in space]
    assert statistics.pstdev(math.log(time) for time, _ in drawn) == pytest.approx(0.04, rel=0.15)
    assert statistics.pstdev(math.log(power) for _, power in drawn) == pytest.approx(0.02, rel=0.15)
    # Neighbours tell nothing of each other: nothing smooth can learn it.
    logs = [math.log(time) for time, _ in drawn]
    assert abs(statistics.correlation(logs[:-1], logs[1:])) < 0.12


def test_every_coefficient_names_its_source() -> None:
    for board in coefficients().values():
        assert board["idle_source"]
        for entry in board["networks"].values():
            assert len(entry["source"]) > 20


def test_faster_clocks_never_make_the_formulas_slower() -> None:
    for board, facts in coefficients().items():
        for network in facts["networks"]:
            physics = Physics(board, network)
            physics.residual = lambda mode: (1.0, 1.0)
            slow = physics.step(PowerMode(2, 400_000_000, 300_000_000, 600_000_000))
            fast = physics.step(PowerMode(4, 1_400_000_000, 900_000_000, 1_600_000_000))
            assert fast.interval_s(4) < slow.interval_s(4)
            assert fast.power_w(4) > slow.power_w(4)


def training(tmp_path: Path, workers: int, **plan: object) -> Training:
    device = open_simulated("xavier-nx", tmp_path / f"board-{workers}-{len(plan)}")
    world = device.world
    mode = world.mode()
    full = Plan("mobilenet_v3", workers=workers, **plan)
    return Training(full, Physics("xavier-nx", "mobilenet_v3"), mode, world.timeline, world.now_ns(), 0)


def stall_s(done) -> float:
    return sum((row["ready_us"] - row["asked_us"]) / 1e6 for row in done.minibatches)


def test_instants_of_a_minibatch_are_in_order_in_every_way_of_loading(tmp_path: Path) -> None:
    for workers in (0, 1, 2, 4):
        for sync in (False, True):
            done = training(tmp_path, workers, sync=sync).epoch(0, 40)
            last = 0
            for row in done.minibatches:
                order = [row[name] for name in ("asked_us", "ready_us", "copying_us", "copied_us", "done_us")]
                assert order == sorted(order) and row["launched_us"] <= row["done_us"]
                assert row["done_us"] > last
                last = row["done_us"]
            for row in done.workers:
                assert row["began_us"] <= row["fetched_us"] and row["cpu_us"] <= row["fetched_us"] - row["began_us"] + 1


def test_workers_hide_fetching_and_a_cold_slow_medium_shows(tmp_path: Path) -> None:
    alone = stall_s(training(tmp_path, 0).epoch(0, 60))
    with_four = stall_s(training(tmp_path, 4).epoch(0, 60))
    assert with_four < 0.2 * alone
    cold, warm = training(tmp_path, 0, medium="hdd"), training(tmp_path, 0, medium="hdd")
    warm.cached = 1.0
    assert stall_s(cold.epoch(0, 60)) > 1.3 * stall_s(warm.epoch(0, 60))


def test_its_tegrastats_speaks_and_its_nvpmodel_answers(tmp_path: Path) -> None:
    from edgetrain.device.jetson.tegrastats_live import TegrastatsProbe, rails_of

    root = tmp_path / "board"
    open_simulated("orin-nano", root)
    said = subprocess.run(
        [root / "usr/bin/tegrastats", "--interval", "50", "--count", "2"], capture_output=True, text=True, check=True
    )
    assert rails_of(said.stdout.splitlines()[-1])["VDD_IN"] > 3
    query = subprocess.run([root / "usr/sbin/nvpmodel", "-q"], capture_output=True, text=True, check=True)
    assert "NV Power Mode: 15W\n0" in query.stdout
    probe = TegrastatsProbe(str(root / "usr/bin/tegrastats"), patience_s=20)
    source = probe.power_source()
    assert source is not None and source.columns == ("VDD_IN_w",)
    probe.close()


def test_jetson_clocks_locks_what_our_own_restore_undoes(tmp_path: Path) -> None:
    root = tmp_path / "board"
    device = open_simulated("orin-nano", root)
    before = device.state()
    control = device.control()
    assert control is not None
    with control.hold(Setting(dvfs=True)):
        subprocess.run([root / "usr/bin/jetson_clocks"], check=True)
        assert control.drift()
    assert device.state() == before
    show = subprocess.run([root / "usr/bin/jetson_clocks", "--show"], capture_output=True, text=True, check=True)
    assert "cpu0: Online=1" in show.stdout


def test_a_live_board_passes_time_as_it_passes_here(tmp_path: Path) -> None:
    device = open_device(f"sim:orin-agx+live@{tmp_path / 'board'}")
    rails = next(probe for probe in device.probes() if probe.name == "rails")
    began = time.monotonic()
    rails.read()
    assert time.monotonic() - began >= 8 * REGISTER_S
    assert os.path.exists(tmp_path / "board/sys/class/devfreq/17000000.ga10b/device/of_node/name")
