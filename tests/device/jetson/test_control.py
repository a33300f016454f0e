"""Control: what is set is read back, and comes back, whatever happens."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from edgetrain.device.control import Control, Setting
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.journal import Entry, Journal
from edgetrain.errors import ControlRefused, NeedsRoot, UsageError
from edgetrain.schema import PowerMode
from tests import boards
from tests.torture import modes as torture


def control_of(device: JetsonDevice) -> Control:
    control = device.control()
    assert control is not None
    return control


def some_mode(device: JetsonDevice, seed: int = 0) -> PowerMode:
    space = device.modes()
    assert space is not None
    draw = random.Random(seed)
    gpu = draw.choice(space.gpu_hz) if space.gpu_hz else None
    emc = draw.choice(space.emc_hz) if space.emc_hz else None
    return PowerMode(draw.choice(space.cores), draw.choice(space.cpu_hz), gpu, emc)


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_holds_inside_and_the_board_is_as_before_outside(pair: JetsonDevice, seed: int) -> None:
    before = pair.state()
    control = control_of(pair)
    mode = some_mode(pair, seed)
    with control.hold(Setting(mode)):
        now = pair.current_mode()
        assert (now.cores, now.cpu_hz, now.gpu_hz, now.emc_hz) == (mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz)
        assert control.drift() == []
    assert pair.state() == before
    assert control.held() is None


def test_modes_that_follow_each_other_in_any_order_all_take(pair: JetsonDevice) -> None:
    before = pair.state()
    control = control_of(pair)
    with control.session():
        for seed in range(6):
            mode = some_mode(pair, 100 + seed)
            control.apply(Setting(mode))
            assert pair.current_mode().cpu_hz == mode.cpu_hz and pair.current_mode().cores == mode.cores
    assert pair.state() == before


def test_the_board_comes_back_when_the_inside_raises(orin: JetsonDevice) -> None:
    before = orin.state()
    with pytest.raises(ZeroDivisionError), control_of(orin).hold(Setting(some_mode(orin, 1))):
        raise ZeroDivisionError
    assert orin.state() == before


def test_dvfs_on_leaves_the_mode_as_a_ceiling(orin: JetsonDevice) -> None:
    space = orin.modes()
    assert space is not None
    mode = PowerMode(4, space.cpu_hz[10], space.gpu_hz[5], space.emc_hz[1])
    with control_of(orin).hold(Setting(mode, dvfs=True)):
        state = orin.state()
        assert state[f"{orin.clocks.gpu}/max_freq"] == str(mode.gpu_hz)
        assert state[f"{orin.clocks.gpu}/min_freq"] == str(space.gpu_hz[0])
        assert all(state[name] == "0" for name in orin.clocks.idle_states)
    with control_of(orin).hold(Setting(mode)):
        # Held clocks: minimum is maximum and the idle states of the cores in use are off, as jetson_clocks does.
        state = orin.state()
        assert state[f"{orin.clocks.gpu}/min_freq"] == str(mode.gpu_hz)
        assert {state[name] for name in orin.clocks.idle_states if "/cpu0/" in name} == {"1"}
    with control_of(orin).hold(Setting(mode, idle_states=True)):
        assert {orin.state()[name] for name in orin.clocks.idle_states} == {"0"}


def test_the_top_memory_clock_is_written_as_no_cap(orin: JetsonDevice) -> None:
    space = orin.modes()
    assert space is not None and orin.clocks.emc.cap
    writes = control_of(orin).plan(Setting(PowerMode(12, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])))
    assert {write.path: write.value for write in writes}[orin.clocks.emc.cap] == "0"


def test_a_plan_writes_nothing(pair: JetsonDevice) -> None:
    before = pair.state()
    assert control_of(pair).plan(Setting(some_mode(pair, 4)))
    assert pair.state() == before
    assert not (pair.tree.root / "var/lib/edgetrain").exists()


def test_everything_planned_is_on_the_boards_own_list(pair: JetsonDevice) -> None:
    for seed in range(5):
        for write in control_of(pair).plan(Setting(some_mode(pair, seed), dvfs=bool(seed % 2))):
            assert write.path in pair.allowed()


def test_what_was_set_to_stay_stays_until_it_is_restored(orin: JetsonDevice) -> None:
    before = orin.state()
    control_of(orin).set(Setting(some_mode(orin, 1)))
    held = orin.state()
    again = boards.open_tree(orin.tree.root)  # the next command
    assert control_of(again).repair() is None and again.state() == held
    control_of(again).set(Setting(some_mode(orin, 2)))  # the original is kept through several settings
    assert control_of(again).restore() is not None
    assert orin.state() == before


def test_a_run_inside_a_mode_that_was_set_comes_back_to_that_mode(orin: JetsonDevice) -> None:
    before = orin.state()
    control_of(orin).set(Setting(some_mode(orin, 1)))
    held = orin.state()
    with control_of(orin).hold(Setting(some_mode(orin, 2))):
        pass
    assert orin.state() == held
    control_of(orin).restore()
    assert orin.state() == before


def test_a_mode_that_is_not_in_the_table_is_refused_with_the_nearest(orin: JetsonDevice) -> None:
    with pytest.raises(UsageError, match=r"nearest is 624\.75 MHz"):
        control_of(orin).plan(Setting(PowerMode(8, 1_728_000_000, 600_000_000, 3_199_000_000)))
    with pytest.raises(UsageError, match="13 cores"):
        control_of(orin).plan(Setting(PowerMode(13, 1_728_000_000, 624_750_000, 3_199_000_000)))


def test_a_write_that_the_board_ignores_is_a_refusal_and_everything_comes_back(orin: JetsonDevice) -> None:
    before = orin.state()
    boards.plant(orin.tree.root, ignore=[f"{orin.clocks.gpu}/max_freq"])
    with (
        pytest.raises(ControlRefused, match="check that no other tool"),
        control_of(orin).hold(Setting(some_mode(orin, 3))),
    ):
        pass
    boards.plant(orin.tree.root)
    control_of(orin).repair()
    assert orin.state() == before


def test_another_tool_changing_clocks_meanwhile_is_noticed(orin: JetsonDevice) -> None:
    control = control_of(orin)
    mode = some_mode(orin, 7)
    with control.hold(Setting(mode)):
        orin.tree.write(f"{orin.clocks.gpu}/min_freq", str(orin.clocks.gpu_table_hz[0]))
        assert any("min_freq" in text for text in control.drift()) == (mode.gpu_hz != orin.clocks.gpu_table_hz[0])


def test_older_kernels_refuse_a_minimum_above_the_maximum_and_are_served(tmp_path: Path) -> None:
    device = boards.open_fixture("nano-jp4", tmp_path)
    space = device.modes()
    assert space is not None
    low = PowerMode(4, space.cpu_hz[0], space.gpu_hz[0], space.emc_hz[0])
    high = PowerMode(4, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])
    control = control_of(device)
    with control.session():
        for mode in (low, high, low, high):
            control.apply(Setting(mode))


def test_files_that_only_root_may_write_are_named_with_the_way_out(
    orin: JetsonDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    boards.plant(orin.tree.root, closed=[f"{orin.clocks.gpu}/max_freq"])
    with pytest.raises(NeedsRoot, match="max_freq") as refusal:
        control_of(orin).set(Setting(some_mode(orin, 3)))
    assert refusal.value.command.startswith("sudo edgetrain modes")


def test_two_processes_never_set_one_board(orin: JetsonDevice) -> None:
    other = boards.open_tree(orin.tree.root)
    with (
        control_of(orin).hold(Setting(some_mode(orin, 1))),
        pytest.raises(ControlRefused, match=f"process {os.getpid()}"),
        control_of(other).hold(Setting(some_mode(orin, 2))),
    ):
        pass


def journal_file(device: JetsonDevice) -> Path:
    return Journal(device.tree.root).folder / "board.json"


def test_a_journal_that_somebody_else_wrote_is_refused(orin: JetsonDevice) -> None:
    control_of(orin).set(Setting(some_mode(orin, 1)))
    file = journal_file(orin)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        with pytest.raises(ControlRefused, match="user 12345 wrote it"):
            control_of(orin).restore()
        os.chown(file, 0, 0)
    document = json.loads(file.read_text())
    document["entry"]["values"]["/etc/passwd"] = "0"
    file.write_text(json.dumps(document))
    with pytest.raises(ControlRefused, match="checksum"):
        control_of(orin).restore()


def test_a_journal_cannot_write_what_is_not_on_the_boards_list(orin: JetsonDevice) -> None:
    target = orin.tree.root / "etc/target"
    target.write_text("precious\n")
    journal = Journal(orin.tree.root)
    journal.prepare()
    journal.write(Entry(orin.key(), orin.boot(), "applying", False, {"/etc/target": "0"}))
    with pytest.raises(ControlRefused, match="not on this board's list"):
        control_of(orin).restore()
    assert target.read_text() == "precious\n"


def test_a_journal_of_another_board_is_refused(orin: JetsonDevice) -> None:
    journal = Journal(orin.tree.root)
    journal.prepare()
    journal.write(Entry("p0000-0000/7", orin.boot(), "held", True, {}))
    with pytest.raises(ControlRefused, match="p0000-0000"):
        control_of(orin).restore()


def test_links_are_never_followed(orin: JetsonDevice, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious\n")
    victim = orin.tree.path(f"{orin.clocks.gpu}/max_freq")  # clocks are found before the link appears
    control = control_of(orin)
    victim.unlink()
    victim.symlink_to(outside)
    with pytest.raises(ControlRefused, match="link"), control.hold(Setting(some_mode(orin, 1))):
        pass
    assert outside.read_text() == "precious\n"
    linked = tmp_path / "elsewhere"
    linked.mkdir()
    (orin.tree.root / "var/lib/edgetrain").rename(tmp_path / "moved")
    (orin.tree.root / "var/lib/edgetrain").mkdir()
    (orin.tree.root / "var/lib/edgetrain/journal").symlink_to(linked)
    with pytest.raises(ControlRefused):
        control.restore()


def test_a_journal_folder_that_others_may_enter_is_refused(orin: JetsonDevice) -> None:
    Journal(orin.tree.root).prepare()
    Journal(orin.tree.root).folder.chmod(0o777)
    with pytest.raises(ControlRefused, match="somebody else could have written"):
        control_of(orin).set(Setting(some_mode(orin, 1)))


def test_after_a_reboot_only_the_stock_mode_is_put_back(tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    control = control_of(device)
    control.set(Setting(stock=3))
    assert device.active_stock() == 3
    # The power cut: clocks are the kernel's defaults again, nvpmodel's mode has outlived it.
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("another-boot\n")
    report = control_of(boards.open_tree(tmp_path)).restore()
    assert report is not None and report.written == 0 and report.nvpmodel == 2
    assert device.active_stock() == 2


def test_a_stock_mode_that_needs_a_reboot_is_refused_before_anything_is_run(orin: JetsonDevice) -> None:
    with pytest.raises(ControlRefused, match="needs a reboot") as refusal:
        control_of(orin).set(Setting(stock=2))
    assert refusal.value.reboot
    assert not (orin.tree.root / "var/lib/edgetrain").exists()


def test_nobody_ever_answers_yes(orin: JetsonDevice) -> None:
    before = orin.state()
    with pytest.raises(ControlRefused, match="wants a reboot"):
        control_of(orin).set(Setting(stock=2, allow_reboot=True))
    assert orin.active_stock() == 0 and orin.state() == before
    assert not (orin.tree.root / ".sim/rebooted").exists()


@pytest.mark.parametrize("fault", ["silent", "refuse"])
def test_an_nvpmodel_that_does_nothing_is_found_out(fault: str, tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    before = device.state()
    boards.plant(tmp_path, nvpmodel=fault)
    with pytest.raises(ControlRefused, match="asked nvpmodel for mode 3"):
        control_of(device).set(Setting(stock=3))
    assert device.state() == before and device.active_stock() == 2


def test_without_nvpmodel_custom_modes_still_work(tmp_path: Path) -> None:
    device = boards.open_fixture("no nvpmodel", tmp_path)
    before = device.state()
    with control_of(device).hold(Setting(some_mode(device, 2))):
        assert device.state() != before
    assert device.state() == before
    with pytest.raises(UsageError, match="no stock mode 1"):
        control_of(device).set(Setting(stock=1))


def test_cores_that_were_offline_are_offline_again(tmp_path: Path) -> None:
    device = boards.open_fixture("offline cores", tmp_path)
    before = device.state()
    assert device.current_mode().cores == 6
    space = device.modes()
    assert space is not None and max(space.cores) == 12
    with control_of(device).hold(Setting(PowerMode(12, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1]))):
        assert device.current_mode().cores == 12
    assert device.state() == before


def test_killed_at_any_instant_the_board_comes_back_at_the_next_start() -> None:
    assert "came back" in torture.run(8, seed=1)


def test_the_averaging_of_the_power_monitors_is_an_option_and_comes_back(orin: JetsonDevice) -> None:
    before = orin.state()
    assert all(name in before for name in orin.sample_files()) and len(orin.sample_files()) == 2
    with control_of(orin).hold(Setting(some_mode(orin, 1), samples=64)):
        assert {orin.state()[name] for name in orin.sample_files()} == {"64"}
        source = boards.open_tree(orin.tree.root).total_power()
        assert source is not None and source.refresh_s == pytest.approx(0.054)
    assert orin.state() == before
    with pytest.raises(UsageError, match="average 1, 4"):
        control_of(orin).plan(Setting(some_mode(orin, 1), samples=7))


def test_a_read_only_tree_is_told_from_a_missing_right(orin: JetsonDevice) -> None:
    boards.plant(orin.tree.root, closed=[f"{orin.clocks.gpu}/max_freq"])
    kind = ControlRefused if os.geteuid() == 0 else NeedsRoot
    with pytest.raises(kind, match="max_freq"):
        control_of(orin).set(Setting(some_mode(orin, 3)))


def test_held_clocks_are_freed_before_nvpmodel_is_asked(tmp_path: Path) -> None:
    # On older kernels nvpmodel's lower maximum would be refused under the minimum that we hold.
    device = boards.open_fixture("xavier-agx-jp4", tmp_path)
    config = tmp_path / "etc/nvpmodel/nvpmodel_board.conf"
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "MIN_FREQ  0" not in line))
    before = device.state()
    control = control_of(device)
    space = device.modes()
    assert space is not None
    with control.session():
        control.apply(Setting(PowerMode(8, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])))
        control.apply(Setting(stock=2))
        assert device.active_stock() == 2 and device.current_mode().cpu_hz == 1_190_400_000
    assert device.state() == before and device.active_stock() == 0


def test_a_stock_mode_that_is_held_keeps_its_own_cores(tmp_path: Path) -> None:
    device = boards.open_fixture("tx2-jp4", tmp_path)
    before = device.state()
    control = control_of(device)
    with control.hold(Setting(stock=1)):  # MAXQ: the four A57, of which core 0 is one
        on = [core for core in range(1, 6) if device.state()[f"/sys/devices/system/cpu/cpu{core}/online"] == "1"]
        assert on == [3, 4, 5]
        assert device.current_mode().cpu_hz == 1_113_600_000
    with control.hold(Setting(stock=4)):
        assert [core for core in range(1, 6) if device.state()[f"/sys/devices/system/cpu/cpu{core}/online"] == "1"] == [
            1
        ]
    assert device.state() == before and device.active_stock() == 0


def test_an_nvpmodel_cut_off_half_way_is_run_again(tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    before = device.state()
    control = control_of(device)
    with control.session():
        control.apply(Setting(stock=3))
        # As if it had been killed before it wrote its status, with a value of its own already changed.
        (tmp_path / "var/lib/nvpmodel/status").write_text("pmode:0002\n")
    assert device.state() == before and device.active_stock() == 2


def test_a_garbled_journal_is_refused_and_never_half_obeyed(orin: JetsonDevice) -> None:
    draw = random.Random(9)
    control_of(orin).set(Setting(some_mode(orin, 1)))
    held = orin.state()
    file = journal_file(orin)
    sound = file.read_bytes()
    for _ in range(150):
        garbled = bytearray(sound)
        for _ in range(draw.randint(1, 8)):
            kind, at = draw.randrange(3), draw.randrange(len(garbled))
            if kind == 0:
                garbled[at] = draw.randrange(256)
            elif kind == 1:
                del garbled[at : at + draw.randint(1, 60)]
            else:
                garbled[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 20)))
            garbled = garbled or bytearray(b"{")
        file.write_bytes(garbled)
        if garbled == sound:
            continue
        with pytest.raises(ControlRefused, match="refusing the journal"):
            control_of(orin).restore()
        assert orin.state() == held
    file.write_bytes(sound)
    assert control_of(orin).restore() is not None
