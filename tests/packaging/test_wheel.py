"""The wheel installs into a clean environment without torch, and its command and API work there."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.recording import write_record

ROOT = Path(__file__).parents[2]
WALK_CHECKS = """
import importlib.util
assert importlib.util.find_spec("torch") is None
assert str(summary.origin) == "simulated" and epoch.fetch_stall_s >= 0 and epoch.energy_j > 0
assert comparison.different
assert answer.best.power_w.hi <= 20.5 and estimate.unit == "W"
"""


def clean_env() -> dict[str, str]:
    """Return the environment without what names this checkout: nothing of it may help."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "EDGETRAIN_STORE")}


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Return the Python of an environment that holds the wheel, with the dependencies of this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps", "-w", str(folder)]
    # From a copy: a build leaves folders beside its source, and an old one would get into the next wheel.
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([*build, str(source)], check=True, timeout=200, env=clean_env())
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    found = folder / "venv" / "bin" / "python"
    install = [str(found), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    wanted = ["-c", str(ROOT / "constraints.txt"), str(wheel)]
    done = subprocess.run([*install, *wanted], check=False, timeout=250, env=clean_env())
    if done.returncode:
        pytest.skip("the dependencies cannot be installed here (no package registry in reach)")
    return found


def run(python: Path, *arguments: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(python), *arguments], capture_output=True, text=True, timeout=100, env=clean_env(), **more
    )


def test_the_wheel_has_no_torch_and_shows_a_recorded_run(python, tmp_path):
    assert run(python, "-c", "import torch").returncode == 1
    name = write_record(tmp_path / "store")
    shown = run(python, "-m", "edgetrain", "show", name, "--store", str(tmp_path / "store"), "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["run"] == name


def test_the_wheel_holds_all_data_files(python, tmp_path):
    code = (
        "import edgetrain.device.catalog as c, edgetrain.lab as l, edgetrain.prediction as p;"
        "print(len(list(c.load())), len(l.media()), p.load_prior('orin').held)"
    )
    done = run(python, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_walk_of_the_api_page_works_there(python, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.S)
    assert len(blocks) >= 5
    (tmp_path / "walk.py").write_text("\n".join(blocks) + WALK_CHECKS)
    places = {"EDGETRAIN_STORE": "store", "EDGETRAIN_SIM_HOME": "sim", "EDGETRAIN_CAMPAIGN_LOCK": "."}
    env = {**clean_env(), **{name: str(tmp_path / place) for name, place in places.items()}}
    done = subprocess.run([python, "walk.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_command_answers_with_its_version(python, tmp_path):
    done = run(python.parent / "edgetrain", "--version", cwd=tmp_path)
    assert done.stdout.strip() == run(python, "-c", "import edgetrain; print(edgetrain.__version__)").stdout.strip()
