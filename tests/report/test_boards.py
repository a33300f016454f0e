"""What a person reads about boards: modes, changes, idle power, the catalogue, and what doctor found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetrain.api import devices
from edgetrain.documents import to_document
from edgetrain.report.boards import show_baseload, show_change, show_modes, show_restore
from edgetrain.report.devices import show_board, show_catalogue
from edgetrain.report.doctor import show_doctor
from edgetrain.schema import (
    DeviceSpec,
    DoctorReport,
    Finding,
    IdleRow,
    IdleTable,
    ModeChange,
    ModeRestore,
    Origin,
    PowerMode,
    PowerSource,
    ProbeCost,
    Restored,
    SamplingCost,
    SettingWrite,
    SocketRow,
)
from tests.report.printing import printed

MODE = PowerMode(4, 1_113_600_000, 408_000_000, 2_133_000_000)
WRITE = SettingWrite("gpu.max_hz", "/sys/gpu/max_freq", 408_000_000, 1_300_500_000)


@pytest.fixture
def board(tmp_path: Path) -> str:
    return f"sim:orin-agx@{tmp_path / 'board'}"


def test_modes_are_shown_with_what_they_cap_and_what_is_in_force(board: str) -> None:
    shown = printed(show_modes(devices.list_modes(board)))
    assert "MODE_30W" in shown and "1728 MHz" in shown and "18096 custom modes" in shown
    assert "in force" in shown and "needs a reboot" in shown and "parts of the GPU off" in shown
    assert "now: 12 cores at 2201.6 MHz" in shown and "held by edgetrain" not in shown


def test_a_change_lists_every_write_and_what_else_to_know() -> None:
    change = ModeChange(
        "orin-agx", "asked", True, "nvpmodel -m 1", (WRITE,), ("/sys/gpu/max_freq",), "a mask", MODE, ("x",)
    )
    shown = printed(show_change(change))
    assert "would write 1 values" in shown and "/sys/gpu/max_freq: 1300500000 → 408000000" in shown
    for words in ("run nvpmodel -m 1", "with sudo", "needs a reboot: a mask", "note: x", "now: 4 cores at 1113.6 MHz"):
        assert words in shown


def test_restoring_is_said_in_each_of_its_ways() -> None:
    nothing = ModeRestore("orin-agx", False, None, None, ())
    assert "nothing to restore" in printed(show_restore(nothing))
    planned = ModeRestore("orin-agx", True, None, "a mode", (WRITE,))
    assert "would undo a mode: 1 values" in printed(show_restore(planned))
    done = ModeRestore("orin-agx", False, Restored("a mode", 3, None, (), ("later",)), "a mode", (), MODE)
    assert "undid a mode; now 4 cores" in printed(show_restore(done)) and "note: later" in printed(show_restore(done))
    written = printed(show_restore(replace(done, writes=(WRITE,))))
    assert "wrote 1 values:" in written and "/sys/gpu/max_freq: 1300500000 → 408000000" in written
    unit = ModeRestore("orin-agx", False, None, None, (), None, "/etc/systemd/system/x.service")
    assert "x.service installed" in printed(show_restore(unit, True)) and "was removed" in printed(
        show_restore(unit, False)
    )


def test_idle_power_of_board_and_socket_are_never_in_one_table() -> None:
    rows = (
        IdleRow(True, False, 7.5, 0.1, 30, "module", Origin.MEASURED),
        IdleRow(False, True, None, None, 0, "module", Origin.MEASURED, "needs root"),
    )
    idle = IdleTable("xavier-agx", Origin.MEASURED, "module", 30.0, rows, (SocketRow("Wake-on-LAN", 3.3, "published"),))
    shown = printed(show_baseload(idle))
    assert "clocks held (DVFS off), logging on" in shown and "7.5 W" in shown and "not measured: needs root" in shown
    assert shown.index("at the socket") > shown.index("7.5 W")


def test_the_catalogue_shows_dashes_where_no_source_was_found() -> None:
    boards = devices.published_boards()
    shown = printed(show_catalogue(boards))
    assert all(board.key in shown for board in boards)
    thor = devices.published_board("thor")
    assert "no listing found" in printed(show_board(thor, {"nvidia": "NVIDIA"}))
    assert to_document(thor)["cpu"] is None and to_document(thor)["origin"] == "published"


def test_doctor_shows_findings_by_area_and_the_commands_that_fix_them() -> None:
    power = PowerSource("rails", ("VDD_IN_w",), None, "module", 0.43, 0.04)
    findings = (
        Finding("control", "power modes", False, "closed", "sudo edgetrain modes set MODE"),
        Finding("cpu", "load", True, "cpu0_share"),
    )
    cost = SamplingCost(0.004, {"rails": ProbeCost(0.001, 0.43, 0.004)})
    report = DoctorReport("1", DeviceSpec("orin-nano", "jetson", l4t="36.4.3", jetpack="6"), power, findings, cost)
    shown = printed(show_doctor(report))
    assert shown.index("cpu0_share") < shown.index("closed") < shown.index("sudo edgetrain modes set MODE")
    assert "L4T 36.4.3 (JetPack 6)" in shown and "for the module" in shown and "0.4 %" in shown
    without = DoctorReport("1", DeviceSpec("host", "host"), None, (), cost)
    assert "not measured here" in printed(show_doctor(without))
