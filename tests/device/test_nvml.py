"""NVML through ctypes: each metric on its own, whatever the others do."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from edgetrain.device.host import HostDevice
from edgetrain.device.nvml import NvmlProbe
from edgetrain.errors import ProbeUnavailable


@pytest.fixture(autouse=True)
def _one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


def test_every_metric_arrives_in_our_units(nvml_library: str) -> None:
    probe = NvmlProbe(nvml_library)
    row = dict(zip(probe.columns, probe.read(), strict=True))
    assert row["gpu_share"] == 0.63
    assert row["gpu_hz"] == 1980e6
    assert row["gpu_memory_bytes"] == 2**33
    assert row["gpu_power_w"] in (110, 140, 170, 200, 230, 260, 290)
    assert row["gpu_power_average_w"] == 200
    assert row["gpu_temp_c"] == 41


@pytest.mark.parametrize("lacks, column", [("energy", "gpu_energy_j"), ("share", "gpu_share"), ("clock", "gpu_hz")])
def test_a_metric_the_gpu_lacks_has_no_column_and_harms_no_other(
    nvml_library: str, monkeypatch: pytest.MonkeyPatch, lacks: str, column: str
) -> None:
    whole = set(NvmlProbe(nvml_library).columns)
    monkeypatch.setenv("STAND_IN_LACKS", lacks)
    assert set(NvmlProbe(nvml_library).columns) == whole - {column}


def test_without_the_instant_field_power_is_the_usage_reading(
    nvml_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_LACKS", "instant")
    probe = NvmlProbe(nvml_library)
    row = dict(zip(probe.columns, probe.read(), strict=True))
    assert row["gpu_power_w"] == 200
    assert "gpu_power_average_w" not in row


def test_a_gpu_lost_while_running_reads_nan_and_does_not_raise(
    nvml_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = NvmlProbe(nvml_library)
    monkeypatch.setenv("STAND_IN_LOST_AFTER", "0")
    assert all(math.isnan(value) for value in probe.read())


def test_the_counter_is_the_integral_of_the_power(nvml_library: str) -> None:
    probe = NvmlProbe(nvml_library)
    energy = list(probe.columns).index("gpu_energy_j")
    began, before = time.monotonic(), probe.read()[energy]
    time.sleep(0.3)
    after, ended = probe.read()[energy], time.monotonic()
    assert (after - before) / (ended - began) == pytest.approx(200, rel=0.15)


def test_the_refresh_period_is_found_by_reading_faster_than_it(nvml_library: str) -> None:
    refresh_s = NvmlProbe(nvml_library).refresh_s("gpu_power_w")
    assert refresh_s == pytest.approx(0.020, abs=0.006)


def test_a_reading_that_never_changes_has_no_known_refresh(nvml_library: str) -> None:
    assert NvmlProbe(nvml_library).refresh_s("gpu_temp_c") is None


def test_the_power_source_refreshes_no_faster_than_it_is_read(nvml_library: str) -> None:
    probe = NvmlProbe(nvml_library)
    source = probe.power_source()
    assert source is not None and source.refresh_s == probe.period_s
    assert source.counter_column == "gpu_energy_j" and source.columns == ("gpu_power_w",)


def test_a_throttle_is_reported_once(nvml_library: str) -> None:
    probe = NvmlProbe(nvml_library)
    probe.read()
    probe.read()
    events = probe.pop_events()
    assert [event.kind for event in events] == ["throttle"] and "thermal" in events[0].text
    assert probe.pop_events() == []


@pytest.mark.parametrize(
    "asked, count", [(None, 2), ("1", 1), ("GPU-bbbb,GPU-aaaa", 2), ("0,7,1", 1), ("", 0), ("-1", 0)]
)
def test_visible_gpus_are_those_that_cuda_would_see(
    nvml_library: str, monkeypatch: pytest.MonkeyPatch, asked: str | None, count: int
) -> None:
    if asked is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    if not count:
        with pytest.raises(ProbeUnavailable, match="no GPU"):
            NvmlProbe(nvml_library)
        return
    probe = NvmlProbe(nvml_library)
    assert len(probe.gpus) == count
    assert ("gpu1_power_w" in probe.columns) == (count == 2)


def test_no_library_and_no_gpu_say_so_when_built(nvml_library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProbeUnavailable, match=r"libnothing\.so"):
        NvmlProbe("libnothing.so")
    monkeypatch.setenv("STAND_IN_NO_GPU", "1")
    with pytest.raises(ProbeUnavailable, match="no GPU"):
        NvmlProbe(nvml_library)


def test_a_host_with_a_gpu_knows_its_name_and_powers_by_it(nvml_library: str) -> None:
    device = HostDevice(Path("/"), nvml_library)
    assert device.spec.kind == "nvml" and device.spec.gpu == "Stand-in"
    source = device.total_power()
    assert source is not None and source.scope == "gpu"
    assert source is device.total_power()  # measured once
