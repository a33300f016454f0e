"""What the pipeline model can be asked about: one setting of loader, storage, RAM, cores and accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
from edgetrain.schema import StorageModel

COLD, WARM = "cold", "warm"  # page cache at the start: empty, or with as much of the dataset as it holds


@dataclass(frozen=True, slots=True)
class PipelineSetting:
    """One setting. Where the dataset or its medium is not known, no reads are modelled."""

    workers: int
    prefetch: int
    batch_size: int
    samples: int  # taken per epoch
    cores: float
    persistent: bool = True
    pin_memory: bool = False
    dataset: DatasetOnMedium | None = None
    medium: StorageModel | None = None
    cache_bytes: float | None = None  # for the page cache; None: the dataset fits
    threads: int = 1  # of a step on the CPU
    cpu_speed: float = 1.0  # of a core, relative to the recorded run's
    step_time: float = 1.0  # of a step on the accelerator, relative to the recorded run's
    step_deviation: float = 0.0  # of its logarithm, where it is predicted
    fixed_step_s: float | None = None  # duration of a paced step
    others: float = 0.0  # runnable threads of other programs, on average
    fetch_cpu: float = 1.0  # CPU time of the loader, relative to the recorded run's
    launch_cpu: float = 1.0  # CPU time of issuing a step, relative to the recorded run's
    never_evicts: bool = False  # a cache in the loader keeps what it holds, unlike the page cache
    epochs: int = 2  # of the training: a later one is their mean, where each takes another part of the dataset
    cache: str | None = None  # at the start: COLD or WARM; None: not asked for

    @property
    def later_epochs(self) -> int:
        """Epochs after the first, at least one."""
        return max(1, self.epochs - 1)

    @property
    def minibatches(self) -> int:
        """Minibatches per epoch."""
        return max(1, -(-self.samples // self.batch_size))

    @property
    def taken(self) -> float:
        """Part of the dataset that one epoch reads."""
        return 1.0 if self.dataset is None else min(1.0, self.samples / max(1, self.dataset.samples))

    def cached_share(self, in_flight_bytes: float = 0.0) -> float:
        """Part of the dataset that the page cache holds, beside minibatches in shared memory."""
        if self.cache_bytes is None or self.dataset is None:
            return 1.0
        return min(1.0, max(0.0, self.cache_bytes - in_flight_bytes) / max(1.0, self.dataset.cached_bytes))
