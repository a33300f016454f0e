"""What training a network takes of the memory, part by part, and where the numbers are from."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema.origin import Origin


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that training needs on the accelerator, counted (`predicted`) or read off a run (`measured`).

    A run only reports the sum; its parts are None then.
    """

    network: str
    batch_size: int
    origin: Origin
    parameters: int | None  # how many
    tensors_bytes: int  # all of the below, or the measured peak of the allocator
    parameters_bytes: int | None = None
    gradients_bytes: int | None = None
    optimizer_bytes: int | None = None
    buffers_bytes: int | None = None  # running statistics and the like
    activations_bytes: int | None = None  # kept between forward and backward
    input_bytes: int | None = None
    dataset_bytes: int | None = None  # full size, for what the page cache could hold
    process_bytes: int | None = None  # measured resident memory of the training process, workers apart
