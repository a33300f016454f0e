"""Refuses an experiment that cannot be meant, before anything is started."""

from __future__ import annotations

import math

from edgetrain.errors import UsageError
from edgetrain.schema import Experiment
from edgetrain.workload.catalog import entry, is_own

TIMINGS, COMPUTES, CACHES = ("async", "sync"), ("auto", "cuda", "cpu", "paced"), ("cold", "warm", "keep")
OPTIMIZERS = ("sgd", "adam", "adamw")


def check(experiment: Experiment, simulated: bool = False) -> None:
    """Raise UsageError with the values and what would be right; a simulated board knows its own networks."""
    loading = experiment.loading
    for what, value, known in (
        ("timing", experiment.timing, TIMINGS),
        ("compute", experiment.compute, COMPUTES),
        ("cache", loading.cache, CACHES),
        ("optimizer", experiment.workload.optimizer, OPTIMIZERS),
        ("start method", loading.start_method, (None, "fork", "spawn", "forkserver")),
    ):
        if value not in known:
            raise UsageError(
                f"{what} cannot be {value!r}; it is one of {', '.join(str(name) for name in known if name)}"
            )
    for what, number, least in (
        ("--workers", loading.workers, 0),
        ("--prefetch", loading.prefetch, 1),
        ("--epochs", experiment.epochs, 1),
        ("--batch-size", experiment.workload.batch_size, 0),
        ("--minibatches", experiment.max_minibatches, 1),
        ("--baseload-s", experiment.baseload_s, 0),
        ("--classes", experiment.workload.classes, 1),
        ("--lr", experiment.workload.learning_rate, 0),
        ("--momentum", experiment.workload.momentum, 0),
        ("--seed", experiment.seed, 0),
    ):
        if number is not None and not (number >= least and math.isfinite(number)):
            raise UsageError(f"{what} must be at least {least}, not {number}")
    paced_ms = experiment.compute_ms or 0
    if experiment.compute == "paced" and experiment.preset is None and not 0 < paced_ms < math.inf:
        raise UsageError("paced compute needs the time of a step in milliseconds: --compute paced --compute-ms 30")
    network = experiment.workload.network
    if simulated:
        return
    if not is_own(network):
        entry(network)
    elif not all(part.isidentifier() for part in network.replace(":", ".").split(".")):
        raise UsageError(f"{network!r} names no function; write module:function, for example train:make_workload")
