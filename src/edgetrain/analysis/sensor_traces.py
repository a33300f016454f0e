"""Traces: what the sampler read, one quantity over time in base units, counters turned into rates.

A trace that a machine did not have is not there; a reading that failed is NaN. `traces(run)` returns those that
a report shows, in its order: processors, accelerator, memory, storage, page cache, power, clocks, temperatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgetrain.record import Column, Run, Table
from edgetrain.units import S_PER_US

MAX_CORES = 16  # drawn one by one; of more, the mean and the busiest
MAX_CLUSTERS = 4  # groups of cores with a clock of their own
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class TraceKind(str, Enum):
    """What a trace is of; traces of one kind share a unit and a picture."""

    CPU = "cpu"
    GPU = "gpu"
    MEMORY = "memory"
    READS = "reads"
    REQUESTS = "requests"
    CACHE = "cache"
    POWER = "power"
    CLOCK = "clock"
    TEMPERATURE = "temperature"
    FAN = "fan"

    @property
    def unit(self) -> str:
        """The unit of its values; `1` is a share."""
        return _UNITS.get(self, "1")


_UNITS = {
    TraceKind.MEMORY: "B",
    TraceKind.READS: "B/s",
    TraceKind.REQUESTS: "1/s",
    TraceKind.POWER: "W",
    TraceKind.CLOCK: "Hz",
    TraceKind.TEMPERATURE: "°C",
}


@dataclass(frozen=True)
class Trace:
    """One quantity over time. Instants are those of the run's clock, values are in the unit of their kind."""

    kind: TraceKind
    name: str
    at_us: Ints
    values: Floats
    main: bool = False  # the one to read first: all cores, total power


def traces(run: Run) -> tuple[Trace, ...]:
    """Return the traces of a run that hold at least one reading."""
    found = [
        *_processors(run),
        *_accelerator(run),
        *_memory(run),
        *_storage(run),
        *_gauges(run, TraceKind.CACHE, "residency", {"cached_share": "dataset in the page cache"}),
        *power_traces(run),
        *_clocks(run),
        *_temperatures(run),
        *_gauges(run, TraceKind.FAN, "fan", {"fan_share": "fan"}),
    ]
    return tuple(trace for trace in found if np.isfinite(trace.values).any())


def rate(at_us: Ints, counter: Column) -> tuple[Ints, Floats]:
    """Return the rate of a counter per second between its readings; a reading that failed is passed over."""
    values = np.asarray(counter, float)
    known = np.isfinite(values)
    at, values = at_us[known], values[known]
    if len(at) < 2:
        return at[:0], values[:0]
    took_s = np.maximum(np.diff(at), 1) * S_PER_US
    return at[1:], np.maximum(np.diff(values), 0.0) / took_s


def _gauge(kind: TraceKind, name: str, samples: Table, column: str, scale: float = 1.0, main: bool = False) -> Trace:
    return Trace(kind, name, samples["at_us"], np.asarray(samples[column], float) * scale, main)


def _gauges(run: Run, kind: TraceKind, probe: str, names: dict[str, str], scale: float = 1.0) -> Iterator[Trace]:
    samples = run.samples(probe)
    for column, name in names.items():
        if column in samples:
            yield _gauge(kind, name, samples, column, scale)


def _numbered(samples: Table, ending: str) -> list[str]:
    """Return the columns of single cores (`cpu0_share`, `cpu1_share`, ...), in order."""
    found = [name for name in samples.names if re.fullmatch(rf"cpu\d+{ending}", name)]
    return sorted(found, key=lambda name: int(name[3 : -len(ending)]))


def _processors(run: Run) -> Iterator[Trace]:
    samples = run.samples("cpu")
    if "cpu_share" in samples:
        yield _gauge(TraceKind.CPU, "all cores", samples, "cpu_share", main=True)
    cores = _numbered(samples, "_share")
    if len(cores) <= MAX_CORES:
        for name in cores:
            yield _gauge(TraceKind.CPU, f"core {name[3:-6]}", samples, name)
    else:
        shares = np.stack([np.asarray(samples[name], float) for name in cores])
        yield Trace(TraceKind.CPU, "busiest core", samples["at_us"], np.fmax.reduce(shares))
    yield from _gauges(run, TraceKind.CPU, "cpu", {"iowait_share": "waiting for storage", "steal_share": "stolen"})
    yield from _gauges(run, TraceKind.CPU, "load", {"other_share": "other programs"})


def _accelerator(run: Run) -> Iterator[Trace]:
    for column in run.samples("gpu").names:
        if column.endswith("_share"):
            yield _gauge(TraceKind.GPU, column[:-6].replace("gpu", "GPU"), run.samples("gpu"), column)
    yield from _gauges(run, TraceKind.GPU, "gpu", {"gpu_util_pct": "GPU"}, 0.01)
    yield from _gauges(run, TraceKind.GPU, "emc", {"emc_util_pct": "memory controller"}, 0.01)


