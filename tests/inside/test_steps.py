"""Training is seen in loops that say nothing: from the first backward pass or step on, wherever it happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgetrain.inside import facts, session, steps
from edgetrain.runner.command_trainee import hook_environment
from tests.inside import records, scenes


def run_script(run: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as `profile` does, without the rest of it."""
    script = run / "script.py"
    script.write_text("import os, sys, time\nimport torch\ntorch.set_num_threads(1)\n" + text)
    surroundings = {**hook_environment(run, "async", os.environ), **environment}
    return subprocess.run([sys.executable, str(script)], env=surroundings, capture_output=True, text=True, timeout=120)


STEPS = """
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
network.train()
began = time.perf_counter()
for _ in range(6):
    time.sleep(0.01)
    loss = network(torch.randn(2, 4)).sum()
    time.sleep(0.02)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(time.perf_counter() - began)
"""


def test_a_script_without_a_loader_is_recorded_from_its_first_step(tmp_path: Path) -> None:
    done = run_script(tmp_path, STEPS)
    assert done.returncode == 0, done.stderr
    rows = records.columns(tmp_path, "minibatches")
    assert rows["loader"].tolist() == [-1] * 6
    assert rows["backwards"].tolist() == rows["steps"].tolist() == [1] * 6
    loop = records.loop(tmp_path)
    assert len(loop.parts) == 6 and loop.parts.fetched is not None and not loop.parts.fetched.any()
    assert loop.e2e_s == pytest.approx(float(done.stdout), rel=0.05)  # from the switch to training on
    assert loop.process.facts.parameters == 5


def test_a_process_that_only_imports_torch_leaves_no_streams(tmp_path: Path) -> None:
    assert run_script(tmp_path, "torch.nn.Linear(2, 2)(torch.zeros(1, 2))").returncode == 0
    assert not list(tmp_path.glob("*.ets"))


def test_a_simulated_board_stretches_each_step_and_not_the_waits(tmp_path: Path) -> None:
    script = """
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 12
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.zeros(4)
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
for batch in DataLoader(Slow(), batch_size=2):
    loss = network(batch).sum()
    time.sleep(0.02)
    loss.backward()
    optimizer.step()
"""
    for name, environment in (("plain", {}), ("stretched", {"EDGETRAIN_STRETCH": "3.0"})):
        (tmp_path / name).mkdir()
        assert run_script(tmp_path / name, script, **environment).returncode == 0
    plain, stretched = records.loop(tmp_path / "plain").parts, records.loop(tmp_path / "stretched").parts
    assert np.median(stretched.compute_s) == pytest.approx(3 * np.median(plain.compute_s), rel=0.2)
    assert np.median(stretched.stall_s[1:]) == pytest.approx(np.median(plain.stall_s[1:]), rel=0.3)


def test_what_was_trained_before_an_abrupt_exit_is_in_the_record(tmp_path: Path) -> None:
    assert run_script(tmp_path, STEPS + "\nos._exit(3)\n").returncode == 3
    assert len(records.columns(tmp_path, "minibatches")) == 6
    assert records.facts(tmp_path)["ended"] is True


def test_a_second_backward_pass_without_a_fetch_has_a_row_of_its_own(tmp_path: Path) -> None:
    network = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    recording = session.begin(str(tmp_path), steps=True)
    for batch in torch.utils.data.DataLoader(scenes.Numbers(12), batch_size=4):
        for _ in range(2):
            network(batch.float()).sum().backward()
            optimizer.step()
    recording.end()
    rows = records.columns(tmp_path, "minibatches")
    assert rows["backwards"].tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert (rows["loader"] >= 0).tolist() == [True, False] * 3 + [True]
    assert np.all(np.diff(rows["done_us"][:6]) > 0)
    assert (rows["forwards"][:6] == rows["forwards"][0]).all() and rows["forwards"][0] > 0


def test_a_replayed_graph_is_a_step_unless_gradients_are_off(tmp_path: Path) -> None:
    class Graph:
        replayed = 0

        def replay(self) -> None:
            self.replayed += 1

    recording = session.begin(str(tmp_path), steps=True)
    steps.watch_graphs(SimpleNamespace(CUDAGraph=Graph), lambda: recording)
    graph = Graph()
    for number, _ in enumerate(torch.utils.data.DataLoader(scenes.Numbers(12), batch_size=4)):
        with torch.set_grad_enabled(number != 1):
            graph.replay()
    recording.end()
    assert graph.replayed == 3
    assert records.batches(tmp_path)["backwards"].tolist() == [1, 0, 1]


def test_forward_passes_are_counted_by_autograd_nodes_without_its_own_counter_too() -> None:
    class Older:
        """A torch whose counter of nodes cannot be read."""

        ones, enable_grad = torch.ones, torch.enable_grad

    network, batch = torch.nn.Linear(2, 2), torch.zeros(1, 2)
    made = []
    for count in (steps.node_counter(torch), steps.nodes_by_making_one(Older)):
        before = count()
        with torch.no_grad():
            network(batch)
        assert count() == before
        network(batch).relu().sum()
        made.append(count() - before)
    assert made[0] == made[1] > 0


@pytest.mark.parametrize(
    ("late_s", "cpu_s", "stopped"), [(2.0, 0.01, True), (2.0, 1.5, False), (0.2, 0.0, False), (0.0, 0.0, False)]
)
def test_a_process_that_woke_late_and_used_no_cpu_time_was_stopped(late_s: float, cpu_s: float, stopped: bool) -> None:
    assert session.was_stopped(late_s, cpu_s) is stopped


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, (3, 1, 8)),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}, (2, 0, 4)),
        ({}, (None, None, None)),
    ],
)
def test_the_rank_of_a_process_comes_from_its_environment(
    environment: dict[str, str], expected: tuple[int | None, ...]
) -> None:
    found = facts.ranks(torch, environment)
    assert (found["rank"], found["local_rank"], found["world_size"]) == expected


def test_a_new_loader_for_every_step_is_described_only_so_often(tmp_path: Path) -> None:
    known = facts.Loaders(session.begin(str(tmp_path)).guard)
    try:
        numbers = [known.number_of(torch.utils.data.DataLoader([1])) for _ in range(facts.MAX_LOADERS + 5)]
        assert numbers == list(range(facts.MAX_LOADERS + 5))
        assert len(known.described()) == facts.MAX_LOADERS
        same = [1, 2]
        assert known.number_of(same) == known.number_of(same)
    finally:
        session.begin(str(tmp_path)).end()
    assert json.loads((tmp_path / "inside.json").read_text())["problems"] == []
