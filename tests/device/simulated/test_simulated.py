"""The simulated board: behaves like one, and says that it is none."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from edgetrain.device import ModeRequest, SimulatedTraining, TrainingPlan, live_name, open_device, open_simulated
from edgetrain.device.jetson.probes import JetsonGpuProbe, JetsonThermalProbe, RailsProbe
from edgetrain.device.simulated.boards import SIMULATED
from edgetrain.device.simulated.opening import BoardName
from edgetrain.device.simulated.physics import Physics, coefficients, unit_factors
from edgetrain.device.simulated.shapes import read_shape
from edgetrain.device.simulated.timeline import Load
from edgetrain.device.simulated.world import REGISTER_S
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
    before = device.clock.now_ns()
    probe.read()
    assert (device.clock.now_ns() - before) / NS_PER_S == pytest.approx(2 * len(probe.columns) * REGISTER_S)


def test_a_step_in_power_takes_several_windows_to_show(tmp_path: Path) -> None:
    device = open_simulated("orin-nano", tmp_path / "board")
    world, probe = device.world, RailsProbe(device.tree, device.rails)
    idle = probe.read()[0]
    start_ns = world.now_ns()
    world.timeline.append(start_ns + 30 * NS_PER_S, Load(20.0))
    seen = []
    for _ in range(8):
        world.sleep(0.43)
        seen.append(probe.read()[0])
    # A running average: after one window the step has come through to 1 - 1/e, after several almost wholly.
    assert (seen[0] - idle) / (19.5 - idle) == pytest.approx(1 - 1 / math.e, abs=0.06)
    assert seen[-1] == pytest.approx(20.0, rel=0.05)
    # What it shows comes in steps of the shunt's quantum.
    assert all(abs(value / 0.04 - round(value / 0.04)) < 1e-6 for value in seen)


def test_a_working_board_warms_up_and_its_power_creeps(tmp_path: Path) -> None:
    device = open_simulated("xavier-agx", tmp_path / "board")
    world = device.world
    thermal = JetsonThermalProbe(device.tree)
    cool = max(value for value in thermal.read() if not math.isnan(value))
    start = world.now_ns()
    for second in range(300):
        world.timeline.append(start + (second + 1) * NS_PER_S, Load(30.0))
    early_j = world.timeline.energy_until_j(start + 10 * NS_PER_S) / 10
    late_j = (world.timeline.energy_j[-1] - world.timeline.energy_until_j(start + 290 * NS_PER_S)) / 10
    assert late_j > 1.01 * early_j
    world.sleep(299)
    assert max(value for value in thermal.read() if not math.isnan(value)) > cool + 10


def test_a_hot_board_throttles_and_the_probe_reports_it(tmp_path: Path) -> None:
    device = open_simulated("nano", tmp_path / "board", ambient_c=90.0)
    world = device.world
    gpu = JetsonGpuProbe(device.tree, device.clocks)
    world.timeline.append(world.now_ns() + 120 * NS_PER_S, Load(10.0, gpu_share=0.99))
    world.sleep(60)
    for _ in range(4):
        gpu.read()
        world.sleep(0.2)
    assert [event.kind for event in gpu.pop_events()] == ["throttle"]


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


def training(tmp_path: Path, workers: int, **plan: object) -> SimulatedTraining:
    device = open_simulated("xavier-nx", tmp_path / f"board-{workers}-{len(plan)}")
    world = device.world
    mode = world.mode()
    full = TrainingPlan("mobilenet_v3", workers=workers, **plan)
    return SimulatedTraining(full, Physics("xavier-nx", "mobilenet_v3"), mode, world.timeline, world.now_ns(), 0)


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
    with control.hold(ModeRequest(dvfs=True)):
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


def test_units_of_a_board_differ_and_stay_themselves(tmp_path: Path) -> None:
    first, second = (open_simulated(f"xavier-nx?unit={unit}", tmp_path / f"unit{unit}") for unit in (1, 2))
    assert first.spec.serial != second.spec.serial
    assert unit_factors("xavier-nx", 0) == (1.0, 1.0)
    assert unit_factors("xavier-nx", 1) == unit_factors("xavier-nx", 1) != unit_factors("xavier-nx", 2)
    mode = first.world.mode()
    times = [Physics("xavier-nx", "mobilenet_v3", unit=unit).step(mode).compute_s for unit in range(1, 200)]
    # Published: medians of five units spread by 5.4 %, which is 2.3 standard deviations.
    assert statistics.pstdev(times) / statistics.fmean(times) == pytest.approx(0.054 / 2.3, rel=0.2)


def test_runs_differ_by_their_seed_and_repeat_with_it(tmp_path: Path) -> None:
    mode = open_simulated("xavier-nx", tmp_path / "board").world.mode()
    physics = Physics("xavier-nx", "mobilenet_v3")
    assert physics.step(mode, run="0|0|0") == physics.step(mode, run="0|0|0")
    times = [physics.step(mode, run=f"{seed}|0|0").compute_s for seed in range(200)]
    assert 0.005 < statistics.pstdev(times) / statistics.fmean(times) < 0.02


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orin-agx", BoardName("orin-agx")),
        ("orin-agx?unit=3&seed=7", BoardName("orin-agx", unit=3, seed=7)),
        ("nano?unit=2&spread=7.5", BoardName("nano", unit=2, spread=0.075)),
        ("nano+live@/some/folder?seed=2", BoardName("nano", True, Path("/some/folder"), 0, 2)),
    ],
)
def test_a_board_is_named_with_its_pace_folder_unit_and_seed(text: str, found: BoardName) -> None:
    assert BoardName.parse(text) == found


def test_units_differ_by_the_spread_that_their_name_asks_for() -> None:
    for spread in (0.01, 0.08):
        logs = [math.log(unit_factors("orin-agx", unit, spread)[0]) for unit in range(1, 1000)]
        assert statistics.stdev(logs) == pytest.approx(spread, rel=0.08)


def test_runs_of_two_units_with_equal_seeds_have_noise_of_their_own(tmp_path: Path) -> None:
    first, second = (open_simulated(f"nano?unit={unit}", tmp_path / f"unit{unit}").world for unit in (1, 2))
    assert first.run_name(0, 0) != second.run_name(0, 0)
    assert live_name(open_simulated("nano?unit=1&spread=2", tmp_path / "unit1")).endswith("?unit=1&seed=0&spread=2")


@pytest.mark.parametrize(
    "text",
    [
        "orin-agx?unit=x",
        "orin-agx?colour=red",
        "orin-agx+fast",
        "orin-agx?unit=99999",
        "orin-agx?spread=80",
        "orin-agx?spread=-1",
    ],
)
def test_a_name_that_cannot_be_read_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        BoardName.parse(text)


@pytest.mark.parametrize(
    ("network", "milliseconds"),
    [
        # SIGMETRICS 2023, AGX Xavier in MAXN, compute per minibatch by batch size.
        ("lenet5", {16: 5.97, 128: 7.25}),
        ("resnet18_cifar_gn", {1: 35.2, 16: 105.2, 128: 582}),
        ("mobilenet_v3", {1: 89.3, 8: 125.6, 16: 195, 64: 700, 128: 1382}),
    ],
)
def test_time_grows_with_the_batch_as_published(network: str, milliseconds: dict[int, float]) -> None:
    mode = PowerMode(8, 2_265_600_000, 1_377_000_000, 2_133_000_000)

    def compute_s(batch: int) -> float:
        physics = Physics("xavier-agx", network, batch)
        physics.residual = lambda mode: (1.0, 1.0)
        return physics.step(mode).compute_s

    for batch, published in milliseconds.items():
        assert compute_s(batch) / compute_s(16) == pytest.approx(published / milliseconds[16], rel=0.12), batch


def test_free_governors_cost_light_networks_time_and_heavy_ones_nothing(tmp_path: Path) -> None:
    mode = PowerMode(8, 2_265_600_000, 1_377_000_000, 2_133_000_000)
    for network, longer, power in (("lenet5", 1.12, 0.84), ("mobilenet_v3", 1.008, 1.0)):  # SIGMETRICS 2023, Figure 8
        physics = Physics("xavier-agx", network)
        held, free = physics.step(mode), physics.step(mode, dvfs=True)
        assert free.compute_s / held.compute_s == pytest.approx(longer, abs=0.02)
        assert free.power_w(4) / held.power_w(4) == pytest.approx(power, abs=0.06)
    device = open_simulated("xavier-agx", tmp_path / "board")
    control = device.control()
    assert control is not None and not device.world.held
    with control.hold(ModeRequest(mode)):
        assert device.world.held
