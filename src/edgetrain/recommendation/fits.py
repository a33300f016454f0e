"""Does a network fit into a board's memory, which GPU, CPU, operating system and page cache share?

The memory of the tensors is counted or measured (`schema.memory`). The rest cannot be counted and is assumed, from
logs of MobileNetV3 and ResNet-18 training on an Orin Nano (batch 16, 4 workers): the processes held 2,375 and
1,779 MiB on the GPU, 1,651 and 1,307 MiB more than their counted tensors. Two numbers explain both to 1 %: the
activations a second time, for gradients in flight and memory that the allocator keeps, and 982 MiB for CUDA and its
libraries. On an Orin AGX, which was not used to determine them, they come out 3 % below the log. In addition, the
host's side of training took 0.9 to 1.0 GiB with 4 workers. A verdict therefore has a margin, and every figure states
what it is based on.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema import MemoryNeed

MIB = 2**20
CUDA_BYTES = 982 * MIB  # CUDA context, cuDNN and cuBLAS, their workspaces
IN_FLIGHT = 1.0  # of the activations: gradients in flight, and memory that the caching allocator keeps
PROCESS_BYTES = 512 * MIB  # Python, torch and the training process itself
WORKER_BYTES = 120 * MIB  # each loader worker, beyond what it shares with its parent
OS_BYTES = 2048 * MIB  # Linux with its desktop, as logged on an Orin Nano with 8 GB
OS_SHARE = 0.25  # of a smaller board's RAM, where nobody runs a full desktop (assumed)
MARGIN = 0.15  # of what is assumed or counted: closer to the limit than this, only a trial can decide
LITTLE_CACHE_BYTES = 512 * MIB  # below this the page cache holds almost nothing of a dataset


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether training fits on one board, and what that is based on."""

    device: str
    verdict: str  # fits | fits, little cache | too close to call | does not fit
    usable_bytes: int  # what Linux has of the RAM
    usable_basis: str
    tensors_bytes: int
    tensors_origin: str
    framework_bytes: int  # CUDA, libraries, gradients in flight
    host_bytes: int  # the training process and its workers
    os_bytes: int
    needed_bytes: int
    margin_bytes: int
    left_bytes: int  # for the page cache; negative: missing
    cached_share: float | None  # of the full-size dataset that could stay in the page cache; None: not known
    assumptions: tuple[str, ...]


def judge(
    device: str,
    ram_bytes: int,
    usable_bytes: int,
    usable_basis: str,
    need: MemoryNeed,
    workers: int = 2,
    os_bytes: int | None = None,
) -> Fit:
    """Return whether a network's training fits into a board's RAM beside the operating system."""
    if workers < 0:
        raise ValueError(f"{workers} loader workers")
    given_os = os_bytes is not None
    system = os_bytes if os_bytes is not None else min(OS_BYTES, round(OS_SHARE * ram_bytes))
    # A measured peak already includes gradients in flight; what the allocator keeps beyond it is not known.
    in_flight = round(IN_FLIGHT * need.activations_bytes) if need.activations_bytes is not None else 0
    framework = CUDA_BYTES + in_flight
    process = need.process_bytes if need.process_bytes is not None else PROCESS_BYTES
    host = process + workers * WORKER_BYTES
    needed = need.tensors_bytes + framework + host + system
    margin = round(MARGIN * (need.tensors_bytes + framework + host))
    left = usable_bytes - needed
    if left < -margin:
        verdict = "does not fit"
    elif left < margin:
        verdict = "too close to call"
    elif left < LITTLE_CACHE_BYTES:
        verdict = "fits, little cache"
    else:
        verdict = "fits"
    share = None if not need.dataset_bytes else min(max(left, 0) / need.dataset_bytes, 1.0)
    return Fit(
        device=device,
        verdict=verdict,
        usable_bytes=usable_bytes,
        usable_basis=usable_basis,
        tensors_bytes=need.tensors_bytes,
        tensors_origin=need.origin.value,
        framework_bytes=framework,
        host_bytes=host,
        os_bytes=system,
        needed_bytes=needed,
        margin_bytes=margin,
        left_bytes=left,
        cached_share=share,
        assumptions=_assumptions(need, workers, given_os, system, in_flight),
    )


def _assumptions(need: MemoryNeed, workers: int, given_os: bool, system: int, in_flight: int) -> tuple[str, ...]:
    counted = "counted on torch's meta device" if need.parameters_bytes is not None else "peak of the recorded run"
    host = "as measured in the run" if need.process_bytes is not None else f"{PROCESS_BYTES / MIB:.0f} MiB"
    system_words = (
        f"{OS_BYTES / MIB:.0f} MiB, as logged on an Orin Nano with desktop, at most {OS_SHARE:.0%} of the RAM (assumed)"
    )
    if given_os:
        system_words = f"{system / MIB:.0f} MiB, as given"
    return (
        f"tensors: {counted} ({need.origin.value})",
        f"CUDA and its libraries: {CUDA_BYTES / MIB:.0f} MiB, from two logged trainings on an Orin Nano (replayed)",
        f"gradients in flight and allocator: {in_flight / MIB:.0f} MiB, {IN_FLIGHT:g} times the activations, same logs",
        f"training process {host}, {workers} workers of {WORKER_BYTES / MIB:.0f} MiB (assumed from the same logs)",
        f"operating system: {system_words}",
        f"margin: {MARGIN:.0%} of all but the operating system; swap is not counted",
    )
