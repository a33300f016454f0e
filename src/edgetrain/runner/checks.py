"""Refuses an experiment that cannot be meant, before anything is started."""

from __future__ import annotations

from edgetrain.errors import UsageError
from edgetrain.schema import Experiment
from edgetrain.workload.catalog import entry, is_own

TIMINGS, COMPUTES, CACHES = ("async", "sync"), ("auto", "cuda", "cpu", "paced"), ("cold", "warm", "keep")


def check(experiment: Experiment) -> None:
    """Raise UsageError with the values and what would be right."""
    loading = experiment.loading
    for what, value, known in (
        ("timing", experiment.timing, TIMINGS),
        ("compute", experiment.compute, COMPUTES),
        ("cache", loading.cache, CACHES),
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
    ):
        if number is not None and not number >= least:
            raise UsageError(f"{what} must be at least {least}, not {number}")
    if experiment.compute == "paced" and experiment.preset is None and not (experiment.compute_ms or 0) > 0:
        raise UsageError("paced compute needs the time of a step in milliseconds: --compute paced --compute-ms 30")
    if not is_own(experiment.workload.network):
        entry(experiment.workload.network)
