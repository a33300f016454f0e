"""A loop that can be edited needs two lines; trainers that own the loop need one callback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import edgetrain
from edgetrain.inside import callbacks, session
from edgetrain.record import FolderStore
from tests.inside import records, scenes


@pytest.fixture()
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory that recordings here use; closed in any case."""
    monkeypatch.setenv("EDGETRAIN_RUN", str(tmp_path))
    yield tmp_path
    session.begin(tmp_path).end()


def test_a_watched_loader_is_recorded_with_its_workers(run: Path) -> None:
    network = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = DataLoader(scenes.Numbers(), batch_size=4, num_workers=1)
    for _ in range(2):
        for batch in edgetrain.watch(loader):
            network(batch.float()).sum().backward()
            optimizer.step()
    session.begin(run).end()
    minibatches, workers = records.joined(run)
    assert records.loop(run).parts.epoch.tolist() == [0] * 6 + [1] * 6
    assert set(minibatches["phase"].tolist()) == {1}
    assert set(workers["worker"].tolist()) == {0}


def test_anything_that_can_be_iterated_can_be_watched(run: Path) -> None:
    batches = [torch.zeros(3, 2) for _ in range(5)]
    assert sum(len(batch) for batch in edgetrain.watch(batches)) == 15
    assert sum(1 for _ in edgetrain.watch(batches)) == 5
    session.begin(run).end()
    rows = records.batches(run)
    assert rows["batch"].tolist() == [*range(5), *range(5)]
    assert rows["generation"].tolist() == [0] * 5 + [1] * 5
    assert rows["samples"].tolist() == [3] * 10
    assert not list(run.glob("workers-*"))


def test_a_script_that_watches_makes_a_run_that_can_be_shown(tmp_path: Path) -> None:
    script = tmp_path / "own_loop.py"
    script.write_text(
        "import torch, edgetrain\n"
        "net = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "data = torch.utils.data.TensorDataset(torch.zeros(24, 2))\n"
        "for epoch in range(2):\n"
        "    for (x,) in edgetrain.watch(torch.utils.data.DataLoader(data, batch_size=4)):\n"
        "        net(x).sum().backward()\n"
        "        optimizer.step()\n"
    )
    store = tmp_path / "store"
    said = subprocess.run(
        [sys.executable, str(script)], env={"EDGETRAIN_STORE": str(store), "PATH": ""}, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout == ""
    shown = subprocess.run(
        [sys.executable, "-m", "edgetrain", "show", "last", "--json", "--store", str(store)],
        capture_output=True,
        text=True,
    )
    document = json.loads(shown.stdout)
    assert (document["state"], [epoch["minibatches"] for epoch in document["epochs"]]) == ("finished", [6, 6])
    assert len(FolderStore(store).runs()) == 1


def test_importing_edgetrain_imports_neither_torch_nor_any_trainer() -> None:
    command = (
        "import sys, edgetrain, edgetrain.inside, edgetrain.inside.callbacks\n"
        "print(sorted({'torch', 'lightning', 'pytorch_lightning', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert said.stdout.strip() == "[]", said.stderr


def pairs() -> TensorDataset:
    return TensorDataset(torch.randn(24, 4), torch.randn(24, 1))


@pytest.mark.filterwarnings("ignore:.*LeafSpec")
def test_lightning_trains_recorded(run: Path) -> None:
    lightning: Any = pytest.importorskip("pytorch_lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = (self.layer(batch[0]) - batch[1]).square().mean()
            self.log("train_loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.layer(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[callbacks.lightning()],
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(pairs(), batch_size=4, num_workers=1), DataLoader(pairs(), batch_size=12))
    loop = records.loop(run)
    assert loop.parts.epoch.tolist() == [0] * 6 + [1] * 6
    assert loop.parts.trained is None and loop.turns.evaluation_rows is not None
    losses = {one["epoch"]: one["loss"] for one in records.facts(run)["epochs"]}
    assert set(losses) == {0, 1} and all(loss > 0 for loss in losses.values())


def test_hugging_face_trains_recorded(run: Path, tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (self.layer(x) - y).square().mean()}

    rows_of = [{"x": torch.randn(4), "y": torch.randn(1)} for _ in range(24)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), num_train_epochs=2, per_device_train_batch_size=4, use_cpu=True,
        save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="epoch", remove_unused_columns=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Network(), args=arguments, train_dataset=rows_of, callbacks=[callbacks.hugging_face()]
    )
    trainer.train()
    loop = records.loop(run)  # Its loader looks one minibatch ahead: the last is trained after the end of the pass.
    assert loop.parts.epoch.tolist() == [0] * 6 + [1] * 6
    assert loop.parts.trained is None and loop.parts.fetched is None
    assert records.facts(run)["parameters"] == 5
