"""What a network takes is counted without taking it, and agrees with torch's own tensors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from edgetrain.errors import UsageError
from edgetrain.runner import count_memory
from edgetrain.schema import Origin
from edgetrain.workload import CATALOG, RequestError, memory
from edgetrain.workload.networks import build, example


@pytest.mark.parametrize("name", CATALOG)
def test_every_catalogued_network_can_be_counted(name):
    need = memory.count(name, 4)
    assert need.parameters_bytes == 4 * need.parameters == need.gradients_bytes == need.optimizer_bytes
    assert need.activations_bytes > 0
    assert need.tensors_bytes == sum(
        getattr(need, f"{part}_bytes")
        for part in ("parameters", "gradients", "optimizer", "buffers", "activations", "input")
    )


# A fused LSTM keeps a workspace that the plain one on the meta device does not have.
@pytest.mark.parametrize(("name", "within"), [("lenet5", 0), ("resnet18_cifar_gn", 0), ("lstm", 0.12)])
def test_the_count_on_the_meta_device_is_the_count_on_a_real_one(name, within):
    network = build(name)
    inputs, targets = example(name, 2)
    real = memory.kept_bytes(network, inputs, targets)
    assert memory.count(name, 2).activations_bytes == pytest.approx(real, rel=within)


def test_activations_grow_with_the_minibatch_and_the_rest_does_not():
    one, four = memory.count("resnet18_cifar_gn", 8), memory.count("resnet18_cifar_gn", 32)
    assert four.activations_bytes == pytest.approx(4 * one.activations_bytes, rel=0.01)
    assert (four.parameters_bytes, four.optimizer_bytes) == (one.parameters_bytes, one.optimizer_bytes)


@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        ("sgd", lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9)),
        ("adam", lambda parameters: torch.optim.Adam(parameters)),
        ("adamw", lambda parameters: torch.optim.AdamW(parameters)),
    ],
)
def test_optimizer_state_is_what_torch_keeps_after_a_step(optimizer, make):
    network = build("lenet5")
    real = make(network.parameters())
    inputs, targets = example("lenet5", 2)
    torch.nn.functional.cross_entropy(network(inputs), targets).backward()
    real.step()
    kept = sum(
        value.numel() * value.element_size()
        for state in real.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.numel() > 1  # step counters are a few bytes
    )
    assert memory.count("lenet5", 2, optimizer).optimizer_bytes == kept


def test_sgd_without_momentum_keeps_nothing():
    assert memory.count("lenet5", 2, momentum=0.0).optimizer_bytes == 0


@pytest.mark.parametrize(("name", "options"), [("mine:make", {}), ("lenet5", {"optimizer": "magic"})])
def test_what_cannot_be_counted_is_refused_with_what_to_do(name, options):
    with pytest.raises(RequestError):
        memory.count(name, 2, **options)
    with pytest.raises(UsageError):
        count_memory(name, 2, **options)


def test_the_runner_reads_the_count_as_a_memory_need():
    need = count_memory("lenet5", 4)
    assert need.origin is Origin.PREDICTED and need.tensors_bytes == memory.count("lenet5", 4).tensors_bytes


def test_the_counter_is_a_program_that_prints_one_document():
    done = subprocess.run(
        [sys.executable, "-m", "edgetrain.workload.memory", "vgg11", "--batch", "16"], capture_output=True, text=True
    )
    assert done.returncode == 0 and json.loads(done.stdout)["batch_size"] == 16
