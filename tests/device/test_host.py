"""The host's probes, on a folder that stands in for a machine and on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgetrain.device import detect, open_device
from edgetrain.device.host import HostDevice
from edgetrain.device.kept import KeptFile
from edgetrain.device.opening import is_jetson
from edgetrain.device.proc import CpuProbe, DiskProbe, MemoryProbe
from edgetrain.device.refresh import measure_refresh_s
from edgetrain.device.storage import medium_of, same_medium
from edgetrain.device.thermal import ThermalProbe
from edgetrain.errors import ProbeUnavailable, UsageError
from tests.device import host_tree
from tests.torture import telemetry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host_tree.build(tmp_path)


def row(probe: object) -> dict[str, float]:
    return dict(zip(probe.columns, probe.read(), strict=True))


def seconds(*instants: float) -> Callable[[], int]:
    left: Iterator[float] = iter(instants)
    return lambda: int(next(left) * 1e9)


def test_core_shares_are_what_the_ticks_between_two_readings_say(root: Path) -> None:
    probe = CpuProbe(root, seconds(0, 1))
    first = row(probe)
    assert math.isnan(first["cpu0_share"]) and math.isnan(first["pressure_io_share"])
    host_tree.stat(root, 150, 1100)  # core 0: 50 busy of 100; core 1: 0 of 100
    host_tree.write(root, "proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=252000\nfull total=0\n")
    second = row(probe)
    assert second["cpu0_share"] == pytest.approx(0.5)
    assert second["cpu1_share"] == 0.0
    assert second["cpu_share"] == pytest.approx(50 / 250)
    assert second["pressure_io_share"] == pytest.approx(0.25)
    assert second["queue_length"] == 3  # four runnable, one of them the reader
    assert second["cpu1_hz"] == 2_000_001_000


def test_counters_that_run_backwards_give_no_share_outside_0_and_1(root: Path) -> None:
    probe = CpuProbe(root, seconds(0, 1, 1, 2))
    for busy, idle in ((100, 1000), (50, 1200), (50, 1200), (900, 1100)):
        host_tree.stat(root, busy, idle)
        shares = [value for name, value in row(probe).items() if name.endswith("_share")]
        assert all(math.isnan(share) or 0 <= share <= 1 for share in shares)


def test_a_core_that_goes_offline_reads_nan_and_the_rest_stands(root: Path) -> None:
    probe = CpuProbe(root, seconds(0, 1))
    probe.read()
    host_tree.stat(root, 150, 1100)
    text = (root / "proc/stat").read_text()
    (root / "proc/stat").write_text("".join(line for line in text.splitlines(True) if not line.startswith("cpu1")))
    (root / "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq").write_text("")
    second = row(probe)
    assert math.isnan(second["cpu1_share"]) and math.isnan(second["cpu1_hz"])
    assert second["cpu0_share"] == pytest.approx(0.5)


@pytest.mark.parametrize("garbage", ["", "cpu", "cpu x y z\n", "\x00\xff" * 50, "cpu0 1 2 3\n"])
def test_garbage_in_proc_stat_is_nan_not_an_error(root: Path, garbage: str) -> None:
    probe = CpuProbe(root)
    probe.read()
    (root / "proc/stat").write_text(garbage)
    assert all(math.isnan(value) for name, value in row(probe).items() if name.startswith("cpu0_share"))


def test_memory_is_in_bytes_and_swap_is_what_is_used(root: Path) -> None:
    found = row(MemoryProbe(root))
    assert found["available_bytes"] == 5_000_000 * 1024
    assert found["swap_used_bytes"] == 500_000 * 1024


def test_disks_that_hold_nothing_and_partitions_have_no_columns(root: Path) -> None:
    probe = DiskProbe(root)
    assert probe.devices == ["nvme0n1"]
    found = row(probe)
    assert found["nvme0n1_read_bytes"] == 2048 * 512
    assert found["nvme0n1_read_s"] == 1.5
    assert found["nvme0n1_busy_s"] == 0.9


def test_a_disk_that_is_pulled_reads_nan(root: Path) -> None:
    probe = DiskProbe(root)
    (root / "proc/diskstats").write_text("   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n")
    assert all(math.isnan(value) for value in probe.read())


def test_temperatures_have_distinct_names_and_nonsense_is_nan(root: Path) -> None:
    found = row(ThermalProbe(root))
    assert found["x86_pkg_temp_c"] == pytest.approx(45.5)
    assert math.isnan(found["x86_pkg_temp_2_c"])
    assert found["nvme_composite_c"] == pytest.approx(38.85)


def test_a_file_that_cannot_be_read_is_counted_not_raised(tmp_path: Path) -> None:
    # A folder opens like a file and refuses every read, as a busy sensor does.
    file = KeptFile(tmp_path)
    assert file.read() == b"" and math.isnan(file.number())
    assert file.failures == 2


def test_a_sensor_that_comes_back_is_read_again() -> None:
    file = KeptFile("/proc/self/stat")
    file.close()
    assert any(file.read() for _ in range(100))


def test_a_machine_without_any_sensor_is_still_a_device(tmp_path: Path) -> None:
    device = HostDevice(tmp_path)
    assert device.probes() == []
    assert device.total_power() is None
    assert all(finding.works is False and finding.detail for finding in device.findings())


def test_a_tree_is_described_from_its_own_files(root: Path) -> None:
    spec = HostDevice(root).spec
    assert (spec.cores, spec.ram_bytes, spec.model) == (2, 8_000_000 * 1024, "Example 9000")
    assert dict(spec.extra)["governor"] == "schedutil"


def test_a_device_tree_of_nvidia_makes_a_jetson_and_nothing_else_does(tmp_path: Path) -> None:
    assert not is_jetson(tmp_path)
    host_tree.write(tmp_path, "proc/device-tree/compatible", "nvidia,p3737-0000\0nvidia,tegra234\0")
    assert is_jetson(tmp_path)


def test_an_unknown_device_is_a_usage_error_that_says_what_to_write() -> None:
    with pytest.raises(UsageError, match="sim:orin-agx"):
        open_device("toaster")


def test_this_machine_has_cores_memory_and_probes_that_read_quickly() -> None:
    device = detect()
    assert device.spec.cores and device.spec.ram_bytes
    for probe in device.probes():
        probe.read()
        began = time.perf_counter()
        assert len(probe.read()) == len(probe.columns)
        assert time.perf_counter() - began < 0.5, probe.name
        probe.close()


def test_a_path_lies_on_a_filesystem_even_if_it_does_not_exist_yet(tmp_path: Path) -> None:
    found = medium_of(tmp_path / "not" / "yet")
    assert found.filesystem and found.mount
    assert same_medium(tmp_path, tmp_path / "other")


def test_memory_filesystems_are_distinguished_from_disks() -> None:
    if not Path("/dev/shm").is_dir() or medium_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("no tmpfs at /dev/shm")
    assert medium_of(Path("/dev/shm")).medium == "ram"


def test_a_refresh_period_is_found_on_a_clock_turned_by_hand() -> None:
    now = [0]

    def sleep(step_s: float) -> None:
        now[0] += int(step_s * 1e9)

    found = measure_refresh_s(lambda: now[0] // 25_000_000, 1.0, 0.001, lambda: now[0], sleep)
    assert found == pytest.approx(0.025)


def test_a_probe_that_cannot_be_built_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ProbeUnavailable, match="proc/stat"):
        CpuProbe(tmp_path)


def test_garbled_kernel_files_raise_nothing_and_pass_for_nothing() -> None:
    assert "raised, every share was between 0 and 1" in telemetry.run(200, seed=1)
