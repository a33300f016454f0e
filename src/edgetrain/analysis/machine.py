"""What the machine did during each epoch: utilisation, reads and IOPS, clocks, power per rail, temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.sensor_traces import Trace, TraceKind, traces
from edgetrain.analysis.summary import EpochSummary, MachineReadings
from edgetrain.record import Run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Windows:
    """The epochs, as instants."""

    begin_us: NDArray[np.int64]
    end_us: NDArray[np.int64]

    def means(self, trace: Trace) -> list[float | None]:
        """Return the mean of a trace in each window; None where nothing was read."""
        known = np.isfinite(trace.values)
        at, sums = trace.at_us[known], np.concatenate([[0.0], np.cumsum(trace.values[known])])
        first, last = np.searchsorted(at, self.begin_us, "left"), np.searchsorted(at, self.end_us, "right")
        counts = last - first
        found = (sums[last] - sums[first]) / np.maximum(counts, 1)
        return [float(value) if count else None for value, count in zip(found, counts, strict=True)]

    def largest(self, some: Iterable[Trace]) -> list[float | None]:
        """Return the largest value of several traces in each window."""
        found: list[float | None] = [None] * len(self.begin_us)
        for trace in some:
            known = np.isfinite(trace.values)
            at, values = trace.at_us[known], trace.values[known]
            first, last = np.searchsorted(at, self.begin_us, "left"), np.searchsorted(at, self.end_us, "right")
            for place, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
                if stop > start:
                    here, before = float(values[start:stop].max()), found[place]
                    found[place] = here if before is None else max(before, here)
        return found


@dataclass
class _Means:
    """The mean of every trace in every epoch, by kind and name."""

    epochs: int
    by: dict[tuple[TraceKind, str], list[float | None]] = field(default_factory=dict)

    def of(self, kind: TraceKind, *names: str) -> list[float | None]:
        """Return the means of the first of these traces that there is."""
        for name in names:
            if (kind, name) in self.by:
                return self.by[kind, name]
        return [None] * self.epochs

    def starting(self, kind: TraceKind, start: str) -> list[list[float | None]]:
        """Return the means of the traces whose name begins so, in order."""
        return [means for (of, name), means in self.by.items() if of is kind and name.startswith(start)]


def with_machine(run: Run, epochs: Sequence[EpochSummary]) -> tuple[EpochSummary, ...]:
    """Return the epochs with what the machine did during each; None where it recorded no telemetry."""
    known = traces(run) if epochs and run.probes else ()
    if not known:
        return tuple(epochs)
    windows = _Windows(np.asarray([epoch.begin_us for epoch in epochs]), np.asarray([epoch.end_us for epoch in epochs]))
    means = _Means(len(epochs), {(trace.kind, trace.name): windows.means(trace) for trace in known})
    readings = _readings(means, windows, known)
    return tuple(replace(epoch, machine=one) for epoch, one in zip(epochs, readings, strict=True))


def _readings(means: _Means, windows: _Windows, known: Sequence[Trace]) -> list[MachineReadings]:
    cpu = means.of(TraceKind.CPU, "all cores")
    cores = means.starting(TraceKind.CPU, "core ")
    busiest = means.of(TraceKind.CPU, "busiest core")
    gpu, emc = means.of(TraceKind.GPU, "GPU"), means.of(TraceKind.GPU, "memory controller")
    memory = windows.largest(trace for trace in known if trace.kind is TraceKind.MEMORY and trace.name == "programs")
    gpu_memory = windows.largest(
        trace for trace in known if trace.kind is TraceKind.MEMORY and trace.name == "GPU memory"
    )
    read = [trace.name for trace in known if trace.kind is TraceKind.READS]
    reads, requests = means.of(TraceKind.READS, *read), means.starting(TraceKind.REQUESTS, "")
    clocks = means.starting(TraceKind.CLOCK, "CPU")
    gpu_hz, emc_hz = means.of(TraceKind.CLOCK, "GPU"), means.of(TraceKind.CLOCK, "memory")
    hottest = windows.largest(trace for trace in known if trace.kind is TraceKind.TEMPERATURE)
    found = []
    for place in range(means.epochs):
        of_cores = [core[place] for core in cores]
        found.append(
            MachineReadings(
                cpu_share=cpu[place],
                busiest_core_share=_largest(of_cores) if of_cores else busiest[place],
                core_shares=tuple(of_cores),
                gpu_share=gpu[place],
                memory_controller_share=emc[place],
                memory_bytes=memory[place],
                gpu_memory_bytes=gpu_memory[place],
                read_bytes_per_s=reads[place],
                reads_per_s=requests[0][place] if requests else None,
                cpu_hz=_largest([clock[place] for clock in clocks]),
                gpu_hz=gpu_hz[place],
                memory_hz=emc_hz[place],
                temp_c=hottest[place],
                rails_w=_rails(means, place),
            )
        )
    return found


def _rails(means: _Means, place: int) -> Mapping[str, float]:
    known = {name: each[place] for (kind, name), each in means.by.items() if kind is TraceKind.POWER}
    return {name: value for name, value in known.items() if value is not None}


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
