"""One setting of everything we choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetrain.schema.device import PowerMode


@dataclass(frozen=True, slots=True)
class Workload:
    """Network, dataset and batch size, with the training recipe of the papers as default."""

    network: str  # a catalogued name, or module:function
    dataset: str | None = None  # folder; None: a generated one of the right shape
    dataset_scale: float = 1.0
    batch_size: int = 16
    learning_rate: float = 0.01
    momentum: float = 0.9
    optimizer: str = "sgd"
    classes: int | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    """Loader workers, prefetch depth, cache state."""

    workers: int = 2
    prefetch: int = 2
    pin_memory: bool = False
    persistent: bool = True
    start_method: str | None = None  # fork | spawn | forkserver; None: torch's default
    cache: str = "keep"  # cold | warm | keep


@dataclass(frozen=True, slots=True)
class Experiment:
    """One setting of everything we choose; running it gives a Run."""

    workload: Workload
    loading: Loading = field(default_factory=Loading)
    epochs: int = 2
    max_minibatches: int | None = None  # per epoch
    timing: str = "async"  # async | sync
    compute: str = "auto"  # auto | cuda | cpu | paced
    compute_ms: float | None = None  # paced only
    power_mode: PowerMode | None = None
    limits: Mapping[str, Any] | None = None  # lab limits, as asked
    preset: str | None = None
    shrink: float = 1.0
    seed: int = 0
    baseload_s: float = 0.0
    campaign: str | None = None
    factors: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 0
    position: int | None = None
