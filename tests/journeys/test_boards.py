"""From a board to its modes and back, by the commands a person types, on a board that does not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetrain.cli import main
from tests.schemas import check_document


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main([*arguments, "--json"]) == 0
    found: dict = json.loads(capsys.readouterr().out)
    assert found["schema"] == "edgetrain/1"
    check_document(arguments, found)
    return found


BOARD = ("--device", "sim:orin-agx")


def test_modes_are_listed_set_and_restored(capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys, "modes", "list", *BOARD)
    assert listed["origin"] == "simulated" and listed["custom_modes"] == 18_096 and listed["held"] is None
    dry = said(capsys, "modes", "set", "8/1728/624.75/2133", *BOARD, "--dry-run")
    assert dry["dry_run"] and len(dry["writes"]) > 10
    assert said(capsys, "modes", "list", *BOARD)["now"] == listed["now"]
    done = said(capsys, "modes", "set", "8/1728/624.75/2133", *BOARD)
    assert {name: done["now"][name] for name in ("cores", "cpu_hz", "gpu_hz", "emc_hz")} == {
        "cores": 8, "cpu_hz": 1_728_000_000, "gpu_hz": 624_750_000, "emc_hz": 2_133_000_000,
    }  # fmt: skip
    assert {write["path"] for write in done["writes"]} == {write["path"] for write in dry["writes"]}
    held = said(capsys, "modes", "list", *BOARD)
    assert held["held"].startswith("8 cores at 1728 MHz")
    assert said(capsys, "modes", "restore", *BOARD, "--dry-run")["writes"]
    assert said(capsys, "modes", "restore", *BOARD)["restored"]
    assert said(capsys, "modes", "list", *BOARD)["now"] == listed["now"]
    assert said(capsys, "modes", "restore", *BOARD)["restored"] is None


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("modes", "set", "8/1700/600/3199"), 2, "nearest is"),
        (("modes", "set", "turbo"), 2, "0 MAXN"),
        (("modes", "set", "30W"), 1, "needs a reboot"),
        (("modes", "set", "8/x/600/3199"), 2, "cannot read"),
    ],
)
def test_a_wrong_mode_is_a_clear_message(
    arguments: tuple[str, ...], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *BOARD]) == status
    heard = capsys.readouterr()
    assert words in heard.err and "Traceback" not in heard.err and not heard.out


def test_a_machine_without_modes_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["modes", "list", "--device", "host"]) == 2
    assert "sim:orin-agx" in capsys.readouterr().err


def test_the_unit_for_boot_time_needs_the_program_that_it_starts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = home / "sim/orin-agx/etc/systemd/system/edgetrain-restore.service"
    assert main(["modes", "restore", *BOARD, "--at-boot", "--dry-run"]) == 0
    assert main(["modes", "restore", *BOARD, "--at-boot"]) == 1
    assert not unit.exists() and "sudo edgetrain modes install-control" in capsys.readouterr().err
    assert main(["modes", "restore", *BOARD, "--not-at-boot"]) == 0
    capsys.readouterr()


def test_a_dry_run_of_baseload_says_what_would_be_measured_here(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "baseload", "--device", "sim:xavier-agx", "--seconds", "20", "--dry-run")
    assert (len(found["states"]), found["takes_s"], found["changes_clocks"]) == (4, 100.0, True)
    assert main(["baseload", "--device", "sim:xavier-agx", "--keep-clocks", "--dry-run"]) == 0
    assert "no clock is changed" in capsys.readouterr().out


def test_baseload_keeps_module_and_socket_apart(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "baseload", "--device", "sim:xavier-agx", "--seconds", "20", "--wake-on-lan-w", "3.2")
    assert found["scope"] == "module" and found["origin"] == "simulated"
    assert {row["scope"] for row in found["rows"]} == {"module"}
    wake = [row for row in found["socket"] if row["state"] == "Wake-on-LAN"]
    assert wake == [{"state": "Wake-on-LAN", "power_w": 3.2, "origin": "given"}]
    assert main(["baseload", "--device", "sim:xavier-agx", "--seconds", "20"]) == 0
    assert "at the socket" in capsys.readouterr().out


def test_a_run_on_a_simulated_board_is_shown_as_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--device", "sim:orin-nano", "--power-mode", "4/960/408/2133", "--epochs", "1", "--minibatches", "30")
    ran = said(capsys, "run", "resnet18", "--workers", "4", *asked)
    clocks = {"cores": 4, "cpu_hz": 960_000_000, "gpu_hz": 408_000_000, "emc_hz": 2_133_000_000}
    for when in ("asked", "start", "end"):
        assert ran["power_mode"][when].items() >= clocks.items()
    shown = said(capsys, "show", "last")
    assert shown["run"] == ran["run"]
    assert shown["origin"] == "simulated" and shown["device"]["name"] == "orin-nano"
    assert shown["power_w"]["median"] > 5 and shown["power_scope"] == "module"


def test_doctor_knows_a_simulated_board(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "doctor", "--device", "sim:xavier-nx")
    assert found["device"]["kind"] == "simulated"
    assert any(finding["area"] == "control" and finding["works"] for finding in found["findings"])
