"""Makes summaries and tables by hand, for tests of what is built on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgetrain.analysis import EpochSummary, MinibatchTimes, OwnCost, PowerSummary, Summary
from edgetrain.analysis.steady import Steady
from edgetrain.record import ArrayTable, DeviceFacts, LoadingFacts, Table, WorkloadFacts
from edgetrain.schema import Origin, Scalar


def make_epoch(number: int = 0, e2e_s: float = 10.0, stall_s: float | None = 4.0, **more: Any) -> EpochSummary:
    """Return one epoch; compute is what end-to-end time and stall leave, unless given."""
    known: dict[str, Any] = {
        "epoch": number,
        "minibatches": 60,
        "e2e_s": e2e_s,
        "fetch_stall_s": stall_s,
        "hidden_wait_s": None if stall_s is None else 0.0,
        "fill_s": None if stall_s is None else 0.1,
        "copy_s": None,
        "compute_s": e2e_s - (stall_s or 0.0),
        "overhead_s": 0.0,
        "stall_by": None,
        "read_bytes": None,
        "cached_share_before": None,
        "cached_share_after": None,
        "energy_j": None,
        "energy_pm_j": None,
        "baseload_j": None,
        "loss": None,
        "begin_us": round(number * e2e_s * 1e6),
        "end_us": round((number + 1) * e2e_s * 1e6),
    }
    return EpochSummary(**(known | more))


def make_summary(*epochs: EpochSummary, factors: Mapping[str, Scalar] | None = None, **more: Any) -> Summary:
    """Return a summary of a run with these epochs; whatever is not given was not measured."""
    known: dict[str, Any] = {
        "run": "r",
        "state": "finished",
        "reason": None,
        "origin": Origin.EMULATED,
        "workload": WorkloadFacts(network="lenet5", batch_size=16),
        "loading": LoadingFacts(workers=2, cache="keep"),
        "timing": "async",
        "compute": None,
        "device": DeviceFacts(name="host"),
        "limits": None,
        "power_mode": None,
        "campaign": None,
        "factors": dict(factors or {}),
        "imported": None,
        "loaders": (),
        "overhead_pct": None,
        "overhead": OwnCost(),
        "minibatch": MinibatchTimes(),
        "power_w": PowerSummary(),
        "temp_c": None,
        "baseload_w": None,
        "power_scope": None,
        "energy_method": None,
        "energy_reason": "this device has no power sensor that can be read",
        "energy_by": None,
        "energy_by_reason": None,
        "steady": Steady(0, 0, "all"),
        "samples_per_s": None,
        "parameters": None,
        "peak_rss_bytes": None,
        "peak_gpu_bytes": None,
        "evaluation": None,
        "epochs": tuple(epochs),
        "doubts": (),
    }
    return Summary(**(known | more))


def renumbered(epochs: Sequence[EpochSummary]) -> tuple[EpochSummary, ...]:
    """Return epochs numbered in order."""
    return tuple(replace(epoch, epoch=number) for number, epoch in enumerate(epochs))


def with_columns(table: Table, **columns: Any) -> ArrayTable:
    """Return a table with some columns replaced or added."""
    return ArrayTable({**dict(table.items()), **{name: np.asarray(values) for name, values in columns.items()}})
