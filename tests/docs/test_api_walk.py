"""The walk of docs/api.md works as written, in an interpreter that cannot import torch."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("No module named 'torch'")
sys.meta_path.insert(0, NoTorch())
"""


def test_the_walk_runs_from_top_to_bottom_without_torch(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) >= 5
    checks = """
assert str(summary.origin) == "simulated" and epoch.fetch_stall_s >= 0 and epoch.energy_j > 0
assert comparison.different and "torch" not in sys.modules
assert answer.best.power_w.hi <= 20.5 and estimate.unit == "W"
"""
    (tmp_path / "walk.py").write_text(NO_TORCH + "\n".join(blocks) + checks)
    places = {"EDGETRAIN_STORE": "store", "EDGETRAIN_SIM_HOME": "sim", "EDGETRAIN_CAMPAIGN_LOCK": "."}
    env = {**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}}
    done = subprocess.run(
        [sys.executable, "walk.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_tables_list_every_public_function():
    import edgetrain
    from edgetrain import api

    tables = PAGE.read_text().partition("## A walk")[0]
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    for name in {*edgetrain.__all__, *functions} - {"__version__"}:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", tables), f"{name} is missing"
