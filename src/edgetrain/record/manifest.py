"""The manifest: what was asked for, what it ran on, how it ended. Its keys are the fields of these dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetrain.schema import (
    SCHEMA,
    Doubt,
    Experiment,
    LimitsAsked,
    LimitsGot,
    Origin,
    PowerMode,
    PowerSource,
    Scalar,
)

STATES = ("running", "finished", "failed", "interrupted", "unknown")  # of a run


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """One instant on both clocks: the run's monotonic one and the wall clock."""

    monotonic_us: int
    wall_s: float
    within_us: float | None = None  # how far apart the two readings may lie
    virtual: bool = False  # a simulated board keeps its own time


@dataclass(frozen=True, slots=True)
class Clock:
    """Two anchors show whether the wall clock was set in between; durations never depend on it."""

    start: ClockAnchor
    end: ClockAnchor | None = None


@dataclass(frozen=True, slots=True)
class RunnerFacts:
    """The process that carried the run out: whether it still lives is how an unfinished run is recognised."""

    pid: int
    boot: str | None = None


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """What was trained, as asked and as found."""

    network: str | None = None
    dataset: str | None = None
    dataset_scale: float | None = None
    batch_size: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    classes: int | None = None
    max_minibatches: int | None = None
    samples: int | None = None
    parameters: int | None = None
    minibatches_per_epoch: int | None = None
    dataset_files: int | None = None
    dataset_bytes: int | None = None
    size_quantiles: Mapping[str, int] | None = None  # of the file sizes, in bytes
    medium: str | None = None
    filesystem: str | None = None
    storage_device: str | None = None
    phase: str | None = None  # train | infer, of an imported table


@dataclass(frozen=True, slots=True)
class LoadingFacts:
    """How the training data was loaded; None where the loader does not say."""

    workers: int | None = None
    prefetch: int | None = None
    pin_memory: bool | None = None
    persistent: bool | None = None
    start_method: str | None = None
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class ComputeFacts:
    """What computed the steps."""

    kind: str | None = None  # cuda | cpu | paced | simulated
    name: str | None = None
    ms: float | None = None  # of a paced step
    source: str | None = None  # of a simulated board's figures


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The machine and its software."""

    name: str | None = None
    kind: str | None = None
    model: str | None = None
    module: str | None = None
    chip: str | None = None
    l4t: str | None = None
    jetpack: str | None = None
    serial: str | None = None
    host: str | None = None  # name of the machine in its network
    cores: int | None = None
    usable_cores: int | None = None  # that affinity and CPU quota left to the run when it began
    ram_bytes: int | None = None
    gpu: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    extra: Mapping[str, Scalar] = field(default_factory=dict)
    governor: str | None = None
    fan: int | None = None  # pwm, 0 to 255
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class BaseloadWindow:
    """When the idle power was measured, on the run's clock."""

    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class CacheCheck:
    """Share of the dataset in the page cache after cooling or warming, and how both were done."""

    share_before: float | None = None  # before the run, that is: after cooling or warming
    share_pm: float | None = None
    method: str | None = None
    counted_by: str | None = None


@dataclass(frozen=True, slots=True)
class CacheState:
    """The page cache at the start: as asked, and as found."""

    asked: str = "keep"
    check: CacheCheck | None = None
    cold_check: CacheCheck | None = None


@dataclass(frozen=True, slots=True)
class LimitsRecord:
    """Lab limits, as asked and as got."""

    asked: LimitsAsked
    got: LimitsGot = field(default_factory=LimitsGot)


@dataclass(frozen=True, slots=True)
class PowerModeRecord:
    """The power mode asked for, and what the board's own files said at both ends of the run."""

    asked: PowerMode | None = None
    start: PowerMode | None = None
    end: PowerMode | None = None

    @property
    def held(self) -> PowerMode | None:
        """The mode the run really had: what was read back, else what was asked."""
        return self.start or self.asked


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """Minibatches that count as steady, first and last included; `last` None: to the end."""

    first: int
    last: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class ImportFacts:
    """Where an imported run comes from, and what was wrong in its source."""

    source: str
    window: SteadyWindow | None = None
    problems: tuple[str, ...] = ()
    lines: int | None = None  # of a tegrastats log
    unknown_tokens: tuple[str, ...] = ()  # of a tegrastats log, the most frequent ones


@dataclass(frozen=True, slots=True)
class SettledFacts:
    """How long a power mode took to settle, and where it settled."""

    waited_s: float
    power_w: float | None = None
    temp_c: float | None = None


@dataclass(frozen=True, slots=True)
class HandOverFacts:
    """What handing a minibatch from a worker to the loop costs; measured after a training without workers."""

    minibatch_bytes: int
    minibatches: int  # measured
    receive_cpu_s: float  # CPU time of the loop
    receive_s: float  # duration, with a minibatch waiting in the queue; without waiting for a core
    release_s: float  # freeing it
    collate_s: float  # CPU time to collate it in the loop
    worker_collate_s: float  # and in a worker, which writes into shared memory


@dataclass(frozen=True, slots=True)
class BatchSizeFacts:
    """Medians over a few minibatches of one size, fetched by the loop itself (`run --probe-batch`)."""

    batch_size: int
    minibatches: int
    fetch_s: float
    fetch_cpu_s: float
    step_s: float | None = None  # None: paced


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was asked for, what it ran on and how it ended. None: not known, or does not apply."""

    schema: str = SCHEMA
    run: str | None = None
    state: str = "unknown"  # one of STATES
    reason: str | None = None  # of a run that failed or was interrupted
    origin: Origin = Origin.MEASURED
    started_wall: str | None = None  # ISO 8601, UTC
    clock: Clock | None = None
    command: tuple[str, ...] = ()
    profiled: bool = False  # a user's command, not a built-in workload
    exit_status: int | None = None  # of that command
    version: str | None = None  # of edgetrain
    runner: RunnerFacts | None = None
    workload: WorkloadFacts = field(default_factory=WorkloadFacts)
    loading: LoadingFacts | None = None
    timing: str | None = None
    compute: ComputeFacts | None = None
    device: DeviceFacts = field(default_factory=DeviceFacts)
    power: PowerSource | None = None
    power_reason: str | None = None  # why there is no power
    baseload: BaseloadWindow | None = None
    cache: CacheState | None = None
    limits: LimitsRecord | None = None
    power_mode: PowerModeRecord | None = None
    settled: SettledFacts | None = None
    steady: SteadyWindow | None = None  # given by the user, instead of found by the rule
    imported: ImportFacts | None = None
    seed: int | None = None
    epochs: int | None = None
    experiment: Experiment | None = None
    campaign: str | None = None
    factors: Mapping[str, Scalar] = field(default_factory=dict)
    repeat: int | None = None
    position: int | None = None
    hand_over: HandOverFacts | None = None
    batch_sizes: tuple[BatchSizeFacts, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    losses: tuple[float | None, ...] = ()
