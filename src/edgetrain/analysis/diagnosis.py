"""What limits a training, from its own record: the share of its time by cause, the verdict, and the evidence.

    storage cold        the loader waits for the medium when files are first read; then the page cache serves them
    storage always      it waits for the medium in every epoch: the page cache does not hold the dataset
    waiting elsewhere   it waits, and reads nothing meanwhile: a network, a lock, a server
    pre-processing      it computes
    CPU contention      it is ready to run and has no core
    hand-over           minibatches are made, but not yet received by the loop; or workers are being started
    copy                minibatches travel to the accelerator
    launch              the host issues kernels more slowly than the accelerator runs them
    loop                the loop itself does other work between minibatches
    compute             the step

`nothing to gain` is a verdict on compute when no known remedy helps; that needs a model (see `recommendation`).
`unknown` comes with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.joined_rows import RecordedRows, recorded_rows
from edgetrain.analysis.loop import TrainingLoop, find_loops, slowest, training_loader
from edgetrain.analysis.samples import mean_between
from edgetrain.analysis.services import COLD_BYTES
from edgetrain.analysis.summary import EpochSummary, Summary
from edgetrain.record import LoaderFacts, Run
from edgetrain.units import spell_bytes, spell_seconds

STORAGE_COLD, STORAGE_ALWAYS, ELSEWHERE = "storage cold", "storage always", "waiting elsewhere"
PREPROCESSING, CONTENTION, HAND_OVER = "pre-processing", "CPU contention", "hand-over"
COPY, LAUNCH, LOOP, COMPUTE = "copy", "launch", "loop", "compute"
# Names of causes that do not read well within a sentence.
SPOKEN = {
    STORAGE_COLD: "reading the dataset from storage for the first time",
    STORAGE_ALWAYS: "reading from storage in every epoch",
    LAUNCH: "launching kernels",
    LOOP: "work of the loop besides the step",
}
NOTHING_TO_GAIN = "nothing to gain"
UNKNOWN = "unknown"
CAUSES_OF_STALL = (STORAGE_COLD, STORAGE_ALWAYS, ELSEWHERE, PREPROCESSING, CONTENTION, HAND_OVER)

MAX_LOST = 0.1  # share of the whole run's time that is not compute; below it the verdict is compute
DOMINANT = 0.6  # share of the time that is not compute; a cause with at least this much is the verdict alone
MENTIONED = 0.25  # share of the time that is not compute; a cause with at least this much is part of a mixed verdict
READS_AGAIN = 0.2  # of the first epoch's reads, in later epochs: the page cache does not hold the dataset
LAUNCH_BOUND = 0.1  # of a step, left after the last kernel was issued: below, issuing takes the time
MAX_ROWS = 1_000_000  # minibatches that the sentence at the end of a run is worked out from one by one
OTHER_FILES = 0.1  # of the dataset: reads beyond it by more are also of other files
CACHED = 0.9  # of the dataset, in the page cache after the first epoch: later ones are served from it
MIN_RECORDED_MINIBATCHES = 16  # with fewer, starting takes the time: no verdict is given and nothing is predicted
STARTS = 0.05  # of the stall, spent on starting workers: below, it is not mentioned
REFUSALS = ("steal", "workers_unseen")  # kinds of doubts with which a stall is not divided by cause


@dataclass(frozen=True, slots=True)
class DiagnosisFact:
    """One number of the run that the verdict rests on."""

    fact: str
    value: float | None
    unit: str
    text: str  # the same for people


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """What limits a run: one cause or several, with the share of the run's time that each takes."""

    run: str
    verdict: str  # causes joined by " + " where there are several
    shares: Mapping[str, float]  # of the end-to-end time; they sum to 1
    evidence: tuple[DiagnosisFact, ...]
    reason: str | None = None  # why the verdict is `unknown`
    stream: bool = False  # the dataset is an IterableDataset, of which every worker has a copy

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes that the verdict names."""
        return tuple(self.verdict.split(" + "))


def find_verdict(run: Run, summary: Summary) -> LimitVerdict:
    """Say what limits a run, from everything it recorded."""
    loop = slowest(find_loops(run))
    rows = recorded_rows(loop)
    shares, verdict, reason = _judged(summary, rows)
    evidence = tuple(_evidence(run, summary, loop, rows, shares))
    return LimitVerdict(summary.run, verdict, shares, evidence, reason, _is_stream(training_loader(loop)))


def verdict_sentence(summary: Summary, run: Run | None = None) -> str:
    """Say in one sentence what limits a run: from its minibatches, or from its summary alone where it is very long."""
    if not summary.epochs:
        return "no minibatch was recorded: what limits this training is not known"
    minibatches = sum(epoch.minibatches for epoch in summary.epochs)
    rows = None if run is None or minibatches > MAX_ROWS else recorded_rows(slowest(find_loops(run)))
    shares, verdict, reason = _judged(summary, rows)
    if reason is not None:
        return f"what limits this training is not known: {reason}"
    if verdict == COMPUTE:
        return f"compute limits this training: {shares[COMPUTE]:.0%} of the time is compute"
    causes = verdict.split(" + ")
    named = " and ".join(f"{SPOKEN.get(cause, cause)} ({shares[cause]:.0%} of the time)" for cause in causes)
    limits = "limits" if len(causes) == 1 else "limit"
    return (
        f"{named} {limits} this training; edgetrain diagnose {summary.run} shows the evidence and, where it can be "
        "predicted, what each remedy would gain"
    )


def _judged(summary: Summary, rows: RecordedRows | None) -> tuple[dict[str, float], str, str | None]:
    """Return the share of each cause, the verdict, and the reason where nothing can be said."""
    shares, verdict = judge(_seconds(summary, rows))
    count = sum(epoch.minibatches for epoch in summary.epochs)
    if count < MIN_RECORDED_MINIBATCHES:
        reason = (
            f"only {count} of the at least {MIN_RECORDED_MINIBATCHES} minibatches that a verdict needs were recorded; "
            "record a longer run"
        )
        return shares, UNKNOWN, reason
    return shares, verdict, _why_unknown(summary) if verdict == UNKNOWN else None


def _why_unknown(summary: Summary) -> str:
    """Return why the time could not be divided by cause."""
    if all(epoch.fetch_stall_s is not None for epoch in summary.epochs):
        # Of one kind the last: telemetry has a doubt about steal as well, attribution's says what follows from it.
        refused = {doubt.kind: doubt.text for doubt in summary.doubts if doubt.kind in REFUSALS}
        if refused:
            return "; ".join(refused.values())
    return "no data loader was seen, or its fetches were not recorded"


def _is_stream(loader: LoaderFacts | None) -> bool:
    return loader is not None and bool(loader.iterable)


def judge(seconds: Mapping[str, float]) -> tuple[dict[str, float], str]:
    """Return the share of each cause and the verdict."""
    total = sum(seconds.values())
    if total <= 0:
        return {}, UNKNOWN
    shares = {cause: each / total for cause, each in seconds.items()}
    lost = {cause: share for cause, share in shares.items() if cause not in (COMPUTE, UNKNOWN)}
    beside = sum(lost.values())
    if shares.get(UNKNOWN, 0.0) > max(beside, MAX_LOST):
        return shares, UNKNOWN
    if beside < MAX_LOST:
        return shares, COMPUTE
    ranked = sorted(lost, key=lost.__getitem__, reverse=True)
    if lost[ranked[0]] >= DOMINANT * beside:
        return shares, ranked[0]
    named = [cause for cause in ranked if lost[cause] >= MENTIONED * beside]
    return shares, " + ".join(named or ranked[:1])


def _seconds(summary: Summary, rows: RecordedRows | None) -> dict[str, float]:
    """Return the seconds of all epochs by cause."""
    found = dict.fromkeys((*CAUSES_OF_STALL, COPY, LAUNCH, LOOP, COMPUTE, UNKNOWN), 0.0)
    cold_epochs = _storage_is_cold(summary)
    launch_bound = rows is not None and is_launch_bound(rows)
    for place, epoch in enumerate(summary.epochs):
        if epoch.fetch_stall_s is None:
            found[UNKNOWN] += epoch.e2e_s  # without a loader to watch, compute holds the waiting too
            continue
        found[LAUNCH if launch_bound else COMPUTE] += epoch.compute_s
        found[COPY] += epoch.copy_s or 0.0
        found[LOOP] += epoch.overhead_s
        causes = epoch.stall_by
        if causes is None:
            found[UNKNOWN] += epoch.fetch_stall_s
            continue
        found[PREPROCESSING] += causes.preprocess_s
        found[CONTENTION] += causes.contention_s
        found[HAND_OVER] += causes.handover_s
        stored_s = causes.blocked_s * _storage_share(epoch, rows)
        found[ELSEWHERE] += causes.blocked_s - stored_s
        found[STORAGE_COLD if cold_epochs[place] else STORAGE_ALWAYS] += stored_s
    return found


def _storage_share(epoch: EpochSummary, rows: RecordedRows | None) -> float:
    """Return the share of an epoch's blocked time that was spent on the storage medium."""
    if rows is None:
        read = (epoch.read_bytes or 0) / max(1, epoch.minibatches)
        return 1.0 if read > COLD_BYTES else 0.0
    chosen = (rows.epoch == epoch.epoch) & ~np.isnan(rows.blocked_s)
    blocked_s, cold = rows.blocked_s, rows.read_bytes > COLD_BYTES
    total_s = float(blocked_s[chosen].sum())
    if total_s <= 0 or not (chosen & cold).any():
        return 0.0
    # Fetches that read nothing show how long one waits for other reasons.
    quiet = ~cold & ~np.isnan(blocked_s)
    usual_s = float(np.median(blocked_s[quiet])) if quiet.sum() >= 8 else 0.0
    elsewhere_s = float(blocked_s[chosen & ~cold].sum()) + usual_s * float((chosen & cold).sum())
    return max(0.0, 1.0 - elsewhere_s / total_s)


