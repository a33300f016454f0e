"""Remedies that may apply to a recorded training: each a changed setting, in words, with what it costs or risks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from edgetrain.prediction import RECORDED_MEDIUM, ChangeFacts, PipelineSetting, StepKind, WhatIfModel, in_mode
from edgetrain.schema import Scalar
from edgetrain.units import spell_bytes

FASTER_DECODE = 2.0  # the assumed gain of smaller pictures or a faster decoder
FASTER_LAUNCH = 2.0  # the assumed gain of a compiled step
OTHERS_WORTH = 0.1  # runnable threads of other programs: below, stopping them gains nothing
READ_AGAIN = 0.05  # of the samples, read in later epochs: above, more page cache helps
FASTEST_MEDIUM = "ssd"
AS_FAST = ("nvme", "ssd", "ram")  # media of a machine, as its record names them
NAMED = {"emmc": "emmc", "sd": "sd", "hdd": "hdd", "network": "network storage"}  # likewise
MAX_WORKERS = 16
SHORT_STEP_S = 10e-3  # of a step on the CPU: below, waking threads can cost more than they save
# A short step with one thread instead of several takes this part of its time, at best and at worst (assumed: LeNet, 5
# to 6.5 ms with two threads, took 2.1 to 2.6 ms with one).
ONE_THREAD = (0.4, 1.1)
NOT_COPIED = ("simulated", "cpu")  # kinds of compute to which no minibatch is copied by this machine


@dataclass(frozen=True, slots=True)
class RemedyIdea:
    """One remedy to predict. Of several of one kind, in the order of their cost, the best is shown."""

    kind: str
    change: str
    cost: str
    setting: PipelineSetting
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    step_times: tuple[float, float] | None = None  # the step's, at best and at worst: assumed, the model cannot say


def ideas_for(
    model: WhatIfModel, facts: ChangeFacts, compute_bound: bool, stream: bool = False
) -> Iterator[RemedyIdea]:
    """Return the remedies that differ from the recorded setting; of a `stream` every worker has a copy."""
    yield from _loader_ideas(model, stream)
    yield from _storage_ideas(model, facts)
    yield from _compute_ideas(model, facts, compute_bound)
    base = model.predictor.setting
    if base.others > OTHERS_WORTH:
        yield RemedyIdea(
            "others",
            f"stop other programs (they used {base.others:.1f} of {base.cores:g} cores)",
            "none for the training",
            replace(base, others=0.0),
        )


def _loader_ideas(model: WhatIfModel, stream: bool) -> Iterator[RemedyIdea]:
    base = model.predictor.setting
    cores, costs = int(base.cores), model.predictor.pipeline.costs
    by_worker = costs.made_by(1, base.threads)
    wait_s, cpu_s = float(by_worker.fetch_wait_s.mean()), float(by_worker.fetch_cpu_s.mean())
    waits = wait_s > cpu_s
    most = MAX_WORKERS if waits else _most_workers(model, wait_s, cpu_s)
    if stream and base.workers < 2:
        most = 1  # a second worker would deliver every sample again
    for workers in sorted({0, 1, 2, 3, 4, 6, 8, 12, MAX_WORKERS, cores - 1, cores, 2 * cores} - {base.workers}):
        if not 0 <= workers <= most:
            continue
        cost = "memory for each worker" if workers > base.workers else "none"
        if waits and workers > base.workers:
            cost += "; no gain where all wait for the same lock or a busy server"
        if stream and workers > base.workers > 1:
            cost += "; the stream must be sharded between workers, or samples are delivered several times"
        yield RemedyIdea(
            "workers", f"num_workers={workers}", cost, replace(base, workers=workers), {"workers": workers}
        )
    if base.workers:
        prefetch = base.prefetch * 2
        yield RemedyIdea(
            "prefetch",
            f"prefetch_factor={prefetch}",
            f"memory for {base.workers * base.prefetch} more minibatches",
            replace(base, prefetch=prefetch),
            {"prefetch": prefetch},
        )
    if base.workers and not base.persistent:
        yield RemedyIdea(
            "persistent",
            "persistent_workers=True",
            "workers keep their memory between epochs",
            replace(base, persistent=True),
            {"persistent": True},
        )
    if costs.fetch_cpu_s.mean() > 0:
        fetch = replace(base, fetch_cpu=1.0 / FASTER_DECODE)
        yield RemedyIdea(
            "decode",
            f"pre-processing {FASTER_DECODE:g} times as fast (smaller images, a faster decoder)",
            "the samples change unless only the decoder does",
            fetch,
        )


def _most_workers(model: WhatIfModel, wait_s: float, cpu_s: float) -> int:
    """Return how many workers the cores can keep busy: those that compute need a core each, those that wait do not."""
    base = model.predictor.setting
    busy = base.cores * (1.0 + wait_s / cpu_s) if cpu_s > 0 else base.cores
    if base.medium is not None and model.base.later.read_share > READ_AGAIN:
        busy = max(busy, 2 * base.cores)  # some wait for the medium
    return max(1, min(round(busy), MAX_WORKERS))


def kept_workers(model: WhatIfModel, workers: int) -> RemedyIdea | None:
    """Return this many workers that are kept between epochs; None where a plain number of workers keeps them already.

    A script without workers says nothing about keeping them, and torch starts them again in every epoch.
    """
    base = model.predictor.setting
    if base.workers or base.persistent or not workers:
        return None
    return RemedyIdea(
        "persistent",
        f"num_workers={workers}, persistent_workers=True",
        "memory for each worker, also between epochs",
        replace(base, workers=workers, persistent=True),
        {"workers": workers, "persistent": True},
    )


def _storage_ideas(model: WhatIfModel, facts: ChangeFacts) -> Iterator[RemedyIdea]:
    base = model.predictor.setting
    if base.dataset is None:
        return
    fastest = facts.media.get(FASTEST_MEDIUM)
    if base.medium is not None and fastest is not None:
        # A medium that is known from its reads is the machine's own: another cannot be tried here.
        emulated, lies_on = base.medium.name != RECORDED_MEDIUM, model.summary.workload.medium or ""
        now = base.medium.name if emulated else NAMED.get(lies_on, "the present medium")
        if (base.medium.name if emulated else lies_on) not in AS_FAST:
            yield RemedyIdea(
                "storage",
                f"the dataset on {FASTEST_MEDIUM} instead of {now}",
                "a faster medium",
                replace(base, medium=fastest),
                {"storage": FASTEST_MEDIUM} if emulated else {},
            )
    if base.medium is not None and base.cached_share() < 1.0 and model.base.later.read_share > READ_AGAIN:
        size = spell_bytes(base.dataset.cached_bytes)
        yield RemedyIdea(
            "ram", f"RAM for the whole dataset ({size} of page cache)", "more RAM", replace(base, cache_bytes=None)
        )
        yield RemedyIdea(
            "cached",
            "edgetrain.cached(dataset): a loader cache in the same RAM that does not evict",
            "one line of the script",
            replace(base, never_evicts=True),
        )


def _compute_ideas(model: WhatIfModel, facts: ChangeFacts, compute_bound: bool) -> Iterator[RemedyIdea]:
    base, costs = model.predictor.setting, model.predictor.pipeline.costs
    kind = costs.step.kind
    if kind is not StepKind.PACED:
        larger = base.batch_size * 2
        # How a step that computes follows the batch size must be measured; issuing it costs the same for any.
        known = "batch size" not in costs.assumed or not compute_bound or costs.step.launch_bound
        if larger <= base.samples // 4 and known:
            yield RemedyIdea(
                "batch size",
                f"batch_size={larger}",
                "more memory; the training may converge differently",
                replace(base, batch_size=larger),
                {"batch_size": larger},
            )
    if costs.step.launch_bound:
        yield RemedyIdea(
            "launch",
            f"kernels issued {FASTER_LAUNCH:g} times as fast (torch.compile, CUDA graphs, fewer small operations)",
            "compiling takes time at the start; shapes must stay the same",
            replace(base, launch_cpu=1.0 / FASTER_LAUNCH),
        )
    if kind is StepKind.CPU:
        yield from _thread_ideas(model)
    computed_by = model.summary.compute.kind if model.summary.compute else None
    if kind is StepKind.ACCELERATOR and computed_by not in NOT_COPIED and not base.pin_memory:
        yield RemedyIdea(
            "pin memory",
            "pin_memory=True and copies with non_blocking=True",
            "page-locked memory",
            replace(base, pin_memory=True),
            {"pin_memory": True},
        )
    if facts.mode is not None:
        mode = facts.mode
        yield RemedyIdea(
            "power mode",
            mode.note or "a faster power mode",
            f"{100 * (mode.power - 1):+.0f} % power",
            in_mode(base, mode, model.predictor.base.most_cores),
        )


def _thread_ideas(model: WhatIfModel) -> Iterator[RemedyIdea]:
    """Return fewer threads for a short step on the CPU, more for a long one."""
    base, cores = model.predictor.setting, int(model.predictor.setting.cores)
    if float(np.median(model.predictor.pipeline.costs.step.step_s)) < SHORT_STEP_S:
        if base.threads > 1:
            yield RemedyIdea(
                "threads",
                "torch.set_num_threads(1): one thread for the step",
                "slower where the operations of a step are large; try it",
                replace(base, threads=1),
                step_times=ONE_THREAD,
            )
    elif base.threads < cores and base.workers + base.threads < cores + 1:
        yield RemedyIdea(
            "threads",
            f"{cores} threads for the step (torch.set_num_threads)",
            "slower where each step is short",
            replace(base, threads=cores),
        )
