"""A run in Prometheus' text format: base units, counters that end in _total, rails and parts as labels.

The power of single rails and the total are different metrics, because rails may contain each other: a sum over rails
would count some watts twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetrain.analysis import StallCauses, Summary, Trace, TraceKind, traces
from edgetrain.record import Run

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PARTS = ("fetch_stall", "copy", "compute", "overhead")
CAUSES = ("blocked", "preprocess", "contention", "handover")
GAUGES = {
    TraceKind.CPU: ("edgetrain_cpu_utilization_ratio", "Share of time that cores are busy.", "core"),
    TraceKind.GPU: ("edgetrain_accelerator_utilization_ratio", "Share of time that a unit is busy.", "unit"),
    TraceKind.MEMORY: ("edgetrain_memory_bytes", "Memory, by use.", "use"),
    TraceKind.READS: ("edgetrain_storage_read_bytes_per_second", "Bytes read per second.", "by"),
    TraceKind.REQUESTS: ("edgetrain_storage_read_requests_per_second", "Read requests per second.", "device"),
    TraceKind.CACHE: ("edgetrain_dataset_cached_ratio", "Share of the dataset in the page cache.", "what"),
    TraceKind.POWER: ("edgetrain_rail_power_watts", "Power of one rail; rails may contain each other.", "rail"),
    TraceKind.CLOCK: ("edgetrain_clock_hertz", "Clock.", "unit"),
    TraceKind.TEMPERATURE: ("edgetrain_temperature_celsius", "Temperature.", "sensor"),
    TraceKind.FAN: ("edgetrain_fan_ratio", "Share of the fan's full speed.", "fan"),
}


@dataclass
class Metric:
    """One metric: its help, its type and one value per set of labels."""

    name: str
    help: str
    kind: str  # counter | gauge
    values: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Return it in the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.values:
            inside = ",".join(f'{name}="{escape_label(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{inside}}} {value:.10g}"


def escape_label(text: str) -> str:
    """Escape a value as the format demands."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def prometheus_text(run: Run, summary: Summary) -> str:
    """Return what is known of a run: its totals so far, and the newest reading of every sensor."""
    known = [*_totals(summary), *_gauges(summary.run, summary.power_scope, traces(run))]
    return "\n".join(line for metric in known if metric.values for line in metric.lines()) + "\n"


def _totals(summary: Summary) -> Iterator[Metric]:
    run, epochs = {"run": summary.run}, summary.epochs
    about = {
        **run,
        "state": summary.state,
        "origin": str(summary.origin),
        "network": summary.workload.network or "",
        "device": summary.device.name or "",
        "campaign": summary.campaign or "",
    }
    yield Metric("edgetrain_run_info", "A run; always 1.", "gauge", [(about, 1.0)])
    count = Metric("edgetrain_minibatches_total", "Minibatches that were trained on.", "counter")
    count.values.append((run, float(sum(epoch.minibatches for epoch in epochs))))
    yield count
    yield Metric("edgetrain_epochs_total", "Epochs.", "counter", [(run, float(len(epochs)))])
    time = Metric("edgetrain_training_seconds_total", "Training time by part; parts add up.", "counter")
    for part in PARTS:
        values = [getattr(epoch, f"{part}_s") for epoch in epochs]
        seconds = [value for value in values if value is not None]
        if seconds and len(seconds) == len(epochs):
            time.values.append(({**run, "part": part}, sum(seconds)))
    yield time
    stall = Metric("edgetrain_fetch_stall_seconds_total", "Fetch stall by cause.", "counter")
    causes = [epoch.stall_by for epoch in epochs if epoch.stall_by is not None]
    if causes and len(causes) == len(epochs):
        stall.values += [({**run, "cause": name}, _cause_s(causes, name)) for name in CAUSES]
    yield stall
    energy = Metric("edgetrain_energy_joules_total", "Energy of the total rail, over all epochs.", "counter")
    joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
    if joules and len(joules) == len(epochs):
        energy.values.append(({**run, "scope": summary.power_scope or ""}, sum(joules)))
    yield energy


def _cause_s(causes: Sequence[StallCauses], name: str) -> float:
    return float(sum(getattr(cause, f"{name}_s") for cause in causes))


def _gauges(run: str, scope: str | None, known: Sequence[Trace]) -> Iterator[Metric]:
    total = Metric("edgetrain_power_watts", "Total power of what the board measures.", "gauge")
    metrics = {kind: Metric(name, text, "gauge") for kind, (name, text, _) in GAUGES.items()}
    for trace in known:
        read = trace.values[np.isfinite(trace.values)]
        if not len(read):
            continue
        newest = float(read[-1])
        if trace.kind is TraceKind.POWER and trace.main:
            total.values.append(({"run": run, "scope": scope or ""}, newest))
        else:
            metrics[trace.kind].values.append(({"run": run, GAUGES[trace.kind][2]: trace.name}, newest))
    yield total
    yield from metrics.values()
