"""What docs/workloads.md shows is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")

from edgetrain.cli import main
from edgetrain.record import FolderStore
from edgetrain.workload import CATALOG, networks

TEXT = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()


def test_the_example_of_your_own_workload_trains_with_the_command_shown(tmp_path, monkeypatch, capfd):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    (tmp_path / "mine.py").write_text(code)
    (command,) = re.findall(r"^    edgetrain (run mine:.*)$", TEXT, re.M)
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(command), "--store", str(tmp_path / "store")]) == 0
    run = FolderStore(tmp_path / "store").open("last")
    assert run.manifest.workload.batch_size == 32
    assert len(run.minibatches()["asked_us"]) == 16
    assert "mine:make_workload" in capfd.readouterr().out


def test_the_table_names_every_workload_with_its_parameters_and_samples():
    import torch

    for name, known in CATALOG.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", TEXT, re.M)
        _, _, _, parameters, _, samples, _ = [cell.strip() for cell in row.split("|")]
        classes = 1000 if "with 1000 classes" in parameters else None
        with torch.device("meta"):
            assert networks.parameters(networks.build(name, classes)) == int(parameters.split()[0].replace(",", ""))
        assert known.samples == int(samples.replace(",", ""))


def test_the_commands_shown_for_datasets_are_understood(tmp_path, capfd):
    (command,) = re.findall(r"^    edgetrain (data .*--dry-run)$", TEXT, re.M)
    assert main([*shlex.split(command), "--store", str(tmp_path)]) == 0
    assert "5770 samples" in capfd.readouterr().out
