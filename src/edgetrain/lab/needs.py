"""How much memory a training holds on a board, before the OOM killer says so.

Weights, gradients and momentum are exact (three times four bytes a parameter). Activations and the runtime are
estimates, for refusing what cannot work and for what is left to the page cache.
"""

from __future__ import annotations

from dataclasses import dataclass

_BYTES_PER_PARAMETER = 3 * 4  # weight, gradient, momentum of SGD
# Interpreter, torch and the CUDA context on a board. Assumed: no source of ours gives it; measure yours and say
# `page_cache` instead of `ram` where it matters.
RUNTIME_BYTES = 900_000_000


@dataclass(frozen=True, slots=True)
class Need:
    """Parameters as published, and float32 activations kept for the backward pass, per sample."""

    parameters: int
    activation_bytes: int


# Activations: what autograd keeps of our networks per sample at the papers' input size, counted by its own hooks.
NEEDS = {
    "lenet5": Need(61_706, 48_080),
    "mobilenet_v3": Need(5_483_032, 44_113_952),
    "resnet18": Need(11_689_512, 22_179_840),
    "resnet18_cifar_gn": Need(11_173_962, 4_705_280),
    "vgg11": Need(132_863_336, 1_191_936),
    "lstm": Need(7_332_078, 1_570_496),
}


def training_bytes(network: str, batch_size: int) -> int:
    """Return what training this network holds on a board; runtime alone for one we do not know."""
    need = NEEDS.get(network)
    if need is None:
        return RUNTIME_BYTES
    return RUNTIME_BYTES + need.parameters * _BYTES_PER_PARAMETER + need.activation_bytes * batch_size
