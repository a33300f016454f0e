"""What a user without rights meets on a board: measuring works, changing is refused with the way out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgetrain.device import ModeRequest
from edgetrain.device.privileged.journal import BoardJournal
from tests import boards

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to step down from")
NOBODY = 65534

# Steps down after the imports: a plain user may not read where root keeps its Python.
SCRIPT = """
import json, os, sys
from pathlib import Path
import edgetrain.device.nvml, edgetrain.device.simulated
from edgetrain.device import ModeRequest, load_catalogue
from edgetrain.errors import EdgetrainError
from tests import boards
load_catalogue()
root = Path(sys.argv[1])
os.setresuid({nobody}, {nobody}, {nobody})
device = boards.open_tree(root)
said = dict(probes=[probe.name for probe in device.probes()], modes=len(device.modes()))
said['now'] = str(device.control().read())
said['findings'] = [finding.what for finding in device.findings() if finding.works is False]
for name, call in (
    ("set", lambda: device.control().set(ModeRequest(device.modes().stock[0].mode))),
    ("restore", lambda: device.control().restore()),
    ("repair", lambda: device.control().repair()),
):
    try:
        said[name] = repr(call())
    except EdgetrainError as error:
        said[name] = type(error).__name__ + ": " + str(error)
print(json.dumps(said))
"""


def as_nobody(root: Path) -> dict[str, object]:
    for folder in (root, *root.parents):
        if Path(tempfile.gettempdir()) in folder.parents:
            folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(nobody=NOBODY), str(root)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_plain_user_measures_and_may_not_set(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path / "board")
    before = boards.open_tree(root).state()
    said = as_nobody(root)
    assert {"rails", "cpu", "gpu", "thermal"} <= set(said["probes"])
    assert said["modes"] == 18_096
    assert str(said["set"]).startswith("NeedsRoot") and "sudo" in str(said["set"])
    assert said["restore"] == "None" and said["repair"] == "None"
    assert boards.open_tree(root).state() == before


def test_a_plain_user_learns_how_to_undo_what_root_set(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path / "board")
    device = boards.open_tree(root)
    control = device.control()
    assert control is not None
    space = device.modes()
    assert space is not None
    control.set(ModeRequest(space.stock[3].mode))
    folder = Path(BoardJournal(device.tree).folder)
    assert folder.stat().st_uid == 0 and folder.stat().st_mode & 0o777 == 0o700
    said = as_nobody(root)
    assert "sudo edgetrain modes restore" in str(said["restore"])
    assert said["repair"] == "None"  # root's to repair
    assert control.restore() is not None


def test_debugfs_that_a_plain_user_may_not_enter_is_no_crash(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path / "board")
    (root / "sys/kernel/debug").chmod(0o700)
    said = as_nobody(root)
    assert said["modes"] and "memory clock and load" not in said["findings"]  # the cap file can be read by everybody
    older = boards.build("orin-agx-jp5", tmp_path / "older")
    (older / "sys/kernel/debug").chmod(0o700)
    (older / "sys/kernel/nvpmodel_emc_cap/emc_iso_cap").chmod(0o600)
    said = as_nobody(older)
    assert said["modes"] and "memory clock and load" in said["findings"]
    assert "GPU" in str(said["now"]) and "memory" not in str(said["now"])  # not known to this user


def test_rails_that_only_root_may_read_are_named_with_the_command(tmp_path: Path) -> None:
    root = boards.build("rails for root only", tmp_path / "board")
    said = as_nobody(root)
    assert "rails" not in said["probes"] and "power per rail" in said["findings"]
    device = boards.open_tree(root)
    assert device.total_power() is not None  # root reads them


def test_a_monitor_that_only_root_may_read_beside_one_that_all_may_is_named(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path / "board")
    for file in (root / "sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon4").glob("*_input"):
        file.chmod(0o400)
    said = as_nobody(root)
    assert "rails" in said["probes"] and "rails" in said["findings"]
