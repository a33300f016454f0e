"""Loader arguments set from outside reach the loader that was named, and nothing else changes.

Of the shapes of scripts, 3 are drawn by a seed; all run with EDGETRAIN_TORTURE=1.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgetrain.analysis import find_loops, slowest
from edgetrain.inside.overrides import Creations, place_of, read
from edgetrain.recommendation import find_target, training_loader
from edgetrain.record import Run, read_run
from edgetrain.runner import LoaderChange
from edgetrain.runner.command_trainee import hook_environment
from edgetrain.schema import LoaderArguments, LoaderTarget

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


# Scripts that make their training loader more than once, or at the same place as others. A loader that is trained from
# has batches of 4, one for evaluation of 5.
SHAPES = {
    "a new one for each epoch": """
        for epoch in range(4):
            train(DataLoader(data, 4, shuffle=True))
            evaluate(DataLoader(data, 5))
    """,
    "for training and evaluation by one function": """
        def make(batch_size):
            return DataLoader(data, batch_size)

        training, validation = make(4), make(5)
        for epoch in range(3):
            train(training)
            evaluate(validation)
    """,
    "by one function for each epoch": """
        def make(batch_size):
            return DataLoader(data, batch_size)

        for epoch in range(3):
            evaluate(make(5))
            train(make(4))
    """,
    "for each fold": """
        for fold in range(3):
            parts = torch.utils.data.random_split(data, [16, 4])
            training = DataLoader(parts[0], 4)
            validation = DataLoader(parts[1], 5)
            for epoch in range(2):
                train(training)
                evaluate(validation)
    """,
    "by one statement, again for each fold": """
        for fold in range(3):
            parts = torch.utils.data.random_split(data, [16, 4])
            loaders = [DataLoader(part, size) for part, size in zip(parts, (4, 5))]
            train(loaders[0])
            evaluate(loaders[1])
    """,
    "by one statement, once": """
        parts = torch.utils.data.random_split(data, [16, 4])
        loaders = [DataLoader(part, size) for part, size in zip(parts, (4, 5))]
        for epoch in range(3):
            train(loaders[0])
            evaluate(loaders[1])
    """,
    "by one statement, of the same datasets again": """
        parts = torch.utils.data.random_split(data, [16, 4])
        for epoch, order in enumerate([(0, 1), (0, 1, 1), (1, 0)]):
            for one in order:
                loader = DataLoader(parts[one], (4, 5)[one])
                (train, evaluate)[one](loader)
    """,
    "first here, then there": """
        def make():
            return DataLoader(data, 4)

        train(make())
        for epoch in range(3):
            train(make())
            evaluate(DataLoader(data, 5))
    """,
}
MADE_AGAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(40.0).reshape(20, 2))
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


def train(loader):
    net.train()
    for (x,) in loader:
        net(x).sum().backward()
        optimizer.step()


def evaluate(loader):
    net.eval()
    with torch.no_grad():
        for (x,) in loader:
            net(x)


if __name__ == "__main__":
"""


def recorded(folder: Path, script: Path, change: LoaderChange | None) -> Run:
    run = folder / f"run-{change is not None}"
    run.mkdir()
    environment = hook_environment(run, "async", dict(os.environ))
    if change is not None:
        environment["EDGETRAIN_LOADER"] = change.variable()
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return read_run(run)


SEED, SAMPLE = 16, 3
FULL = os.environ.get("EDGETRAIN_TORTURE") == "1"
DRAWN = list(SHAPES) if FULL else random.Random(SEED).sample(list(SHAPES), SAMPLE)


@pytest.mark.parametrize("shape", DRAWN)
def test_every_training_loader_gets_the_arguments_and_no_other_does_where_it_is_made(tmp_path, shape):
    script = tmp_path / "script.py"
    script.write_text(MADE_AGAIN + textwrap.indent(textwrap.dedent(SHAPES[shape]), "    "))
    before = recorded(tmp_path, script, None)
    loop = slowest(find_loops(before))
    target = find_target(loop, training_loader(before, loop))
    after = recorded(tmp_path, script, LoaderChange(target, LoaderArguments(1, 3, False, False)))
    found = {(one.batch_size, one.workers, one.prefetch_factor) for one in after.main.facts.loaders}
    assert found == {(4, 1, 3), (5, 0, None)}
    assert len(after.main.facts.loaders) == len(before.main.facts.loaders)


def test_a_loader_that_no_rule_tells_apart_is_known_by_its_order_of_creation():
    override = read('{"created": 2, "made_at": [], "num_workers": 1}')
    assert override is not None
    assert [number for number in range(4) if override.concerns(number, ("a",), number, 0)] == [2]


def here() -> tuple[str, ...]:
    return place_of(sys._getframe())


def test_a_place_is_the_same_each_time_and_another_where_a_function_is_called_from_elsewhere():
    places = [here() for _ in range(3)]
    elsewhere = here()
    assert places[0] == places[1] == places[2]
    assert elsewhere[0] == places[0][0] and elsewhere != places[0]


def test_datasets_are_numbered_in_the_order_in_which_loaders_are_made_of_them():
    class Data:
        pass

    creations, data = Creations(), [Data(), Data()]
    numbers = [creations.add(None, each)[3] for each in (data[0], data[1], data[0], [1, 2])]
    assert numbers == [0, 1, 0, None]
    assert creations.count == 4


def test_the_variable_of_a_change_is_read_back_by_the_hook():
    target = LoaderTarget(3, ("aa", "bb"), (0, 2), 5, (1, 4))
    override = read(LoaderChange(target, LoaderArguments(2, 4, True, False)).variable())
    assert override is not None
    assert (override.created, override.made_at, override.period) == (3, ("aa", "bb"), 5)
    assert (override.datasets, override.phases) == ({0, 2}, {1, 4})
    assert override.arguments["num_workers"] == 2
