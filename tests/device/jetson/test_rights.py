"""What a user without rights meets on a board: measuring works, changing is refused with the way out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgetrain.device.control import Setting
from edgetrain.device.journal import Journal
from tests import boards

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to step down from")
NOBODY = 65534

# Steps down after the imports: a plain user may not read where root keeps its Python.
SCRIPT = """
import json, os, sys
from pathlib import Path
import edgetrain.device.catalog, edgetrain.device.nvml
from edgetrain.device.control import Setting
from edgetrain.errors import EdgetrainError
from tests import boards
edgetrain.device.catalog.load()
root = Path(sys.argv[1])
os.setresuid({nobody}, {nobody}, {nobody})
device = boards.open_tree(root)
said = dict(probes=[probe.name for probe in device.probes()], modes=len(device.modes()), now=device.control().read())
for name, call in (
    ("set", lambda: device.control().set(Setting(device.modes().stock[0].mode))),
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


def test_a_plain_user_is_told_how_to_undo_what_root_set(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path / "board")
    device = boards.open_tree(root)
    control = device.control()
    assert control is not None
    space = device.modes()
    assert space is not None
    control.set(Setting(space.stock[3].mode))
    folder = Journal(root).folder
    assert folder.stat().st_uid == 0 and folder.stat().st_mode & 0o777 == 0o700
    said = as_nobody(root)
    assert "sudo edgetrain modes restore" in str(said["restore"])
    assert said["repair"] == "None"  # root's to repair
    assert control.restore() is not None
