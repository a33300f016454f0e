"""What processes wrote about themselves: the training process, the sampler, and events of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """The arguments of one data loader; None where it has no such argument."""

    loader: int  # its number: the order of first passes
    workers: int | None = None
    prefetch_factor: int | None = None
    batch_size: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    start_method: str | None = None
    dataset_class: str | None = None
    length: int | None = None  # minibatches per pass
    samples: int | None = None
    delivered: int | None = None  # minibatches it gave the loop
    trained: int | None = None  # of them, those that were trained on
    minibatch_bytes: float | None = None  # mean over some of them
    created: int | None = None  # its place in the order of creation; None: not made under `profile` or `tune`
    iterable: bool | None = None  # a stream, of which every worker has a copy
    made_at: tuple[str, ...] = ()  # where in the program it was made: a hash per stack frame, innermost first
    made_before: int | None = None  # loaders made at the same place before it
    dataset: int | None = None  # which dataset, in the order in which loaders were made of them; None: not known


@dataclass(frozen=True, slots=True)
class LoaderPlace:
    """A place in a program where loaders are made, and how many were, iterated or not."""

    made_at: tuple[str, ...] = ()
    made: int = 0


@dataclass(frozen=True, slots=True)
class EpochFacts:
    """What the loop itself, or a simulated board, reported about one epoch."""

    epoch: int
    ended_us: int | None = None
    loss: float | None = None
    cached_share_before: float | None = None
    cached_share_after: float | None = None


@dataclass(frozen=True, slots=True)
class ThreadCost:
    """CPU time that recording took of the training thread."""

    per_minibatch_us: float | None = None
    minibatches: int | None = None  # rows that were counted, ends of passes included


@dataclass(frozen=True, slots=True)
class AcceleratorAnchor:
    """One instant at which the accelerator's clock was tied to ours."""

    at_us: int
    pm_us: float
    rate: float | None = None  # of its clock against ours


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What one training process knew of itself (`inside.json`, `inside-1.json`, ...)."""

    pid: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    python: str | None = None
    executable: str | None = None
    argv: tuple[str, ...] = ()
    torch: str | None = None
    cuda: str | None = None
    gpu: str | None = None
    timing: str | None = None
    threads: int | None = None
    omp: Mapping[str, str | None] = field(default_factory=dict)
    parameters: int | None = None
    optimizers: int | None = None  # that were made
    compiled_frames: int | None = None  # of the program, by torch.compile
    peak_rss_bytes: int | None = None
    peak_worker_rss_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    anchors: tuple[AcceleratorAnchor, ...] = ()
    main_thread_cost: ThreadCost | None = None
    writer_cpu_s: float | None = None
    written_bytes: int | None = None
    problems: tuple[str, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    loader_places: tuple[LoaderPlace, ...] = ()
    epochs: tuple[EpochFacts, ...] = ()
    ended: bool | None = None  # False: it was killed, or still runs


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """How one probe was read."""

    reads: int = 0
    mean_s: float | None = None  # per reading
    missed: int = 0
    broken: int = 0
    why: str | None = None


@dataclass(frozen=True, slots=True)
class SamplerReport:
    """The sampler's own cost, its lateness, and readings that failed (`sampler.json`)."""

    state: str | None = None  # running | ended: REASON; `running` in a run that has ended: the sampler was killed
    pid: int | None = None
    written_us: int | None = None  # when this report was written
    flushed_us: int | None = None  # up to when samples are on disk for certain
    cpu_s: float | None = None
    start_cpu_s: float | None = None  # of it, importing and opening sensors
    wall_s: float | None = None
    cpu_share: float | None = None  # of one core
    read_wall_share: float | None = None  # of the time, spent waiting on sensors
    late_p50_s: float | None = None
    late_p99_s: float | None = None
    missed: int | None = None
    reads_failed: Mapping[str, int] = field(default_factory=dict)
    written_bytes: int | None = None
    slower: int | None = None
    per_probe: Mapping[str, ProbeReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at an instant of the run: an epoch, a mode change, a throttle, a doubt, our own cost."""

    kind: str
    text: str = ""
    at_us: int | None = None
    by: str | None = None  # who noticed: runner, sampler
    pid: int | None = None
    doubt: str | None = None  # kind of the doubt, of an event that is one
    cause: str | None = None
    file: str | None = None  # that could not be decoded, or that a trial's script changes
    program: str | None = None  # that a trial's script started and whose files are not watched
    batches: int | None = None  # of an event about our cost in a loader worker
    per_batch_us: float | None = None
    writer_cpu_s: float | None = None