def _memory(run: Run) -> Iterator[Trace]:
    names = {"anonymous_bytes": "programs", "cached_bytes": "page cache", "available_bytes": "available"}
    yield from _gauges(run, TraceKind.MEMORY, "memory", names | {"used_bytes": "used", "swap_used_bytes": "swap"})
    yield from _gauges(run, TraceKind.MEMORY, "process", {"rss_bytes": "training processes"})
    yield from _gauges(run, TraceKind.MEMORY, "gpu", {"gpu_memory_bytes": "GPU memory"})


def _storage(run: Run) -> Iterator[Trace]:
    """Return reads from the storage medium: of the training's processes, and of the dataset's block device."""
    process = run.samples("process")
    if "read_bytes" in process:
        yield Trace(TraceKind.READS, "training processes", *rate(process["at_us"], process["read_bytes"]), True)
    device, counters = dataset_disk(run)
    for kind, part in ((TraceKind.READS, "read_bytes"), (TraceKind.REQUESTS, "reads")):
        column = counters.get(f"{device}_{part}")
        if column is not None:
            whole = kind is TraceKind.REQUESTS
            yield Trace(kind, f"{device}, read" if whole else str(device), *rate(counters["at_us"], column), whole)
    replayed = {"reads_per_s": TraceKind.REQUESTS, "read_bytes_per_s": TraceKind.READS}
    for column_name, kind in replayed.items():
        yield from _gauges(run, kind, "disk", {column_name: "storage medium"})


def dataset_disk(run: Run) -> tuple[str | None, Table]:
    """Return the block device that holds the dataset, by its name in the samples, and those samples."""
    counters, device = run.samples("disk"), run.manifest.workload.storage_device
    known = [name[: -len("_reads")] for name in counters.names if name.endswith("_reads")]
    if device is not None:
        device = device.rpartition("/")[2]
        # A partition's counters are those of its device.
        return next((each for each in known if device == each or device.startswith(each)), None), counters
    return known[0] if len(known) == 1 else None, counters


def power_traces(run: Run) -> Iterator[Trace]:
    """Return the total power, then every rail; rails may contain each other, so they are not to be added up."""
    source = run.manifest.power
    if source is not None:
        samples = run.samples(source.stream)
        known = [name for name in source.columns if name in samples]
        if known:
            total = np.sum([np.asarray(samples[name], float) for name in known], axis=0)
            yield Trace(TraceKind.POWER, "total", samples["at_us"], total, main=True)
        if len(known) == 1:
            yield from _rails(run, skip=known[0])
            return
    yield from _rails(run)


def _rails(run: Run, skip: str | None = None) -> Iterator[Trace]:
    for probe in ("rails", "gpu_power", "rapl"):
        samples = run.samples(probe)
        for column in samples.names:
            if column.endswith("_w") and column != skip:
                yield _gauge(TraceKind.POWER, column[:-2], samples, column)


def _clocks(run: Run) -> Iterator[Trace]:
    samples = run.samples("cpu")
    yield from _core_clocks(samples, _numbered(samples, "_hz"))
    for probe in ("gpu", "gpu_clock"):
        yield from _gauges(run, TraceKind.CLOCK, probe, {"gpu_hz": "GPU"})
    for probe in ("emc", "emc_clock"):
        yield from _gauges(run, TraceKind.CLOCK, probe, {"emc_hz": "memory"})


def _core_clocks(samples: Table, columns: Sequence[str]) -> Iterator[Trace]:
    """Return one trace per group of cores that always had the same clock; of many groups the mean and the fastest."""
    groups: list[tuple[list[str], Floats]] = []
    for name in columns:
        clock = np.asarray(samples[name], float)
        same = next((members for members, known in groups if np.array_equal(known, clock, equal_nan=True)), None)
        if same is None:
            groups.append(([name], clock))
        else:
            same.append(name)
    if len(groups) <= MAX_CLUSTERS:
        for members, clock in groups:
            yield Trace(TraceKind.CLOCK, _name_cores(members, len(columns)), samples["at_us"], clock)
        return
    clocks = np.stack([clock for _, clock in groups])
    known = np.isfinite(clocks).sum(axis=0)
    sums = np.nansum(clocks * np.asarray([len(members) for members, _ in groups])[:, None], axis=0)
    weight = np.sum([np.isfinite(clock) * len(members) for members, clock in groups], axis=0)
    mean = np.where(known > 0, sums / np.maximum(weight, 1), np.nan)
    yield Trace(TraceKind.CLOCK, "CPU, mean of cores", samples["at_us"], mean)
    yield Trace(TraceKind.CLOCK, "CPU, fastest core", samples["at_us"], np.fmax.reduce(clocks))


def _name_cores(members: Sequence[str], cores: int) -> str:
    numbers = [int(name[3:-3]) for name in members]
    if len(members) == cores:
        return "CPU"
    return f"CPU {numbers[0]}" if len(numbers) == 1 else f"CPU {numbers[0]}–{numbers[-1]}"


def _temperatures(run: Run) -> Iterator[Trace]:
    for probe in ("thermal", "gpu"):
        samples = run.samples(probe)
        for column in samples.names:
            if column.endswith("_c"):
                yield _gauge(TraceKind.TEMPERATURE, column.removesuffix("_c").removesuffix("_temp"), samples, column)
