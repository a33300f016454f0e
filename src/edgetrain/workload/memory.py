"""Counts the memory that training a network takes: parameters, gradients, optimizer state, buffers, activations.

    python -m edgetrain.workload.memory mobilenet_v3 --batch 16          (torch 2.0 or later)

The network is built on torch's meta device, where tensors have shapes and no memory, so a network that would not fit
here can be counted. Activations are what autograd really keeps for the backward pass, each storage once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from dataclasses import dataclass
from typing import Sequence

import torch
from torch import nn

from edgetrain.workload.catalog import entry, is_own
from edgetrain.workload.errors import RequestError
from edgetrain.workload.networks import build, example

# Copies of the parameters that an optimizer keeps beside them (a test checks each against torch's own).
STATE_COPIES = {"sgd": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class MemoryCount:
    """Bytes on the accelerator, part by part; the keys are those of `edgetrain.schema.MemoryNeed`."""

    network: str
    batch_size: int
    origin: str
    parameters: int
    tensors_bytes: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    buffers_bytes: int
    activations_bytes: int
    input_bytes: int
    dataset_bytes: int | None


def count(
    name: str, batch_size: int, optimizer: str = "sgd", momentum: float = 0.9, classes: int | None = None
) -> MemoryCount:
    """Count a catalogued network on the meta device."""
    if is_own(name):
        raise RequestError(
            f"{name} is your own network: run it once (edgetrain run {name}) and give the name of that run instead"
        )
    if batch_size < 1:
        raise RequestError(f"a minibatch holds at least one sample, not {batch_size}")
    if optimizer not in STATE_COPIES:
        raise RequestError(f"no optimizer is called {optimizer!r}; known: {', '.join(STATE_COPIES)}")
    known = entry(name)
    with torch.device("meta"):
        network = build(known.name, classes)
        inputs, targets = example(known.name, batch_size, classes)
        activations = kept_bytes(network, inputs, targets)
    trained = sum(_bytes(each) for each in network.parameters() if each.requires_grad)
    state = 0 if optimizer == "sgd" and momentum == 0 else STATE_COPIES[optimizer] * trained
    parts = {
        "parameters_bytes": sum(_bytes(each) for each in network.parameters()),
        "gradients_bytes": trained,
        "optimizer_bytes": state,
        "buffers_bytes": sum(_bytes(each) for each in network.buffers()),
        "activations_bytes": activations,
        "input_bytes": _bytes(inputs) + _bytes(targets),
    }
    dataset = known.samples * known.file_bytes if known.file_bytes else None
    return MemoryCount(
        network=known.name,
        batch_size=batch_size,
        origin="predicted",
        parameters=sum(each.numel() for each in network.parameters()),
        tensors_bytes=sum(parts.values()),
        dataset_bytes=dataset,
        **parts,
    )


def kept_bytes(network: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> int:
    """Return the bytes autograd keeps between forward and backward; parameters, buffers and input are not counted."""
    own = {_storage(each) for each in (*network.parameters(), *network.buffers(), inputs, targets)}
    kept: dict[int, torch.UntypedStorage] = {}  # storages are held, so that none is freed and its address used again

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if _storage(tensor) not in own:
            kept[_storage(tensor)] = tensor.untyped_storage()
        return tensor

    network.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = nn.functional.cross_entropy(network(inputs), targets)
    del loss
    return sum(int(storage.nbytes()) for storage in kept.values())


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def main(argv: Sequence[str]) -> int:
    """Print the count as one JSON document."""
    parser = argparse.ArgumentParser(prog="edgetrain.workload.memory")
    parser.add_argument("network")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--classes", type=int)
    asked = parser.parse_args(argv)
    try:
        need = count(asked.network, asked.batch, asked.optimizer, asked.momentum, asked.classes)
    except RequestError as error:
        print(f"edgetrain: {error}", file=sys.stderr)
        return error.exit_status
    print(json.dumps(dataclasses.asdict(need)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