def _storage_is_cold(summary: Summary) -> list[bool]:
    """Return for each epoch whether its reads are the first ones of a dataset that then stays cached."""
    read = [float(epoch.read_bytes or 0) for epoch in summary.epochs]
    if len(read) > 1 and read[0] > 0:
        # An epoch that takes part of the dataset meets files that no epoch before it has read.
        taken = _taken(summary)
        again = [each - read[0] * (1.0 - taken) ** place for place, each in enumerate(read)][1:]
        if float(np.mean(again)) > READS_AGAIN * read[0]:
            return [False] * len(read)
        return [place == 0 or taken < 1.0 for place in range(len(read))]
    if len(read) > 1:
        return [False] * len(read)
    epoch, about = summary.epochs[0], summary.workload
    if epoch.cached_share_after is not None:
        return [epoch.cached_share_after >= CACHED]
    cache_bytes = summary.device.ram_bytes
    if summary.limits is not None and summary.limits.asked.page_cache_bytes is not None:
        cache_bytes = summary.limits.asked.page_cache_bytes
    return [cache_bytes is None or about.dataset_bytes is None or about.dataset_bytes < 0.8 * cache_bytes]


def _taken(summary: Summary) -> float:
    """Return the part of the dataset that one epoch takes; all of it where that is not known."""
    about = summary.workload
    if about.max_minibatches is None or not about.samples or not about.batch_size:
        return 1.0
    return min(1.0, about.max_minibatches * about.batch_size / about.samples)


