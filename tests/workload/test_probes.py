"""Measurements after a training: the hand-over, and other batch sizes."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from edgetrain.workload.job import TrainingJob
from edgetrain.workload.probes import bytes_of, measure_batch_sizes, measure_hand_over
from edgetrain.workload.training import PreparedTraining


class Slow(Dataset):
    """Samples that take a millisecond of CPU time each."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        return torch.zeros(3, 8, 8), index % 4


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(3)])


def job(**settings):
    return TrainingJob(run="/nowhere", network="made:up", epochs=1, **{"compute": "cpu", **settings})


def prepared(dataset, batch_size=8):
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    return PreparedTraining(
        network=network,
        loader=DataLoader(dataset, batch_size=batch_size),
        step=lambda network, batch: nn.functional.cross_entropy(network(batch[0]), batch[1]),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        batch_size=batch_size,
        samples=256,
        minibatches=32,
        classes=4,
        dataset_path=None,
    )


def test_the_hand_over_is_measured_without_the_cost_of_making_samples():
    found = measure_hand_over(job(), prepared(Slow()))
    assert found is not None
    assert found.minibatch_bytes == 8 * (3 * 8 * 8 * 4 + 8)
    assert found.minibatches >= 4
    assert 0 < found.receive_cpu_s <= found.receive_s < 0.05
    assert found.release_s >= 0


def test_half_the_same_and_double_the_batch_size_are_measured():
    found = measure_batch_sizes(job(), prepared(Slow()))
    assert [each.batch_size for each in found] == [4, 8, 16]
    assert found[2].fetch_cpu_s == pytest.approx(4 * found[0].fetch_cpu_s, rel=0.3)
    assert all(each.step_s and each.step_s > 0 for each in found)


def test_a_paced_step_is_not_measured():
    found = measure_batch_sizes(job(compute="paced", compute_ms=1), prepared(Slow()))
    assert all(each.step_s is None for each in found)


def test_a_batch_larger_than_the_dataset_is_left_out():
    found = measure_batch_sizes(job(compute="paced", compute_ms=1), prepared(Slow(), 200))
    assert [each.batch_size for each in found] == [100, 200]


def test_a_stream_is_not_probed():
    training = prepared(Stream())
    assert measure_hand_over(job(), training) is None
    assert measure_batch_sizes(job(), training) == []


def test_bytes_are_those_of_all_tensors():
    batch = {"a": torch.zeros(4, dtype=torch.float32), "b": [torch.zeros(2, dtype=torch.int64), "text"]}
    assert bytes_of(batch) == 16 + 16
