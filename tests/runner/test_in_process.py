"""A training inside this process is recorded like a command: mode held, telemetry, minibatches where torch is used."""

import time

import pytest

from edgetrain.analysis import energy_between
from edgetrain.device import open_device
from edgetrain.record import FolderStore
from edgetrain.runner import record_call
from edgetrain.schema import Experiment, Origin, Workload


def experiment(mode=None):
    return Experiment(Workload("client", command=("client",)), power_mode=mode)


@pytest.fixture
def device(tmp_path):
    return f"sim:orin-nano@{tmp_path / 'board'}"


def test_a_call_is_recorded_with_its_telemetry_and_its_time(tmp_path, device):
    store = FolderStore(tmp_path / "store")
    call = record_call(lambda: time.sleep(1.0) or "weights", experiment(), device, store)
    assert call.result == "weights" and call.seconds == pytest.approx(1.0, abs=0.3)
    run = store.open(call.run)
    assert run.manifest.state == "finished" and run.manifest.origin is Origin.SIMULATED
    found, reason = energy_between(run, call.began_us, call.ended_us)
    assert found is not None and found.joules > 5.0, reason


def test_energy_outside_of_what_was_sampled_is_not_guessed(tmp_path, device):
    store = FolderStore(tmp_path / "store")
    call = record_call(lambda: time.sleep(0.5), experiment(), device, store)
    found, reason = energy_between(store.open(call.run), call.began_us, call.ended_us + 60_000_000)
    assert found is None and "do not cover the training" in reason


def test_two_trainings_of_one_process_are_two_records(tmp_path, device):
    torch = pytest.importorskip("torch")
    store = FolderStore(tmp_path / "store")
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))

    def train():
        network = torch.nn.Linear(8, 2)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        for x, y in torch.utils.data.DataLoader(data, batch_size=16):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()

    mode = open_device(device).modes().find_mode("15W")
    for _ in range(2):
        call = record_call(train, experiment(mode), device, store, like="resnet18_cifar_gn", minibatches=4)
        run = store.open(call.run)
        trained = [row for row in run.main.minibatches["steps"] if row]
        assert len(trained) == 4
        # The board's model takes 0.15 s per minibatch in this mode; the steps of a linear network take none.
        assert call.seconds > 4 * 0.14
        took_us = run.main.minibatches["done_us"] - run.main.minibatches["ready_us"]
        assert sorted(took_us[run.main.minibatches["steps"] > 0])[0] > 140_000


def test_an_error_is_raised_again_and_is_in_the_record(tmp_path, device):
    store = FolderStore(tmp_path / "store")

    def fail():
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        record_call(fail, experiment(), device, store)
    manifest = store.open("last").manifest
    assert manifest.state == "failed" and "no such file" in manifest.reason