def is_launch_bound(rows: RecordedRows, chosen: NDArray[np.bool_] | None = None) -> bool:
    """Return whether issuing kernels takes the step's time: the accelerator ends right after the last one."""
    compute_s, left_s = rows.parts.compute_s, rows.done_s - rows.launched_s
    if chosen is not None:
        compute_s, left_s = compute_s[chosen], left_s[chosen]
    # A CPU that computes in the loop, or a loop that waits for each step, has nothing left by definition.
    waits = np.abs(left_s) < 1e-9
    if not len(compute_s) or np.isnan(left_s).all() or waits.mean() > 0.9:
        return False
    return bool(np.nanmedian(left_s) < LAUNCH_BOUND * np.median(compute_s))


def _evidence(
    run: Run, summary: Summary, loop: TrainingLoop, rows: RecordedRows, shares: Mapping[str, float]
) -> list[DiagnosisFact]:
    """Return the numbers that a reader needs to check the verdict."""
    epochs, found = summary.epochs, []
    processes = sum(1 for process in run.training if len(process.minibatches))
    if processes > 1:
        text = f"{processes} processes trained; shares and times are those of the slowest"
        found.append(DiagnosisFact("processes", processes, "", text))
    total_s = sum(epoch.e2e_s for epoch in epochs)
    stalls = [epoch.fetch_stall_s for epoch in epochs if epoch.fetch_stall_s is not None]
    if total_s > 0 and len(stalls) == len(epochs):
        found.append(_share("stall", sum(stalls) / total_s, "of the time the loop waited for data"))
        computed_s = sum(epoch.compute_s for epoch in epochs)
        found.append(_share("compute", computed_s / total_s, "of the time was compute"))
        started_s = _worker_start_s(loop, rows)
        if started_s > STARTS * sum(stalls):
            text = f"starting the loader's workers took {spell_seconds(started_s)}, {started_s / sum(stalls):.0%} of "
            found.append(DiagnosisFact("worker_start", started_s, "s", text + "the stall"))
    if len(epochs) > 1:
        later_s = float(np.mean([epoch.e2e_s for epoch in epochs[1:]]))
        text = f"the first epoch took {spell_seconds(epochs[0].e2e_s)}, later ones {spell_seconds(later_s)}"
        found.append(DiagnosisFact("first_to_later", epochs[0].e2e_s / later_s if later_s else None, "", text))
    found += _evidence_of_reads(summary)
    found += _evidence_of_fetches(summary, loop, rows)
    other = mean_between(run, "load", "other_share", epochs[0].begin_us, epochs[-1].end_us)
    if other is not None and other > 0.05:
        found.append(_share("other_load", other, "of the cores were taken by other programs during the epochs"))
    if shares.get(LAUNCH, 0.0) > 0:
        left_s = float(np.nanmedian(rows.done_s - rows.launched_s))
        text = f"the accelerator ended {spell_seconds(left_s)} after its last kernel was issued"
        found.append(DiagnosisFact("after_last_launch", left_s, "s", text))
    return found


