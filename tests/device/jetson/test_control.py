"""Control: what is set is read back, and comes back, whatever happens."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetrain.device import Control, ModeRequest
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.identity import identify
from edgetrain.device.privileged import BoardTransaction
from edgetrain.device.privileged.journal import BoardJournal, JournalEntry
from edgetrain.device.privileged.settings import HOLD_CHECK_S
from edgetrain.device.simulated.device import KernelTree
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


def idle_states(state: Mapping[str, int]) -> list[str]:
    return [name for name in state if ".idle" in name]


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_holds_inside_and_the_board_is_as_before_outside(pair: JetsonDevice, seed: int) -> None:
    before = pair.state()
    control = control_of(pair)
    mode = some_mode(pair, seed)
    with control.hold(ModeRequest(mode)):
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
            control.apply(ModeRequest(mode))
            assert pair.current_mode().cpu_hz == mode.cpu_hz and pair.current_mode().cores == mode.cores
    assert pair.state() == before


def test_the_board_comes_back_when_the_inside_raises(orin: JetsonDevice) -> None:
    before = orin.state()
    with pytest.raises(ZeroDivisionError), control_of(orin).hold(ModeRequest(some_mode(orin, 1))):
        raise ZeroDivisionError
    assert orin.state() == before


def test_dvfs_on_leaves_the_mode_as_a_ceiling(orin: JetsonDevice) -> None:
    space = orin.modes()
    assert space is not None
    mode = PowerMode(4, space.cpu_hz[10], space.gpu_hz[5], space.emc_hz[1])
    with control_of(orin).hold(ModeRequest(mode, dvfs=True)):
        state = orin.state()
        assert state["gpu.max_hz"] == mode.gpu_hz and state["gpu.min_hz"] == space.gpu_hz[0]
        assert state["cpu0.min_khz"] == 729_600  # the floor of the board's own modes, not the lowest clock
        assert all(state[name] == 0 for name in idle_states(state))
    with control_of(orin).hold(ModeRequest(mode)):
        # Held clocks: minimum is maximum and the idle states of the cores in use are off, as jetson_clocks does.
        state = orin.state()
        assert state["gpu.min_hz"] == mode.gpu_hz
        assert {name: state[name] for name in idle_states(state) if name.startswith("cpu0.")} == {
            "cpu0.idle0": 1, "cpu0.idle1": 1,
        }  # fmt: skip
    with control_of(orin).hold(ModeRequest(mode, idle_states=True)):
        assert {orin.state()[name] for name in idle_states(orin.state())} == {0}


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("orin-agx-jp5", "emc.iso_cap_hz", 0),  # no cap
        ("orin-agx-jp6", "emc.clk_cap_hz", 3_199_000_000),  # 0 would be the lowest rate there
        ("orin-nano-jp7", "emc.max_hz", 3_199_000_000),
    ],
)
def test_the_top_memory_clock_is_written_as_each_release_wants_it(
    name: str, setting: str, value: int, tmp_path: Path
) -> None:
    device = boards.open_fixture(name, tmp_path)
    space = device.modes()
    assert space is not None
    top = PowerMode(max(space.cores), space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])
    writes = control_of(device).plan(ModeRequest(top))
    assert {write.name: write.value for write in writes}[setting] == value
    with control_of(device).hold(ModeRequest(top)):
        assert device.current_mode().emc_hz == 3_199_000_000


def test_a_plan_writes_nothing(pair: JetsonDevice) -> None:
    before = pair.state()
    assert control_of(pair).plan(ModeRequest(some_mode(pair, 4)))
    assert pair.state() == before
    assert not (pair.tree.root / "var/lib/edgetrain").exists()


def test_everything_planned_is_on_the_boards_own_list(pair: JetsonDevice) -> None:
    for seed in range(5):
        for write in control_of(pair).plan(ModeRequest(some_mode(pair, seed), dvfs=bool(seed % 2))):
            assert pair.settings()[write.name] == write.path


def test_what_was_set_to_stay_stays_until_it_is_restored(orin: JetsonDevice) -> None:
    before = orin.state()
    control_of(orin).set(ModeRequest(some_mode(orin, 1)))
    held = orin.state()
    again = boards.open_tree(orin.tree.root)  # the next command
    assert control_of(again).repair() is None and again.state() == held
    control_of(again).set(ModeRequest(some_mode(orin, 2)))  # the original is kept through several settings
    assert control_of(again).restore() is not None
    assert orin.state() == before


def test_a_run_inside_a_mode_that_was_set_comes_back_to_that_mode(orin: JetsonDevice) -> None:
    before = orin.state()
    control_of(orin).set(ModeRequest(some_mode(orin, 1)))
    held = orin.state()
    with control_of(orin).hold(ModeRequest(some_mode(orin, 2))):
        pass
    assert orin.state() == held
    control_of(orin).restore()
    assert orin.state() == before


def test_a_mode_that_is_not_in_the_table_is_refused_with_the_nearest(orin: JetsonDevice) -> None:
    with pytest.raises(UsageError, match=r"nearest is 624\.75 MHz"):
        control_of(orin).plan(ModeRequest(PowerMode(8, 1_728_000_000, 600_000_000, 3_199_000_000)))
    with pytest.raises(UsageError, match="13 cores"):
        control_of(orin).plan(ModeRequest(PowerMode(13, 1_728_000_000, 624_750_000, 3_199_000_000)))


def test_a_write_that_the_board_ignores_is_a_refusal_and_everything_comes_back(orin: JetsonDevice) -> None:
    before = orin.state()
    boards.plant(orin.tree.root, ignore=[f"{orin.clocks.gpu}/max_freq"])
    with (
        pytest.raises(ControlRefused, match=r"gpu\.max_hz did not become .* check that no other tool"),
        control_of(orin).hold(ModeRequest(some_mode(orin, 3))),
    ):
        pass
    boards.plant(orin.tree.root)
    control_of(orin).repair()
    assert orin.state() == before


def test_another_tool_changing_clocks_meanwhile_is_noticed(orin: JetsonDevice) -> None:
    control = control_of(orin)
    mode = some_mode(orin, 7)
    with control.hold(ModeRequest(mode)):
        orin.tree.write(f"{orin.clocks.gpu}/min_freq", str(orin.clocks.gpu_table_hz[0]))
        assert any("gpu.min_hz" in text for text in control.drift()) == (mode.gpu_hz != orin.clocks.gpu_table_hz[0])


def test_older_kernels_refuse_a_minimum_above_the_maximum_and_are_served(tmp_path: Path) -> None:
    device = boards.open_fixture("nano-jp4", tmp_path)
    space = device.modes()
    assert space is not None
    low = PowerMode(4, space.cpu_hz[0], space.gpu_hz[0], space.emc_hz[0])
    high = PowerMode(4, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])
    control = control_of(device)
    with control.session():
        for mode in (low, high, low, high):
            control.apply(ModeRequest(mode))


def test_two_processes_never_set_one_board(orin: JetsonDevice) -> None:
    other = boards.open_tree(orin.tree.root)
    with (
        control_of(orin).hold(ModeRequest(some_mode(orin, 1))),
        pytest.raises(ControlRefused, match=f"process {os.getpid()}"),
        control_of(other).hold(ModeRequest(some_mode(orin, 2))),
    ):
        pass


def journal_file(device: JetsonDevice) -> Path:
    return Path(BoardJournal(device.tree).file)


def journal_entry(board: JetsonDevice, **changes: object) -> JournalEntry:
    """Return an entry that nothing is wrong with, but for the changes."""
    boot = board.tree.text("/proc/sys/kernel/random/boot_id") or ""
    entry = JournalEntry(BoardTransaction(board.tree).device(), boot, "applying", False, "a test", {})
    return entry._replace(**changes)


def test_a_journal_that_somebody_else_wrote_is_refused(orin: JetsonDevice) -> None:
    control_of(orin).set(ModeRequest(some_mode(orin, 1)))
    file = journal_file(orin)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        with pytest.raises(ControlRefused, match="user 12345 wrote it"):
            control_of(orin).restore()
        os.chown(file, 0, 0)
    document = json.loads(file.read_text())
    document["entry"]["values"]["gpu.max_hz"] = 1
    file.write_text(json.dumps(document))
    with pytest.raises(ControlRefused, match="checksum"):
        control_of(orin).restore()


def test_a_journal_cannot_write_what_is_no_setting_of_the_board(orin: JetsonDevice) -> None:
    target = orin.tree.root / "etc/target"
    target.write_text("precious\n")
    journal = BoardJournal(orin.tree)
    journal.lock()
    journal.write(journal_entry(orin, values={"/etc/target": 0}))
    journal.unlock()
    with pytest.raises(ControlRefused, match="no setting '/etc/target'"):
        control_of(orin).restore()
    assert target.read_text() == "precious\n"


def test_a_journal_of_another_board_is_refused(orin: JetsonDevice) -> None:
    journal = BoardJournal(orin.tree)
    journal.lock()
    journal.write(journal_entry(orin, device="p0000-0000/7", phase="held", keep=True))
    journal.unlock()
    with pytest.raises(ControlRefused, match="p0000-0000"):
        control_of(orin).restore()


def test_links_are_never_followed(orin: JetsonDevice, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious\n")
    victim = orin.tree.path(f"{orin.clocks.gpu}/max_freq")  # clocks are found before the link appears
    control = control_of(orin)
    victim.unlink()
    victim.symlink_to(outside)
    with pytest.raises(ControlRefused, match="could not put back"), control.hold(ModeRequest(some_mode(orin, 1))):
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
    journal = BoardJournal(orin.tree)
    journal.lock()
    journal.unlock()
    Path(journal.folder).chmod(0o777)
    with pytest.raises(ControlRefused, match="is not a folder that only user"):
        control_of(orin).set(ModeRequest(some_mode(orin, 1)))


def test_after_a_reboot_only_the_stock_mode_is_put_back(tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    control = control_of(device)
    control.set(ModeRequest(stock=3))
    assert device.active_stock() == 3
    # The power cut: clocks are the kernel's defaults again, nvpmodel's mode has outlived it.
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("another-boot\n")
    report = control_of(boards.open_tree(tmp_path)).restore()
    assert report is not None and report.written == 0 and report.nvpmodel == 2
    assert device.active_stock() == 2


def test_a_stock_mode_that_needs_a_reboot_is_refused_before_anything_is_run(orin: JetsonDevice) -> None:
    with pytest.raises(ControlRefused, match="needs a reboot") as refusal:
        control_of(orin).set(ModeRequest(stock=2))
    assert refusal.value.reboot
    assert not (orin.tree.root / "var/lib/edgetrain").exists()


def test_nobody_ever_answers_yes(orin: JetsonDevice) -> None:
    before = orin.state()
    with pytest.raises(ControlRefused, match="it needs a reboot"):
        control_of(orin).set(ModeRequest(stock=2, allow_reboot=True))
    assert orin.active_stock() == 0 and orin.state() == before
    assert not (orin.tree.root / ".sim/rebooted").exists()


@pytest.mark.parametrize("fault", ["silent", "refuse", "chroot"])
@pytest.mark.parametrize("number", [3, 7])  # a lower mode, and one that is higher in memory only
def test_an_nvpmodel_that_does_nothing_is_noticed_whatever_its_status_file_says(
    fault: str, number: int, tmp_path: Path
) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    before = device.state()
    boards.plant(tmp_path, nvpmodel=fault)
    with pytest.raises(ControlRefused, match=f"asked nvpmodel for mode {number}"):
        control_of(device).set(ModeRequest(stock=number))
    assert device.state() == before


def test_without_nvpmodel_custom_modes_still_work(tmp_path: Path) -> None:
    device = boards.open_fixture("no nvpmodel", tmp_path)
    before = device.state()
    with control_of(device).hold(ModeRequest(some_mode(device, 2))):
        assert device.state() != before
    assert device.state() == before
    with pytest.raises(UsageError, match="no stock mode 1; it has none"):
        control_of(device).set(ModeRequest(stock=1))


def test_cores_that_were_offline_are_offline_again(tmp_path: Path) -> None:
    device = boards.open_fixture("offline cores", tmp_path)
    before = device.state()
    assert device.current_mode().cores == 6
    space = device.modes()
    assert space is not None and max(space.cores) == 12
    with control_of(device).hold(ModeRequest(PowerMode(12, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1]))):
        assert device.current_mode().cores == 12
    assert device.state() == before


def test_killed_at_any_instant_the_board_comes_back_at_the_next_start() -> None:
    assert "came back" in torture.run(8, seed=1)


def test_the_averaging_of_the_power_monitors_is_an_option_and_comes_back(orin: JetsonDevice) -> None:
    before = orin.state()
    names = {"monitor-1-0040.samples", "monitor-1-0041.samples"}
    assert names <= set(before)
    control = control_of(orin)
    with control.hold(ModeRequest(some_mode(orin, 1), samples=64)):
        assert {orin.state()[name] for name in names} == {64}
        assert boards.open_tree(orin.tree.root).rails.window_s == pytest.approx(0.054)
        assert any("over-current" in doubt for doubt in control.doubts)  # the limits act on the same average
    assert orin.state() == before
    with pytest.raises(UsageError, match="average 1, 4"):
        control_of(orin).plan(ModeRequest(some_mode(orin, 1), samples=7))


def test_a_read_only_tree_is_distinguished_from_a_missing_right(orin: JetsonDevice) -> None:
    boards.plant(orin.tree.root, closed=[f"{orin.clocks.gpu}/max_freq"])
    kind = ControlRefused if os.geteuid() == 0 else NeedsRoot
    with pytest.raises(kind, match="max_freq"):
        control_of(orin).set(ModeRequest(some_mode(orin, 3)))


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
        control.apply(ModeRequest(PowerMode(8, space.cpu_hz[-1], space.gpu_hz[-1], space.emc_hz[-1])))
        control.apply(ModeRequest(stock=2))
        assert device.active_stock() == 2 and device.current_mode().cpu_hz == 1_190_400_000
    assert device.state() == before and device.active_stock() == 0


def test_a_stock_mode_that_is_held_keeps_its_own_cores(tmp_path: Path) -> None:
    device = boards.open_fixture("tx2-jp4", tmp_path)
    before = device.state()
    control = control_of(device)
    with control.hold(ModeRequest(stock=1)):  # MAXQ: the four A57, of which core 0 is one
        on = [core for core in range(1, 6) if device.state()[f"cpu{core}.online"]]
        assert on == [3, 4, 5]
        assert device.current_mode().cpu_hz == 1_113_600_000
    with control.hold(ModeRequest(stock=4)):
        assert [core for core in range(1, 6) if device.state()[f"cpu{core}.online"]] == [1]
    assert device.state() == before and device.active_stock() == 0


def test_an_nvpmodel_cut_off_half_way_is_run_again(tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    before = device.state()
    control = control_of(device)
    with control.session():
        control.apply(ModeRequest(stock=3))
        # As if it had been killed before it wrote its status, with a value of its own already changed.
        (tmp_path / "var/lib/nvpmodel/status").write_text("pmode:0002\n")
    assert device.state() == before and device.active_stock() == 2


def test_a_garbled_journal_is_refused_and_nothing_of_it_is_written(orin: JetsonDevice) -> None:
    draw = random.Random(9)
    control_of(orin).set(ModeRequest(some_mode(orin, 1)))
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


def test_a_board_that_is_hot_keeps_its_own_maxima_in_the_snapshot(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    before = device.state()
    boards.plant(tmp_path, hot={"scaling_max_freq": 729_600})
    assert device.state()["cpu0.max_khz"] == 729_600  # what the kernel shows while it throttles
    control = control_of(device)
    control.set(ModeRequest(PowerMode(4, 729_600_000, 306_000_000, 2_133_000_000)))
    boards.plant(tmp_path)
    assert control.restore() is not None
    assert device.state() == before


def test_setting_a_fast_mode_on_a_hot_board_fails_and_says_why(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    before = device.state()
    boards.plant(tmp_path, hot={"scaling_max_freq": 729_600})
    with pytest.raises(ControlRefused, match=r"throttling \(cpufreq-cpu0.*cool down") as refusal:
        control_of(device).set(ModeRequest(PowerMode(12, 2_201_600_000, 1_300_500_000, 3_199_000_000)))
    assert refusal.value.throttled
    boards.plant(tmp_path)
    control_of(device).repair()
    assert device.state() == before


def test_what_is_restored_on_a_hot_board_is_written_and_said_to_take_effect_later(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    before = device.state()
    control = control_of(device)
    control.set(ModeRequest(PowerMode(4, 729_600_000, 306_000_000, 2_133_000_000)))
    boards.plant(tmp_path, hot={"scaling_max_freq": 1_190_400})
    done = control.restore()
    assert done is not None and done.left == () and any("cpufreq-cpu0" in text for text in done.later)
    boards.plant(tmp_path)
    assert device.state() == before and control.held() is None


def test_the_clocks_of_a_cluster_that_was_offline_are_learned_when_it_comes_online(tmp_path: Path) -> None:
    device = boards.open_fixture("offline cluster on a new kernel", tmp_path)
    before = device.state()
    assert "cpu4.max_khz" not in before  # EBUSY while the whole cluster is offline
    space = device.modes()
    assert space is not None
    slow = PowerMode(6, space.cpu_hz[3], space.gpu_hz[0], space.emc_hz[0])
    policy = tmp_path / "sys/devices/system/cpu/cpufreq/policy4"
    found = (policy / "scaling_max_freq").read_text()
    with control_of(device).hold(ModeRequest(slow)):
        assert (policy / "scaling_max_freq").read_text() != found
    assert device.state() == before
    assert (policy / "scaling_max_freq").read_text() == found


def test_files_that_vanish_with_their_core_are_restored_when_it_is_back(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    away = tmp_path / "away"

    class HidingTree(KernelTree):
        """A kernel that shows the idle states of a core only while it is online."""

        def write(self, name: str, text: str) -> None:
            super().write(name, text)
            found = re.fullmatch(r"/sys/devices/system/cpu/(cpu\d+)/online", name)
            if found:
                shown, hidden = self.path(name).parent / "cpuidle", away / found[1]
                source, target = (hidden, shown) if text.strip() == "1" else (shown, hidden)
                if source.exists():
                    source.rename(target)

    def opened() -> JetsonDevice:
        tree = HidingTree(root)
        identity = identify(tree)
        assert identity is not None
        return JetsonDevice(tree, identity)

    away.mkdir()
    before = opened().state()
    control_of(opened()).set(ModeRequest(PowerMode(2, 729_600_000, 306_000_000, 2_133_000_000)))
    assert not (root / "sys/devices/system/cpu/cpu4/cpuidle").exists()
    assert control_of(opened()).restore() is not None  # another process: it finds the files as they are now
    assert opened().state() == before


def test_a_railgate_that_was_off_stays_off_and_one_that_refuses_is_no_failure(tmp_path: Path) -> None:
    tx2 = boards.open_fixture("tx2-jp4", tmp_path / "tx2")
    assert tx2.state()["gpu.railgate"] == 0
    with control_of(tx2).hold(ModeRequest(some_mode(tx2, 2), dvfs=True)):
        assert tx2.state()["gpu.railgate"] == 0
    joint = boards.open_fixture("orin-agx-jp6", tmp_path / "orin")
    boards.plant(tmp_path / "orin", errors={joint.settings()["gpu.railgate"]: 22})
    control = control_of(joint)
    with control.hold(ModeRequest(some_mode(joint, 2))):
        assert any("gpu.railgate" in doubt for doubt in control.doubts)


def test_a_mode_named_like_a_stock_mode_goes_through_nvpmodel(tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-nx-jp5", tmp_path)
    space = device.modes()
    assert space is not None
    control = control_of(device)
    with control.hold(ModeRequest(space.find_mode("10W_2CORE"))):  # the board prints MODE_10W_2CORE
        assert device.active_stock() == 3 and control.doubts == ()
    assert device.active_stock() == 2


def test_stock_clocks_without_their_masks_are_set_with_a_doubt(orin: JetsonDevice) -> None:
    space = orin.modes()
    assert space is not None
    control = control_of(orin)
    with control.hold(ModeRequest(space.find_mode("30W"))):
        assert orin.active_stock() == 0 and orin.current_mode().cpu_hz == 1_728_000_000
        assert any("its GPU masks are not" in doubt for doubt in control.doubts)


def test_masks_decide_on_a_reboot_and_core_counts_do_not(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-nano-super-jp6", tmp_path)
    golden = f"{boards.ORIN_GPU}/golden_img_status"
    assert device.reboot_reason(0, undo=False) is None  # the same mask
    assert device.reboot_reason(3, undo=False) is None  # another mask and fewer cores, but the GPU was not used
    assert "not undone" in (device.reboot_reason(3, undo=True) or "")
    (tmp_path / golden.lstrip("/")).write_text("1\n")
    assert "the GPU was used since boot" in (device.reboot_reason(3, undo=False) or "")
    thor = boards.open_fixture("thor-jp7", tmp_path / "thor")
    assert thor.reboot_reason(1, undo=True) is None
    assert "when its driver is loaded" in (thor.reboot_reason(2, undo=False) or "")


@pytest.mark.parametrize("name", ["orin-agx-jp6", "nano-jp4"])
def test_the_fan_runs_at_full_speed_meanwhile_and_comes_back(name: str, tmp_path: Path) -> None:
    device = boards.open_fixture(name, tmp_path)
    pwm = tmp_path / device.settings()["fan.pwm"].lstrip("/")
    before = pwm.read_text()
    control = control_of(device)
    with control.session(full_fan=True):
        assert pwm.read_text() == "255\n"
        control.apply(ModeRequest(some_mode(device, 1)))
    assert pwm.read_text() == before


def test_a_fan_that_follows_the_temperature_is_left_alone_by_a_mode(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    pwm = tmp_path / device.settings()["fan.pwm"].lstrip("/")
    control = control_of(device)
    control.set(ModeRequest(some_mode(device, 1)))
    pwm.write_text("140\n")  # its service, on a board that has become warmer
    control.restore()
    assert pwm.read_text() == "140\n"


def test_a_memory_clock_that_does_not_stay_is_a_refusal(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    tree = device.tree
    # A bandwidth manager that moves a held rate a moment later.
    rate = tmp_path / "sys/kernel/debug/bpmp/debug/clk/emc/rate"
    tree.sleep = lambda seconds: (rate.write_text("665600000\n"), None)[1] if seconds == HOLD_CHECK_S else None
    with (
        pytest.raises(ControlRefused, match=r"emc\.rate_hz"),
        control_of(device).hold(ModeRequest(PowerMode(4, 729_600_000, 306_000_000, 2_133_000_000))),
    ):
        pass
