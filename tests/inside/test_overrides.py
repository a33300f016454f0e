"""Loader arguments set from outside reach the loader that was named, and nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgetrain.inside.overrides import read
from edgetrain.record import read_run
from edgetrain.runner.command_trainee import hook_environment

SCRIPT = textwrap.dedent(
    """
    import sys
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Mine(DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    if __name__ == "__main__":
        data = TensorDataset(torch.arange(40.0).reshape(20, 2))
        torch.manual_seed(1)
        first = DataLoader(data, 5)
        second = {make}
        for loader in (first, second):
            net = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for (x,) in loader:
                print(x.tolist())
                net(x).sum().backward()
                optimizer.step()
        for loader in (first, second):
            found = loader.num_workers, loader.prefetch_factor, loader.persistent_workers, loader.timeout
            print(*found, file=sys.stderr)
    """
)


def train(tmp_path: Path, make: str, override: dict[str, object] | None) -> tuple[str, list[str], Path]:
    """Run the script under the hook; return what it printed, its loaders' arguments, and its record."""
    script, run = tmp_path / "script.py", tmp_path / f"run-{override is not None}"
    script.write_text(SCRIPT.format(make=make))
    run.mkdir()
    environment = hook_environment(run, "async", dict(os.environ))
    if override is not None:
        environment["EDGETRAIN_LOADER"] = json.dumps(override)
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if line[0].isdigit()], run


@pytest.mark.parametrize(
    ("make", "override", "expected"),
    [
        (
            "DataLoader(data, 5, True)",
            {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True},
            "2 4 True 0",
        ),
        (
            "Mine(data, 5, True, None, None, 2, timeout=9)",
            {"num_workers": 0, "prefetch_factor": None},
            "0 None False 0",
        ),
    ],
)
def test_the_named_loader_gets_the_arguments_and_delivers_the_same(tmp_path, make, override, expected):
    plain, _, _ = train(tmp_path, make, None)
    changed, loaders, run = train(tmp_path, make, {"created": 1, **override})
    assert changed == plain
    assert loaders[0].startswith("0 None False") and loaders[1] == expected
    facts = read_run(run).main.facts.loaders
    assert [(one.created, one.workers) for one in facts] == [(0, 0), (1, override["num_workers"])]
    assert [one.iterable for one in facts] == [False, False]


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"num_workers": 2}', '{"created": "x"}'])
def test_a_variable_that_is_not_ours_changes_nothing(text):
    assert read(text) is None


def test_only_arguments_that_change_nothing_of_the_data_are_taken():
    found = read('{"created": 3, "num_workers": 1, "batch_size": 99, "shuffle": true}')
    assert found is not None and found.created == 3 and found.arguments == {"num_workers": 1}
