"""One setting of everything we choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgetrain.schema.device import PowerMode


@dataclass(frozen=True, slots=True)
class Workload:
    """Network, dataset and batch size, with the training recipe of the papers as default."""

    network: str  # a catalogued name, or module:function
    dataset: str | None = None  # folder; None: a generated one of the right shape
    dataset_scale: float = 1.0
    batch_size: int = 16  # 0: what your own workload says, else 16
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

    def document(self) -> dict[str, Any]:
        """Return it as plain values; `read_experiment` undoes this."""
        return asdict(self)


def read_experiment(document: Mapping[str, Any]) -> Experiment:
    """Read an experiment back; keys of a later version are left out."""

    def known(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name in kind.__dataclass_fields__}

    values = known(Experiment, document)
    values["workload"] = Workload(**known(Workload, document["workload"]))
    values["loading"] = Loading(**known(Loading, document.get("loading") or {}))
    if values.get("power_mode") is not None:
        values["power_mode"] = PowerMode(**known(PowerMode, values["power_mode"]))
    return Experiment(**values)
