"""Reads one trial's record: which loaders trained, with which arguments, and how long a minibatch took once steady."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import OTHER_THREAD, TrainingLoop, find_loops, loader_minibatches, slowest, summarize
from edgetrain.analysis import training_loader as find_loader
from edgetrain.errors import TrialError
from edgetrain.record import LoaderFacts, Run
from edgetrain.schema import Doubt, LoaderArguments, LoaderMeasurement, RamUse
from edgetrain.units import S_PER_US

BLOCK = 8  # minibatches per block of the bootstrap: neighbours are not independent
FEWEST = 8  # steady minibatches without which nothing is said
EXPECTED = ("killed",)  # doubts that every trial has: it is ended by SIGKILL


@dataclass(frozen=True, slots=True)
class TrialTimes:
    """Blocks of steady minibatches, and what the starts of passes add to each minibatch."""

    block_s: tuple[float, ...]
    pass_s: float
    passes: int
    minibatches: int
    stall_share: float | None


def measure_trial(run: Run, warm_up: int, ram: RamUse | None) -> LoaderMeasurement:
    """Return what a trial measured; TrialError says what it lacked."""
    loop = slowest(find_loops(run))
    loader = training_loader(run, loop)
    times = trial_times(loop, warm_up, loader.length)
    summary = summarize(run)
    behind = [one for one, _ in loader_minibatches(loop, warm_up)]
    return LoaderMeasurement(
        arguments=arguments_of(loader),
        block_s=times.block_s,
        pass_s=times.pass_s,
        passes=times.passes,
        minibatches=times.minibatches,
        stall_share=times.stall_share,
        read_bytes_per_s=steady_reads(loop, warm_up),
        ram=ram,
        power_w=summary.power_w.mean,
        origin=summary.origin,
        uses_gpu=loop.process.facts.gpu is not None or (summary.compute is not None and summary.compute.kind == "cuda"),
        iterable=bool(loader.iterable),
        run=run.id,
        behind=tuple(dict.fromkeys(map(arguments_of, behind))),
        processes=max(1, len(run.training)),
        doubts=tuple(doubt for doubt in summary.doubts if not _is_of_the_kill(doubt, run)),
        made_anew=sum(bool(one.made_at) and one.made_at == loader.made_at for one in behind) > 1,
    )


def _is_of_the_kill(doubt: Doubt, run: Run) -> bool:
    """Whether a doubt only says that the trial was killed: rows that were not written yet are counted and missing."""
    if doubt.kind in EXPECTED:
        return True
    killed = any(process.facts.ended is False for process in run.processes)
    return doubt.kind == "lost" and killed and doubt.text not in run.lost


def steady_reads(loop: TrainingLoop, warm_up: int) -> float | None:
    """Return the bytes per second that fetches read from storage after warm-up; None where they were not counted.

    The first fetches also read the libraries that they load: not what the next trial would read again.
    """
    workers, parts = loop.process.workers, loop.parts
    read, fetched_us = workers.get("read_bytes"), workers.get("fetched_us")
    if read is None or fetched_us is None or not np.any(read >= 0) or len(parts) <= warm_up:
        return None
    begin_us, end_us = int(parts.begin_us[warm_up]), int(parts.done_us[-1])
    counted = (fetched_us >= begin_us) & (fetched_us <= end_us) & (read > 0)
    return float(read[counted].sum()) / ((end_us - begin_us) * S_PER_US) if end_us > begin_us else None


def training_loader(run: Run, loop: TrainingLoop) -> LoaderFacts:
    """Return the torch DataLoader that most of the trained minibatches came from; TrialError where there is none."""
    if not len(loop.process.minibatches) or not len(loop.parts):
        raise TrialError("no step of a training loop was seen", kind="no_steps")
    found = find_loader(loop)
    if found is None and any(doubt.kind == OTHER_THREAD for doubt in loop.turns.doubts):
        raise TrialError(
            "the loop takes its minibatches from another thread, which iterates the loader: how long it waits for "
            "data cannot be seen; iterate the DataLoader in the training loop itself",
            kind="other_thread",
        )
    if found is None:
        raise TrialError("the training loop uses no torch DataLoader", kind="no_loader")
    if found.workers is None:
        raise TrialError("the training loop's loader is not a torch DataLoader", kind="no_loader")
    return found


def arguments_of(loader: LoaderFacts) -> LoaderArguments:
    """Return a loader's arguments as its record has them."""
    workers = loader.workers or 0
    return LoaderArguments(
        workers,
        (loader.prefetch_factor or 2) if workers else None,
        bool(loader.pin_memory),
        bool(loader.persistent_workers) and workers > 0,
    )


def trial_times(loop: TrainingLoop, warm_up: int, length: int | None) -> TrialTimes:
    """Return the steady times of a loop.

    The first minibatch of a pass also waits for the workers to start and the first fetch; it recurs once per pass, so
    what it adds is divided by the minibatches of a pass (`length`). The first pass of the trial is warm-up in that.
    """
    parts = loop.parts
    e2e_s, first = parts.e2e_s[warm_up:], parts.first[warm_up:]
    usual: NDArray[np.float64] = e2e_s[~first]
    if len(usual) < FEWEST:
        raise TrialError(
            f"the trial had {len(e2e_s)} minibatches after {warm_up} of warm-up, and at least {FEWEST} are needed",
            kind="too_short",
        )
    starts = e2e_s[first]
    pass_s = 0.0
    if len(starts):
        per_pass = length or max(1.0, len(e2e_s) / len(starts))
        pass_s = max(0.0, float(starts.mean() - usual.mean())) / per_pass
    count = max(1, len(usual) // BLOCK)
    blocks = tuple(float(block.mean()) for block in np.array_split(usual, count))
    fetched = parts.fetched is None or bool(parts.fetched.any())
    stall_s = float(parts.stall_s[warm_up:].sum())
    total_s = float(e2e_s.sum())
    share = stall_s / total_s if fetched and total_s > 0 else None
    return TrialTimes(blocks, pass_s, len(starts), len(e2e_s), share)
