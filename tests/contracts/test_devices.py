"""What every device keeps, whatever it is: this host, a folder, a GPU in C, a simulated board."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetrain.device import Device, Probe, open_device
from edgetrain.device.host import HostDevice
from edgetrain.documents import to_document
from edgetrain.sampling import encoding_of
from edgetrain.schema import DeviceSpec, ModeSpace, PowerMode
from tests import boards
from tests.device import host_tree

BOARDS = ("orin-agx", "orin-nano", "xavier-agx", "xavier-nx", "nano")
UNITS = (
    "_share",
    "_pct",
    "_w",
    "_j",
    "_c",
    "_hz",
    "_bytes",
    "_s",
    "_v",
    "_a",
    "_pm",
    "_length",
    "_count",
    "_cores",
    "_rpm",
)
COUNTS = ("_reads", "_writes", "_alarm", "_alarms", "_mask", "_events", "_files", "_state", "_throttled")
SCOPES = {"module", "board", "gpu", "cpu package"}

Maker = Callable[[Path], Device]


def _tree(folder: Path) -> Device:
    return HostDevice(host_tree.build(folder))


MAKERS: dict[str, Maker] = {
    "host": lambda folder: open_device("host"),
    "folder": _tree,
    "empty folder": lambda folder: HostDevice(folder),
}
MAKERS.update(
    {f"sim:{board}": (lambda folder, board=board: open_device(f"sim:{board}@{folder / 'board'}")) for board in BOARDS}
)
MAKERS.update(
    {name: (lambda folder, name=name: boards.open_fixture(name, folder)) for name in (*boards.PAIRS, *boards.VARIANTS)}
)


@pytest.fixture(params=MAKERS)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Device:
    return MAKERS[request.param](tmp_path)


@pytest.fixture
def probes(device: Device):
    opened = device.probes()
    yield opened
    for probe in opened:
        probe.close()


def test_it_is_a_device_with_a_name(device: Device) -> None:
    assert isinstance(device, Device)
    assert isinstance(device.spec, DeviceSpec) and device.spec.name and device.spec.kind


def test_describing_it_opens_no_sensor(device: Device) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert device.spec.kind and device.clock.now_ns() > 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_its_probes_are_probes_with_names_of_their_own(probes: list[Probe]) -> None:
    assert all(isinstance(probe, Probe) for probe in probes)
    names = [probe.name for probe in probes]
    assert len(set(names)) == len(names)
    assert all(0 < probe.period_s <= 60 and isinstance(probe.blocking, bool) for probe in probes)


def test_columns_are_distinct_and_end_in_their_unit(probes: list[Probe]) -> None:
    for probe in probes:
        columns = list(probe.columns)
        assert columns and len(set(columns)) == len(columns)
        odd = [column for column in columns if not column.endswith(UNITS + COUNTS)]
        assert not odd, f"{probe.name}: {odd}"


def test_a_reading_has_one_number_for_each_column_every_time(probes: list[Probe]) -> None:
    for probe in probes:
        columns = list(probe.columns)
        for _ in range(5):
            row = probe.read()
            assert len(row) == len(columns), probe.name
            assert all(isinstance(float(value), float) for value in row)
        assert list(probe.columns) == columns


def test_shares_lie_between_0_and_1_and_nothing_is_infinite(probes: list[Probe]) -> None:
    for probe in probes:
        for _ in range(3):
            for column, value in zip(probe.columns, probe.read(), strict=True):
                assert not math.isinf(value)
                if column.endswith("_share") and value == value:
                    assert 0 <= value <= 1, f"{probe.name}.{column}"


def test_counters_never_fall(probes: list[Probe]) -> None:
    for probe in probes:
        kinds = [column.endswith(("_j", "_reads", "_read_bytes", "_read_s")) for column in probe.columns]
        last = [-math.inf] * len(kinds)
        for _ in range(5):
            row = list(probe.read())
            assert all(new >= old for new, old, counts in zip(row, last, kinds, strict=True) if counts and new == new)
            last = [new if new == new else old for new, old in zip(row, last, strict=True)]


def test_what_counts_as_power_is_among_the_readings(device: Device, probes: list[Probe]) -> None:
    source = device.total_power()
    if source is None:
        return
    columns = {probe.name: set(probe.columns) for probe in probes}
    wanted = {*source.columns, *([source.counter_column] if source.counter_column else [])}
    assert wanted <= columns[source.stream]
    assert source.scope in SCOPES
    assert source.refresh_s is None or source.refresh_s > 0
    assert source.quantum_w is None or source.quantum_w >= 0
    assert set(to_document(source)) == {"stream", "columns", "counter_column", "scope", "refresh_s", "quantum_w"}


def test_closing_twice_is_safe_and_gives_every_descriptor_back(device: Device) -> None:
    for probe in device.probes():  # libraries and caches opened once are no leak
        probe.close()
    before = len(os.listdir("/proc/self/fd"))
    for probe in device.probes():
        probe.read()
        probe.close()
        probe.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_findings_say_why_where_something_does_not_work(device: Device) -> None:
    findings = device.findings()
    assert findings
    assert all(finding.detail for finding in findings if finding.works is False)


def test_power_modes_come_with_a_control_or_not_at_all(device: Device) -> None:
    space, control = device.modes(), device.control()
    assert (space is None) == (control is None)
    if control is not None:
        assert isinstance(space, ModeSpace) and isinstance(control.read(), PowerMode) and control.held() is None


def test_counters_are_stored_in_eight_bytes() -> None:
    assert {encoding_of(name) for name in ("gpu_energy_j", "vda_reads", "read_bytes", "cpu_s")} == {"f8"}
    assert {encoding_of(name) for name in ("cpu0_share", "gpu_power_w", "soc_temp_c", "cpu0_hz")} == {"f4"}
