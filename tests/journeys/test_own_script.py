"""The main journey: one's own script, profiled in a few power modes by a plan; then the best mode for it, set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.device import open_device
from edgetrain.record import FolderStore
from edgetrain.schema import Origin

SCRIPT = """
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(256, 8), torch.randint(0, 4, (256,)))
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(data, batch_size=16):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    time.sleep(0.03)
    optimizer.step()
"""
MODES = (
    "4/1190.4/318.75/2133",
    "8/1728/624.75/2133",
    "8/1728/828.75/3199",
    "12/2201.6/1032.75/3199",
    "12/2201.6/1300.5/3199",
)
LIMIT_W = 30


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "boards"))
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_a_script_profiled_in_five_modes_gets_the_best_mode_within_a_power_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "plan.yaml").write_text(
        f"name: my-script\ndevice: sim:orin-agx\ncommand: [{json.dumps(sys.executable)}, train.py]\nlike: resnet18\n"
        f"factors:\n  power_mode: [{', '.join(MODES)}]\n"
    )
    assert main(["campaign", "plan.yaml", "--json"]) == 0
    capsys.readouterr()
    store = FolderStore(tmp_path / "store")
    runs = [store.open(row.run) for row in store.runs()]
    assert len(runs) == len(MODES) and {run.manifest.origin for run in runs} == {Origin.SIMULATED}
    assert {len(run.minibatches()) for run in runs} == {16}
    before = open_device("sim:orin-agx").control().read()

    ask = ["recommend", "--profiled", "my-script", "--device", "sim:orin-agx", "--max-power-w", str(LIMIT_W), "--json"]
    assert main([*ask, "--apply"]) == 0
    chosen = json.loads(capsys.readouterr().out)
    assert chosen["best"]["power_w"]["value"] <= LIMIT_W
    assert open_device("sim:orin-agx").control().read() != before

    assert main(["modes", "restore", "--device", "sim:orin-agx"]) == 0
    assert open_device("sim:orin-agx").control().read() == before
