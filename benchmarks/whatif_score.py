"""Compares what-if answers with what was measured, beside two simple rules.

nothing changes    the time per sample of the base
three rates        samples / min(storage, pre-processing x min(workers, cores), compute), hits = cached share
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from whatif_campaign import BenchmarkSetting, Recorded

from edgetrain.analysis import Summary, summarize
from edgetrain.api.what_if import change_facts, open_model, storage_media
from edgetrain.prediction import PipelineSetting, StepKind, WhatIfModel, changed_setting, read_changes
from edgetrain.record import FolderStore, Run

CHANGEABLE = (
    "workers", "prefetch", "batch_size", "dataset_scale", "storage", "page_cache", "cores", "pin_memory",
)  # fmt: skip
FIRST, LATER = "first", "later"


@dataclass(frozen=True, slots=True)
class Truth:
    """What one setting took: the median of its runs, and how much they differ."""

    first_s: float
    later_s: float
    first_stall_s: float
    later_stall_s: float
    spread: float  # fastest to slowest run, later epochs, relative to the median
    runs: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prediction beside the truth."""

    base: str
    run: str
    target: BenchmarkSetting
    epoch: str
    truth_s: float
    truth_stall_s: float
    model_s: float
    lo_s: float
    hi_s: float
    stall_s: float
    unchanged_s: float
    three_rates_s: float

    def error(self, value_s: float) -> float:
        """Return the relative error of a prediction."""
        return value_s / self.truth_s - 1.0

    @property
    def covered(self) -> bool:
        """Whether the truth lies in the interval."""
        return self.lo_s <= self.truth_s <= self.hi_s

    @property
    def stall_right(self) -> bool:
        """Whether the stall is within 20 %, or within 2 % of the epoch."""
        off_s = abs(self.stall_s - self.truth_stall_s)
        return off_s <= 0.2 * self.truth_stall_s or off_s <= 0.02 * self.truth_s


def truth_of(summaries: list[Summary]) -> Truth:
    """Return the median of the runs of one setting."""
    later = [statistics.fmean(epoch.e2e_s for epoch in each.epochs[1:]) for each in summaries]
    stalls = [statistics.fmean(epoch.fetch_stall_s or 0.0 for epoch in each.epochs[1:]) for each in summaries]
    middle = statistics.median(later)
    return Truth(
        statistics.median(each.epochs[0].e2e_s for each in summaries),
        middle,
        statistics.median(each.epochs[0].fetch_stall_s or 0.0 for each in summaries),
        statistics.median(stalls),
        (max(later) - min(later)) / middle,
        len(summaries),
    )


def score(
    settings: list[BenchmarkSetting],
    recorded: list[Recorded],
    store: FolderStore,
    without_probe: bool = False,
    with_repeats: bool = True,
) -> list[Comparison]:
    """Predict every setting from every run of its family's bases.

    `without_probe`: only other batch sizes, from runs that probed them, without what the probe measured.
    `with_repeats`: the spread between the runs of a base goes into its intervals, as for runs of one store.
    """
    runs: dict[str, list[Run]] = defaultdict(list)
    for each in recorded:
        runs[each.id].append(store.open(each.run))
    truths = {name: truth_of([summarize(run) for run in found]) for name, found in runs.items()}
    found = []
    media = storage_media()
    for base in (each for each in settings if each.base):
        for run in runs.get(base.id, ()):
            if without_probe:
                if not run.manifest.batch_sizes:
                    continue
                run = replace(run, manifest=replace(run.manifest, batch_sizes=()))
            repeats = [each for each in runs[base.id] if each.id != run.id] if with_repeats else []
            model = open_model(run, repeats)
            for target in settings:
                if without_probe and target.settings["batch_size"] == base.settings["batch_size"]:
                    continue
                if target.family != base.family or target.id == base.id or target.id not in truths:
                    continue
                found += list(_compare(base, target, run, model, truths[target.id], media))
    return found


def changes_between(base: BenchmarkSetting, target: BenchmarkSetting) -> dict[str, object]:
    """Return the settings that differ, as a what-if takes them."""
    found = {}
    for name in CHANGEABLE:
        old, new = base.settings.get(name), target.settings.get(name)
        if new is None or new == old:
            continue
        if name == "dataset_scale" and ":" in base.network:
            new = new / old  # an own dataset is recorded as scale 1
        if name == "prefetch" and target.settings.get("workers") == 0:
            continue
        found[name] = new
    return found


