"""How much memory a training takes on a board, so that too little RAM is refused before the OOM killer ends it.

Weights, gradients and momentum are exact (three times four bytes per parameter). Activations and the runtime are
estimates; what they leave is page cache.
"""

from __future__ import annotations

from dataclasses import dataclass

_BYTES_PER_PARAMETER = 3 * 4  # weight, gradient, momentum of SGD
# Interpreter, torch and the CUDA context on a board. Assumed: no source gives it; measure yours and set
# `page_cache` instead of `ram` where it matters.
RUNTIME_BYTES = 900_000_000


@dataclass(frozen=True, slots=True)
class NetworkNeed:
    """Parameters as published, and float32 activations kept for the backward pass, per sample."""

    parameters: int
    activation_bytes: int


# Activations: what autograd keeps per sample at the papers' input size, by its saved-tensor hooks.
NEEDS = {
    "lenet5": NetworkNeed(61_706, 48_080),
    "mobilenet_v3": NetworkNeed(5_483_032, 44_113_952),
    "resnet18": NetworkNeed(11_689_512, 22_179_840),
    "resnet18_cifar_gn": NetworkNeed(11_173_962, 4_705_280),
    "vgg11": NetworkNeed(132_863_336, 1_191_936),
    "lstm": NetworkNeed(7_332_078, 1_570_496),
}


def training_bytes(network: str, batch_size: int) -> int:
    """Return what training this network takes on a board; the runtime alone for an unknown network."""
    need = NEEDS.get(network)
    if need is None:
        return RUNTIME_BYTES
    return RUNTIME_BYTES + need.parameters * _BYTES_PER_PARAMETER + need.activation_bytes * batch_size