def _worker_start_s(loop: TrainingLoop, rows: RecordedRows) -> float:
    """Return the stall in which workers were started: until the first fetch of an epoch began, or without a batch."""
    parts = rows.parts
    first = parts.first & ~rows.own
    if not first.any():
        return 0.0
    started_s = float(np.clip(np.minimum(rows.began_s - rows.asked_s, parts.stall_s)[first], 0.0, None).sum())
    batches = loop.process.minibatches.get("batch")
    if parts.wait_row is not None and batches is not None:
        started_s += float(parts.wait_stall_s[batches[parts.wait_row] < 0].sum())
    return started_s


def _evidence_of_reads(summary: Summary) -> list[DiagnosisFact]:
    epochs, found = summary.epochs, []
    if epochs[0].read_bytes:
        read, size = epochs[0].read_bytes, summary.workload.dataset_bytes
        # Where no dataset is known, these may be the interpreter's own files.
        of_all = f", {read / size:.0%} of the dataset" if size else " (data or libraries)"
        if size and read > (1.0 + OTHER_FILES) * size:
            of_all = f", more than the {spell_bytes(size)} of the dataset: other files too"
        found.append(DiagnosisFact("read_first", float(read), "B", f"the first epoch read {spell_bytes(read)}{of_all}"))
    later = [float(epoch.read_bytes) for epoch in epochs[1:] if epoch.read_bytes is not None]
    if later:
        mean = float(np.mean(later))
        found.append(DiagnosisFact("read_later", mean, "B", f"a later epoch read {spell_bytes(mean)} from the medium"))
    cached = epochs[-1].cached_share_after
    if cached is not None:
        found.append(_share("cached", cached, "of the dataset was in the page cache at the end"))
    return found


def _evidence_of_fetches(summary: Summary, loop: TrainingLoop, rows: RecordedRows) -> list[DiagnosisFact]:
    found = []
    cpu_s, samples = rows.cpu_s, rows.samples
    seen = ~np.isnan(cpu_s) & (samples > 0)
    if seen.any():
        each_s = float(cpu_s[seen].sum() / samples[seen].sum())
        found.append(
            DiagnosisFact("fetch_cpu", each_s, "s", f"the loader used {spell_seconds(each_s)} of CPU time per sample")
        )
    workers = [rows.fetch_s[rows.worker == number] for number in np.unique(rows.worker[~np.isnan(rows.worker)])]
    if workers and summary.epochs:
        lasted_s = sum(epoch.e2e_s for epoch in summary.epochs)
        busy = float(sum(np.nansum(each) for each in workers)) / max(1e-9, lasted_s * len(workers))
        who = "its worker was" if len(workers) == 1 else f"its {len(workers)} workers were"
        busy = min(busy, 1.0)
        found.append(DiagnosisFact("workers_busy", busy, "", f"{who} fetching {busy:.0%} of the time"))
    loader = training_loader(loop)
    if loader is not None and loader.minibatch_bytes:
        size = loader.minibatch_bytes
        found.append(DiagnosisFact("minibatch_bytes", size, "B", f"a minibatch holds {spell_bytes(size)}"))
    if _is_stream(loader):
        text = "the dataset is a stream (IterableDataset), of which every worker has a copy: more workers deliver each "
        found.append(DiagnosisFact("stream", None, "", text + "sample several times unless the stream is sharded"))
    return found


def _share(fact: str, value: float, what: str) -> DiagnosisFact:
    return DiagnosisFact(fact, value, "", f"{value:.0%} {what}")
