"""What a plan will take: from the tables before anything ran, then from what has run."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping, Sequence

from edgetrain.device import load_catalogue
from edgetrain.errors import EdgetrainError
from edgetrain.lab import IMAGE_BYTES, as_board, limits_for, preset
from edgetrain.runner.plan import Planned
from edgetrain.runner.workloads import survey_dataset
from edgetrain.schema import DEFAULT_BATCH_SIZE, Experiment, PlanCost
from edgetrain.workload import CATALOG, is_own

# Starting the training process, importing torch, cooling the cache and closing the record.
STARTING_S = 7.0
# Decoding one photograph on a core of a plain machine, where nothing better is known.
IMAGE_S = 0.006


def expected_s(experiment: Experiment, planned_samples: Mapping[str, int] | None = None) -> float | None:
    """Return how long a run should take by the tables; None where they do not know its step.

    `planned_samples` has the sizes of datasets that are not made yet, by folder.
    """
    if experiment.workload.command is not None or is_own(experiment.workload.network):
        return None
    try:
        # Nothing is measured for a cost: the slower cores are in the preset's time per image.
        experiment = as_board(experiment, image_s=lambda width, height: None)
        limits = limits_for(experiment)
    except EdgetrainError:
        return None
    if experiment.compute != "paced" or experiment.compute_ms is None:
        return None
    known = CATALOG.get(experiment.workload.network)
    if known is None:
        return None
    batch = experiment.workload.batch_size or DEFAULT_BATCH_SIZE
    samples = known.samples * experiment.workload.dataset_scale
    if experiment.workload.dataset is not None:
        dataset = experiment.workload.dataset
        found = (planned_samples or {}).get(dataset) or _samples(dataset, known.name)
        if found is None:
            return None
        samples = found
    minibatches = samples / batch
    minibatches = min(minibatches, experiment.minibatches or minibatches)
    file_bytes = known.file_bytes
    prepare_s = 0.0
    if file_bytes:
        prepare_s = IMAGE_S
        if experiment.preset:
            prepare_s = (preset(experiment.preset).image_s or IMAGE_S) / limits.speed
    read_s = limits.medium.cost_s(file_bytes or IMAGE_BYTES) if limits.medium and file_bytes else 0.0
    cache = limits.cache_bytes
    fits = cache is None or not file_bytes or cache >= file_bytes * minibatches * batch
    step_s = experiment.compute_ms / 1e3
    total_s = STARTING_S
    for epoch in range(experiment.epochs):
        cold = epoch == 0 and experiment.loading.cache == "cold"
        fetch_s = batch * (prepare_s + (read_s if cold or not fits else 0.0))
        workers = experiment.loading.workers
        medium_s = batch * read_s if cold or not fits else 0.0
        total_s += minibatches * (step_s + fetch_s if workers == 0 else max(step_s, fetch_s / workers, medium_s))
    return total_s


@functools.lru_cache(maxsize=64)
def _samples(dataset: str, network: str) -> int | None:
    try:
        return survey_dataset(dataset, CATALOG[network]).samples
    except (EdgetrainError, OSError):
        return None


def cost_of(
    left: Sequence[Planned],
    took_s: Mapping[str, float],
    used_j: Mapping[str, float],
    everything: Sequence[Planned],
    cool_down_s: float = 0.0,
    device: str | None = None,
    planned_samples: Mapping[str, int] | None = None,
) -> PlanCost:
    """Return what the remaining runs take. Finished runs correct the tables, and replace missing entries."""
    by_key = {planned.key: planned for planned in everything}
    expected = {planned.key: expected_s(planned.experiment, planned_samples) for planned in everything}
    ratios = [took_s[key] / (expected[key] or 1) for key in took_s if key in by_key and expected[key]]
    ratio = statistics.median(ratios) if ratios else 1.0
    same: dict[str, list[float]] = {}
    for key, seconds in took_s.items():
        if key in by_key:
            same.setdefault(str(sorted(by_key[key].factors.items())), []).append(seconds)
    mean_s = statistics.fmean(took_s.values()) if took_s else None
    total_s, unknown = 0.0, 0
    for planned in left:
        seen = same.get(str(sorted(planned.factors.items())))
        by_table = expected[planned.key]
        guess = statistics.fmean(seen) if seen else (by_table * ratio if by_table is not None else mean_s)
        if guess is None:
            unknown += 1
        else:
            total_s += guess + cool_down_s
    time_s = None if unknown else total_s
    energy_j, reason = _energy(time_s, took_s, used_j, device)
    return PlanCost(time_s, energy_j, reason, unknown)


def _energy(
    time_s: float | None, took_s: Mapping[str, float], used_j: Mapping[str, float], device: str | None
) -> tuple[float | None, str]:
    if time_s is None:
        return None, "the time is not known yet"
    both = [key for key in used_j if took_s.get(key)]
    if both:
        watts = sum(used_j[key] for key in both) / sum(took_s[key] for key in both)
        return watts * time_s, "from what has run"
    try:
        peak_w = load_catalogue().get(device).peak_power_w if device else None
    except (EdgetrainError, KeyError):
        peak_w = None
    if peak_w:
        return peak_w * time_s, "at most: the board's peak power all the time"
    return None, "no power sensor and no published power for this device"
