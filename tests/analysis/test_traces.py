"""What the sampler read becomes traces in base units; long ones become bins that keep every extreme."""

from __future__ import annotations

import numpy as np
import pytest

from edgetrain.analysis import TraceKind, put_in_bins, rate, summarize, traces
from edgetrain.inside.stream import StreamWriter
from edgetrain.record import FolderStore


def columns(path, probe, names, rows) -> None:
    writer = StreamWriter(str(path / f"samples-{probe}.ets"), probe, (("at_us", "delta"), *((n, "f8") for n in names)))
    for row in rows:
        writer.add(row)
    writer.close()


@pytest.fixture
def run(record):
    """Return a run of about four seconds with samples of processors, disk, clocks and temperatures."""
    name = record(epochs=2, minibatches=40, workload={"network": "lenet5", "storage_device": "/dev/nvme0n1p2"})
    path = FolderStore(record.store).path / "runs" / name
    at = [1_000_000_000 + 100_000 * step for step in range(45)]
    cpu = ("cpu_share", "cpu0_share", "cpu1_share", "cpu0_hz", "cpu1_hz")
    columns(path, "cpu", cpu, [(t, 0.5, 0.25, 0.75, 1e9, 2e9) for t in at])
    disk = ("nvme0n1_reads", "nvme0n1_read_bytes", "sda_reads", "sda_read_bytes")
    columns(path, "disk", disk, [(t, 10.0 * i, 1000.0 * i, 0.0, 0.0) for i, t in enumerate(at)])
    columns(path, "gpu", ("gpu_share", "gpu_hz", "gpu_temp_c"), [(t, 0.9, 1.3e9, 50.0 + i) for i, t in enumerate(at)])
    return FolderStore(record.store).open(name)


def test_epochs_have_utilisation_iops_clocks_and_the_highest_temperature(run) -> None:
    machine = summarize(run).epochs[0].machine
    assert machine is not None
    assert machine.cpu_share == pytest.approx(0.5) and machine.busiest_core_share == pytest.approx(0.75)
    assert machine.core_shares == pytest.approx((0.25, 0.75)) and machine.gpu_share == pytest.approx(0.9)
    assert machine.reads_per_s == pytest.approx(100.0)  # 10 requests every 0.1 s, of the dataset's device only
    assert machine.cpu_hz == pytest.approx(2e9) and machine.gpu_hz == pytest.approx(1.3e9)
    assert machine.temp_c is not None and 60 < machine.temp_c < 80
    assert machine.rails_w["total"] == pytest.approx(20.0, abs=0.5)


def test_a_run_without_telemetry_has_no_readings(record) -> None:
    run = FolderStore(record.store).open(record(power_w=None))
    assert traces(run) == () and summarize(run).epochs[0].machine is None


def test_traces_come_in_the_order_of_a_report_and_name_cores_and_clusters(run) -> None:
    found = traces(run)
    kinds = list(dict.fromkeys(trace.kind for trace in found))
    assert kinds == sorted(kinds, key=list(TraceKind).index)
    assert [trace.name for trace in found if trace.kind is TraceKind.CLOCK] == ["CPU 0", "CPU 1", "GPU"]
    assert [trace.name for trace in found if trace.kind is TraceKind.REQUESTS] == ["nvme0n1, read"]


def test_a_counter_that_failed_once_is_passed_over() -> None:
    at, found = rate(np.array([0, 1_000_000, 2_000_000]), np.array([0.0, np.nan, 10.0]))
    assert at.tolist() == [2_000_000] and found.tolist() == [5.0]
    assert rate(np.array([0]), np.array([1.0]))[1].size == 0


@pytest.mark.parametrize("count", [1, 7, 240, 10_000])
def test_bins_keep_the_smallest_the_largest_and_the_mean(count: int) -> None:
    draw = np.random.default_rng(count)
    at, values = np.sort(draw.uniform(0, 100, count)), draw.normal(size=count)
    bins = put_in_bins(at, values, 0.0, 100.0, 50)
    assert np.nanmin(bins.low) == values.min() and np.nanmax(bins.high) == values.max()
    known = np.isfinite(bins.mean)
    assert (bins.low[known] <= bins.mean[known] + 1e-12).all() and len(bins) <= 50


def test_a_gap_in_a_trace_stays_a_gap() -> None:
    at = np.concatenate([np.arange(0.0, 40.0), np.arange(60.0, 100.0)])
    bins = put_in_bins(at, np.ones(80), 0.0, 100.0, 80)
    middle = np.linspace(0, 100, 81)[:-1] + 0.6
    assert np.isnan(bins.mean[(middle > 43) & (middle < 57)]).all()
    assert np.isfinite(bins.mean[middle < 38]).all()


def test_bins_of_nothing_are_empty() -> None:
    bins = put_in_bins(np.zeros(0), np.zeros(0), 0.0, 1.0, 10)
    assert np.isnan(bins.mean).all() and bins.each == 0
