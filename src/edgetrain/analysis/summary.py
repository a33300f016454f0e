"""The summary of a run: epoch by epoch, where the seconds and the joules went, and how far to trust it.

These types are the JSON document of `run`, `profile` and `show`: names carry units, None means not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgetrain.analysis.steady import Steady
from edgetrain.record import (
    ComputeFacts,
    DeviceFacts,
    ImportFacts,
    LimitsRecord,
    LoaderFacts,
    LoadingFacts,
    PowerModeRecord,
    WorkloadFacts,
    frame_of,
)
from edgetrain.schema import SCHEMA, Doubt, Origin, Scalar

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class StallCauses:
    """Why the loop waited for data, in seconds; the four sum to the fetch stall."""

    blocked_s: float  # on storage, network or a lock
    preprocess_s: float  # CPU work of the loader
    contention_s: float  # ready to run, no core free
    handover_s: float  # the batch was made, but not yet received by the loop


@dataclass(frozen=True, slots=True)
class MachineReadings:
    """What the machine did during one epoch: means, except where a maximum is named. None: not read."""

    cpu_share: float | None = None  # of all cores
    busiest_core_share: float | None = None
    core_shares: tuple[float | None, ...] = ()  # core by core; empty on machines with many
    gpu_share: float | None = None
    memory_controller_share: float | None = None
    memory_bytes: float | None = None  # of all programs, the most at any instant
    gpu_memory_bytes: float | None = None  # the most at any instant
    read_bytes_per_s: float | None = None  # from the storage medium, by the training's processes
    reads_per_s: float | None = None  # requests completed by the dataset's block device, for anyone (IOPS)
    cpu_hz: float | None = None  # of the fastest group of cores
    gpu_hz: float | None = None
    memory_hz: float | None = None
    temp_c: float | None = None  # highest reading of any sensor
    rails_w: Mapping[str, float] = field(default_factory=dict)  # `total`, and each rail; rails may contain each other


@dataclass(frozen=True, slots=True)
class EpochSummary:
    """One epoch. Parts sum to end-to-end: stall + copy + compute + overhead = e2e.

    Without a loader to watch, what the loop waited for data cannot be known: the stall is None, and compute holds
    whatever the loop did to get its data.
    """

    epoch: int
    minibatches: int  # turns of the loop, those included in which a batch was skipped
    e2e_s: float
    fetch_stall_s: float | None
    hidden_wait_s: float | None  # waiting that overlaps with earlier steps on the accelerator
    fill_s: float | None  # of the stall, the first minibatch's
    copy_s: float | None
    compute_s: float
    overhead_s: float
    stall_by: StallCauses | None
    read_bytes: int | None  # from the storage medium
    cached_share_before: float | None  # of the dataset, in the page cache
    cached_share_after: float | None
    energy_j: float | None
    energy_pm_j: float | None
    baseload_j: float | None
    loss: float | None
    begin_us: int
    end_us: int
    read_requests: int | None = None  # completed by the dataset's block device, for anyone
    other_load: float | None = None  # share of the cores taken by other programs
    trained: int | None = None  # minibatches in which something was trained; the others were skipped
    optimizer_steps: int | None = None
    worker_join_s: float | None = None  # waiting for the workers of a pass that was over; part of overhead or stall
    evaluation_s: float | None = None  # evaluation between its minibatches; part of overhead
    machine: MachineReadings | None = None  # None: no telemetry was recorded


@dataclass(frozen=True, slots=True)
class MinibatchTimes:
    """End-to-end time per steady minibatch."""

    median_ms: float | None = None
    mean_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class PowerSummary:
    """Total power over the steady minibatches."""

    median: float | None = None
    mean: float | None = None
    peak_1s: float | None = None  # largest mean over one second of the run


@dataclass(frozen=True, slots=True)
class EnergyByCause:
    """Energy of all epochs: the idle baseload, and what stalls and compute added to it."""

    stall_j: float
    compute_j: float
    baseload_j: float
    pm_j: float


@dataclass(frozen=True, slots=True)
class OwnCost:
    """What the tool itself cost, as it measured it."""

    cpu_s: float | None = None
    beside_cpu_s: float | None = None  # of it, what the training thread did not pay
    main_thread_us_per_minibatch: float | None = None
    worker_us_per_minibatch: float | None = None
    writing_cpu_s: float | None = None
    sampler_cpu_s: float | None = None
    sampler_wall_s: float | None = None
    sampler_cpu_share: float | None = None  # of one core, once it runs
    sampler_read_share: float | None = None  # of the time, spent reading sensors
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """Passes that were evaluation, not training."""

    minibatches: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """One training process: all its epochs together."""

    pid: int | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    epochs: int
    minibatches: int
    trained: int
    optimizer_steps: int | None
    e2e_s: float
    fetch_stall_s: float | None
    hidden_wait_s: float | None
    copy_s: float | None
    compute_s: float
    overhead_s: float
    minibatch: MinibatchTimes


@dataclass(frozen=True, slots=True)
class ProcessSpread:
    """How much the processes of one training differ."""

    e2e_fastest_s: float
    e2e_slowest_s: float
    stall_least_s: float | None
    stall_most_s: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A run summed up. With several training processes, the figures are those of the slowest; `processes` has each."""

    run: str
    state: str
    reason: str | None
    origin: Origin
    workload: WorkloadFacts
    loading: LoadingFacts | None
    timing: str | None
    compute: ComputeFacts | None
    device: DeviceFacts
    limits: LimitsRecord | None
    power_mode: PowerModeRecord | None
    campaign: str | None
    factors: Mapping[str, Scalar]
    imported: ImportFacts | None
    loaders: tuple[LoaderFacts, ...]
    overhead_pct: float | None
    overhead: OwnCost
    minibatch: MinibatchTimes
    power_w: PowerSummary
    temp_c: float | None  # highest reading
    baseload_w: float | None
    power_scope: str | None
    energy_method: str | None  # counter | trapezoids
    energy_reason: str | None  # why there is no energy
    energy_by: EnergyByCause | None
    energy_by_reason: str | None
    steady: Steady
    samples_per_s: float | None
    parameters: int | None
    peak_rss_bytes: int | None
    peak_gpu_bytes: int | None
    evaluation: EvaluationSummary | None
    epochs: tuple[EpochSummary, ...]
    doubts: tuple[Doubt, ...]
    processes: tuple[ProcessSummary, ...] = ()
    process_spread: ProcessSpread | None = None  # None: one process
    schema: str = field(default=SCHEMA)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per epoch as a pandas data frame; needs pandas."""
        return frame_of(self.epochs)