def _compare(
    base: BenchmarkSetting, target: BenchmarkSetting, run: Run, model: WhatIfModel, truth: Truth, media: dict
) -> Iterable[Comparison]:
    changes = read_changes(changes_between(base, target))
    facts = change_facts(model.summary, changes, media)
    setting = changed_setting(model.predictor.base, model.summary, changes, facts)
    if "storage" not in target.settings:
        setting = _on_own_disk(setting)
    cold = target.settings["cache"] == "cold"
    predicted = model.predictor.predict(setting, cold)
    epochs = model.summary.epochs
    per_sample = model.predictor.setting.samples
    for which, answer, true_s, stall_s, base_s in (
        (FIRST, predicted.first, truth.first_s, truth.first_stall_s, epochs[0].e2e_s),
        (LATER, predicted.later, truth.later_s, truth.later_stall_s, statistics.fmean(e.e2e_s for e in epochs[1:])),
    ):
        reads = answer.read_share if which == LATER else (1.0 if cold else 0.0)
        yield Comparison(
            base.id,
            run.id,
            target,
            which,
            true_s,
            stall_s,
            answer.e2e_s.value,
            answer.e2e_s.lo,
            answer.e2e_s.hi,
            answer.stall_s.value,
            base_s / per_sample * setting.samples,
            three_rates_s(model, setting, _simple_misses(setting, which, reads)),
        )


def _on_own_disk(setting: PipelineSetting) -> PipelineSetting:
    return replace(setting, medium=None)


def _simple_misses(setting: PipelineSetting, which: str, reads: float) -> float:
    """Return the misses as the simple rule counts them: what is not cached."""
    if which == FIRST:
        return reads
    return 1.0 - setting.cached_share() if setting.medium is not None else 0.0


def three_rates_s(model: WhatIfModel, setting: PipelineSetting, missed: float) -> float:
    """Return an epoch by the slowest of three rates."""
    costs = model.predictor.base.costs
    workers = max(1, setting.workers)
    prepare_s = float(costs.fetch_cpu_s.mean()) / costs.batch_size / min(workers, setting.cores)
    step = costs.step
    step_s = setting.fixed_step_s if step.kind is StepKind.PACED and setting.fixed_step_s else float(step.step_s.mean())
    batches = 1.0 if step.kind is StepKind.PACED else setting.batch_size / costs.batch_size
    compute_s = step_s * batches / setting.batch_size
    fetch_s = 0.0
    if setting.medium is not None and setting.dataset is not None and missed > 0:
        medium = setting.medium
        size = setting.dataset.read_bytes
        served = min(workers, medium.at_once)
        fetch_s = missed * max((medium.read_s + size / medium.bytes_per_s) / served, size / medium.bytes_per_s)
    return setting.samples * max(fetch_s, prepare_s, compute_s)


def _errors(found: list[Comparison], value: Callable[[Comparison], float]) -> str:
    errors = [100.0 * abs(each.error(value(each))) for each in found]
    return f"{np.median(errors):.1f} / {np.percentile(errors, 90):.0f}" if errors else "–"


