"""A small characterisation of this machine: two networks, workers 0, 1 and 2, cold and warm, within a time budget.

How fast a step is here is found first, by a short run that is not part of the report; the number of minibatches follows
from it, the same for every run of a network, so that they can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from edgetrain.record import FolderStore
from edgetrain.runner.executor import execute
from edgetrain.runner.recording import Progress
from edgetrain.schema import Experiment, Loading, Workload

WORKERS: tuple[int, ...] = (0, 1, 2)
CACHES: tuple[str, ...] = ("cold", "warm")
START_S = 4.0  # of a run before its first minibatch: torch's import, sampler, cache; measured on 2 cores


@dataclass(frozen=True, slots=True)
class Subject:
    """One network of the characterisation."""

    network: str
    samples_scale: float  # of its generated dataset
    try_minibatches: int  # of the run that finds the pace
    least: int  # minibatches of a run
    most: int  # of a run: all of the dataset
    share: float  # of the time budget


SUBJECTS: tuple[Subject, ...] = (
    Subject("lenet5", 16_000 / 60_000, 100, 100, 1000, 0.3),
    Subject("mobilenet_v3", 320 / 23_080, 3, 4, 20, 0.7),
)


def plan_characterisation(
    subject: Subject,
    minibatches: int,
    campaign: str,
    workers_tried: Sequence[int] = WORKERS,
    caches_tried: Sequence[str] = CACHES,
) -> Iterator[Experiment]:
    """Return the experiments of one network, in the order they are run."""
    settings = [(workers, cache) for workers in workers_tried for cache in caches_tried]
    for position, (workers, cache) in enumerate(settings):
        yield Experiment(
            Workload(subject.network, dataset_scale=subject.samples_scale),
            Loading(workers=workers, cache=cache),
            epochs=1,
            minibatches=minibatches,
            campaign=campaign,
            factors={"network": subject.network, "workers": workers, "cache": cache},
            position=position,
        )


def affordable(subject: Subject, step_s: float, budget_s: float, runs: int = len(WORKERS) * len(CACHES)) -> int:
    """Return how many minibatches each run of a network may have."""
    left_s = budget_s * subject.share - (runs + 1) * START_S
    return max(subject.least, min(subject.most, int(left_s / runs / max(step_s, 1e-6))))


def pace_s(subject: Subject, store: FolderStore, progress: Progress) -> float:
    """Return the seconds that a minibatch takes on this machine, waiting for data included, from a short run."""
    experiment = next(plan_characterisation(subject, subject.try_minibatches, "quickstart-pace"))
    experiment = replace(experiment, loading=Loading(workers=0), epochs=1, factors={})
    minibatches = store.open(execute(experiment, "auto", store, progress).run, light=True).minibatches()
    asked, done = minibatches["asked_us"], minibatches["done_us"]
    # The first minibatch also loads kernels and code.
    first = 1 if len(asked) > 1 else 0
    return float(done.max() - asked[first]) / 1e6 / (len(asked) - first)


def name_campaign() -> str:
    """Return a name for the runs of one characterisation."""
    return "quickstart-" + time.strftime("%Y%m%d-%H%M%S", time.gmtime())
