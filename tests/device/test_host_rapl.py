"""Energy counters of processor packages: summed, unwrapped, never guessed."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from edgetrain.device.host import HostDevice
from edgetrain.device.rapl import RaplProbe
from edgetrain.errors import ProbeUnavailable
from tests.device import host_tree

RANGE_UJ = 262143328850


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host_tree.build(tmp_path)


def set_energy(root: Path, package: int, microjoules: int | str) -> None:
    host_tree.write(root, f"sys/class/powercap/intel-rapl:{package}/energy_uj", f"{microjoules}\n")


def test_packages_are_summed_and_what_lies_inside_them_is_not_added_again(root: Path) -> None:
    clock = iter([0, 10**9])
    probe = RaplProbe(root, lambda: next(clock))
    probe.read()
    set_energy(root, 0, 1_000_000 + 30_000_000)
    set_energy(root, 1, 1_000_000 + 12_000_000)
    host_tree.write(root, "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj", "9000500\n")
    row = dict(zip(probe.columns, probe.read(), strict=True))
    assert row["package_j"] == pytest.approx(42)
    assert row["package_w"] == pytest.approx(42)
    assert row["part_of_package_0_dram_j"] == pytest.approx(9)


def test_the_sum_follows_the_truth_through_any_number_of_wraps(root: Path) -> None:
    draws = random.Random(3)
    hours = iter(range(1000))
    probe = RaplProbe(root, lambda: next(hours) * 3600 * 10**9)
    truth_uj = 1_000_000
    for _ in range(200):
        truth_uj += draws.randrange(RANGE_UJ)
        set_energy(root, 0, truth_uj % RANGE_UJ)
        energy_j = dict(zip(probe.columns, probe.read(), strict=True))["package_j"]
        assert energy_j == pytest.approx((truth_uj - 1_000_000) * 1e-6, rel=1e-9)


def test_a_reading_that_fails_is_nan_and_costs_no_energy_afterwards(root: Path) -> None:
    probe = RaplProbe(root)
    set_energy(root, 0, "nonsense")
    assert math.isnan(probe.read()[1])
    set_energy(root, 0, 3_000_000)
    assert probe.read()[1] == pytest.approx(2.0)


def test_a_counter_that_was_reset_is_not_taken_for_a_wrap(root: Path) -> None:
    seconds = iter(range(10))
    probe = RaplProbe(root, lambda: next(seconds) * 10**9)
    probe.read()
    set_energy(root, 0, 50_000_000)  # 49 J in a second
    assert probe.read()[1] == pytest.approx(49)
    set_energy(root, 0, 1000)
    assert math.isnan(probe.read()[1])
    set_energy(root, 0, 7_001_000)
    assert probe.read()[1] == pytest.approx(56)


def test_without_counters_there_is_no_probe_and_no_power(tmp_path: Path) -> None:
    with pytest.raises(ProbeUnavailable, match="no package"):
        RaplProbe(tmp_path)
    assert HostDevice(tmp_path).total_power() is None


def test_counters_nobody_may_read_come_with_the_line_that_allows_it(root: Path) -> None:
    for path in (root / "sys/class/powercap").rglob("energy_uj"):
        path.unlink()
        path.mkdir()  # opens, but cannot be read: what a refused counter looks like, for root too
    findings = [finding for finding in HostDevice(root).findings() if finding.area == "power"]
    assert [finding.works for finding in findings] == [False]
    assert findings[0].fix is not None and findings[0].fix.startswith("sudo chmod a+r /sys/class/powercap")


def test_a_host_with_counters_powers_by_its_packages(root: Path) -> None:
    source = HostDevice(root).total_power()
    assert source is not None
    assert (source.stream, source.scope, source.counter_column) == ("rapl", "cpu package", "package_j")