def from_median_run(found: list[Comparison]) -> list[Comparison]:
    """Return one prediction for each base and setting: the median of those from the runs of the base."""
    groups: dict[tuple[str, str, str], list[Comparison]] = defaultdict(list)
    for each in found:
        groups[each.base, each.target.id, each.epoch].append(each)
    return [sorted(group, key=lambda each: each.model_s)[len(group) // 2] for group in groups.values()]


def markdown(found: list[Comparison], unprobed: list[Comparison], alone: list[Comparison]) -> list[str]:
    """Return the table of a results page.

    `unprobed` are answers for other batch sizes without the probe, `alone` answers from one run without its repeats.
    """
    groups: list[tuple[str, Callable[[Comparison], bool]]] = [("**all**", lambda each: True)]
    for family in dict.fromkeys(each.target.family for each in found):
        groups.append((family, lambda each, family=family: each.target.family == family))
    groups += [
        ("first epoch", lambda each: each.epoch == FIRST),
        ("later epochs", lambda each: each.epoch == LATER),
        ("two factors or more", lambda each: each.target.changes >= 2),
        ("stall of 30 % or more", lambda each: each.truth_stall_s >= 0.3 * each.truth_s),
        ("page cache limited", lambda each: "page_cache" in each.target.settings),
        ("batch size", lambda each: each.target.settings["batch_size"] != 16),
        ("from 0 workers", lambda each: "-w0-" in each.base),
        ("half for fitting intervals", lambda each: each.target.half == "fit"),
        ("half for scoring intervals", lambda each: each.target.half == "score"),
    ]
    lines = [
        "| what | settings | predictions | model | nothing changes | three rates | bias | stall right | covered |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [(name, [each for each in found if belongs(each)]) for name, belongs in groups]
    apart = [
        ("from the median of a base's runs", from_median_run(found)),
        ("from one run without its repeats", alone),
        ("the same, half for scoring", [each for each in alone if each.target.half == "score"]),
        ("batch size, without the probe", unprobed),
    ]
    for name, some in [*rows, *apart]:
        if not some:
            continue
        bias = 100.0 * float(np.median([each.error(each.model_s) for each in some]))
        right = statistics.fmean(each.stall_right for each in some)
        covered = statistics.fmean(each.covered for each in some)
        targets = len({each.target.id for each in some})
        lines.append(
            f"| {name} | {targets} | {len(some)} | {_errors(some, lambda e: e.model_s)} | "
            f"{_errors(some, lambda e: e.unchanged_s)} | {_errors(some, lambda e: e.three_rates_s)} | {bias:+.1f} | "
            f"{right:.0%} | {covered:.0%} |"
        )
    return lines


def judgement(found: list[Comparison], truths: dict[str, Truth]) -> list[str]:
    """Return what was promised and whether it holds, one line each."""

    def median_p90(value: Callable[[Comparison], float]) -> tuple[float, float]:
        errors = [100.0 * abs(each.error(value(each))) for each in found]
        return float(np.median(errors)), float(np.percentile(errors, 90))

    model, same, rates = (
        median_p90(value) for value in (lambda e: e.model_s, lambda e: e.unchanged_s, lambda e: e.three_rates_s)
    )
    scored = [each for each in found if each.target.half == "score"] or found
    covered = statistics.fmean(each.covered for each in scored)
    stalled = statistics.fmean(
        truth.first_stall_s >= 0.3 * truth.first_s or truth.later_stall_s >= 0.3 * truth.later_s
        for truth in truths.values()
    )
    right = statistics.fmean(each.stall_right for each in found)
    spreads = [each.spread for each in truths.values()]
    below = model[0] < min(same[0], rates[0])
    calibrated, half = 0.8 <= covered <= 0.97, stalled >= 0.5
    accurate = model[0] <= 6 and model[1] <= 15
    yes = {True: "holds", False: "**missed**"}
    lines = [
        f"- Error below both simple rules: {yes[below]} (median {model[0]:.1f} % against {same[0]:.1f} % and "
        f"{rates[0]:.1f} %; 90th percentile {model[1]:.0f} % against {same[1]:.0f} % and {rates[1]:.0f} %).",
        f"- 90 % intervals cover 80 to 97 % of the settings that were kept back from fitting them: {yes[calibrated]} "
        f"({covered:.1%} of {len(scored)} predictions).",
        f"- Half of the settings stall for 30 % or more of an epoch: {yes[half]} ({stalled:.0%}).",
        f"- Aim: median error at most 6 %, 90th percentile at most 15 %: {yes[accurate]}.",
        f"- Aim: stall within 20 % or within 2 % of the epoch: in {right:.0%} of the predictions.",
        f"- Repeats of one setting differ by {100 * statistics.median(spreads):.0f} % (fastest to slowest, median over "
        f"settings; 90th percentile {100 * float(np.percentile(spreads, 90)):.0f} %).",
    ]
    missed = sum(not each for each in (below, calibrated, half))
    verdict = "All requirements hold" if not missed else f"{missed} of 3 requirements are missed"
    settings = len({each.target.id for each in found})
    summed = f"**{verdict}: the median error of {len(found)} predictions of {settings} settings is {model[0]:.1f} %.**"
    return [summed, "", *lines]


def details(found: list[Comparison], settings: list[BenchmarkSetting], truths: dict[str, Truth]) -> list[str]:
    """Return one row per setting: its truth, its spread, and the error from each base."""
    lines = [
        "| setting | runs | spread | first | later | stall | error, first | error, later |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in settings:
        truth = truths.get(each.id)
        if truth is None:
            continue
        cells = []
        for epoch in (FIRST, LATER):
            by_base: dict[str, list[float]] = defaultdict(list)
            for one in found:
                if one.target.id == each.id and one.epoch == epoch:
                    by_base[one.base].append(100.0 * one.error(one.model_s))
            cells.append(", ".join(f"{base} {statistics.median(errors):+.0f}" for base, errors in by_base.items()))
        stall = truth.later_stall_s / truth.later_s
        lines.append(
            f"| {each.id} | {truth.runs} | {truth.spread:.0%} | {truth.first_s:.2f} s | {truth.later_s:.2f} s | "
            f"{truth.first_stall_s / truth.first_s:.0%}, {stall:.0%} | {cells[0]} | {cells[1]} |"
        )
    return lines
