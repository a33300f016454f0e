"""The sampler beside training: on time, cheap, and alive whatever its sensors do."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgetrain.record import read_run
from edgetrain.record.decoder import read_stream
from edgetrain.sampling import Sampler
from edgetrain.sampling.limiter import (
    MAX_CPU_SHARE,
    MAX_POWER_CPU_SHARE,
    MAX_SLOWDOWN,
    MAX_TOTAL_CPU_SHARE,
    MAX_WALL_SHARE,
    ProbeRate,
    RateLimiter,
)
from edgetrain.sampling.monitor import ClockMonitor
from edgetrain.sampling.schedule import ScheduledProbe

COMMAND = [sys.executable, "-m", "edgetrain.sampling"]


class Given:
    """A probe that does what the test says."""

    def __init__(self, read: Callable[[], Sequence[float]], columns: Sequence[str] = ("x_w", "y_w")) -> None:
        self.name, self.period_s, self.columns, self.blocking = "given", 0.01, columns, False
        self.read = read

    def read(self) -> Sequence[float]:
        raise NotImplementedError

    def close(self) -> None:
        raise OSError("it does not even close")


def scheduled(
    probe: Given, folder: Path, start_us: int = 0, power: bool = True, own_thread: bool = False, name: str | None = None
) -> ScheduledProbe:
    return ScheduledProbe(probe, folder, start_us, ProbeRate(power, own_thread), name)


def ignore(kind: str, text: str, **facts: object) -> None:
    """Report nothing."""


def watched(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", str(seconds)])


def sample(run: Path, pid: int, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, "--run", str(run), "--device", "host", "--watch-pid", str(pid), *options])


def wait_for(what: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.02)
    return what()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of this machine, with a dataset of a few files."""
    run = tmp_path_factory.mktemp("run")
    data = tmp_path_factory.mktemp("data")
    for index in range(20):
        (data / f"{index}.bin").write_bytes(b"x" * 10_000)
    training = watched(4)
    process = sample(run, training.pid, "--dataset", str(data))
    training.wait()
    assert process.wait(10) == 0
    return run


def test_it_ends_with_the_training_and_every_stream_reads_back(sampled: Path) -> None:
    account = json.loads((sampled / "sampler.json").read_text())
    assert account["state"] == "ended: the watched process ended"
    for name in ("cpu", "memory", "disk", "process", "load", "residency"):
        stream = read_stream(sampled / f"samples-{name}.ets")
        assert stream.skipped_bytes == 0 and len(stream.table) >= 1, name
    assert account["written_bytes"] >= sum(path.stat().st_size for path in sampled.glob("*.ets"))


def test_readings_lie_on_a_grid_that_does_not_drift(sampled: Path) -> None:
    at_us = read_stream(sampled / "samples-cpu.ets").table["at_us"][:-1]  # the last is the final reading
    assert len(at_us) >= 25
    assert np.all(np.diff(at_us) > 0)
    # Where each reading lies between two lines of a 0.1 s grid: any one may be late, but the typical place at the end
    # is the typical place at the start.
    place_us = (at_us - at_us.min()) % 100_000
    moved_us = (np.median(place_us[-12:]) - np.median(place_us[:12]) + 50_000) % 100_000 - 50_000
    assert abs(moved_us) < 25_000


def test_the_dataset_just_written_is_seen_in_the_page_cache(sampled: Path) -> None:
    columns = read_stream(sampled / "samples-residency.ets").table
    assert columns["cached_share"][0] == 1.0 and columns["sampled_files"][0] == 20


def test_it_says_what_it_cost(sampled: Path) -> None:
    account = json.loads((sampled / "sampler.json").read_text())
    assert 0 < account["start_cpu_s"] < account["cpu_s"] < 2
    assert account["cpu_share"] < 0.05  # the claim of 1 % is a benchmark's, on a quiet machine
    assert set(account["per_probe"]) >= {"cpu", "memory", "disk", "process", "load", "residency"}
    assert all(each["mean_s"] > 0 for each in account["per_probe"].values() if each["reads"])
    assert account["late_p50_s"] <= account["late_p99_s"]


def test_asked_to_stop_it_stops_at_once_and_leaves_the_training_alone(tmp_path: Path) -> None:
    training = watched(60)
    process = sample(tmp_path, training.pid)
    assert wait_for((tmp_path / "samples-cpu.ets").exists)
    assert wait_for(lambda: (tmp_path / "sampler.json").exists())
    process.send_signal(signal.SIGINT)  # Ctrl-C is for the training; the sampler stays for its last seconds
    time.sleep(0.3)
    assert process.poll() is None
    began = time.monotonic()
    process.terminate()
    assert process.wait(10) == 0 and time.monotonic() - began < 5
    assert training.poll() is None
    assert json.loads((tmp_path / "sampler.json").read_text())["state"] == "ended: asked to stop"
    training.kill()
    training.wait()


def test_it_ends_when_its_parent_dies(tmp_path: Path) -> None:
    training = watched(60)
    command = [*COMMAND, "--run", str(tmp_path), "--device", "host", "--watch-pid", str(training.pid)]
    code = f"import subprocess, time; p = subprocess.Popen({command!r}); print(p.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    parent.stdout.readline()
    assert wait_for((tmp_path / "sampler.json").exists)
    parent.kill()
    parent.wait()
    account = tmp_path / "sampler.json"
    assert wait_for(lambda: "the parent ended" in account.read_text())
    training.kill()
    training.wait()


def test_killed_it_leaves_what_it_had_flushed(tmp_path: Path) -> None:
    training = watched(60)
    process = sample(tmp_path, training.pid)
    assert wait_for(lambda: (tmp_path / "samples-cpu.ets").exists())
    time.sleep(2.5)
    process.kill()
    process.wait()
    stream = read_stream(tmp_path / "samples-cpu.ets")
    assert len(stream.table) >= 8 and stream.skipped_bytes == 0
    training.kill()
    training.wait()


def test_a_dataset_asked_for_at_an_epochs_end_is_read_then(tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    run.mkdir()
    (data / "a").write_bytes(b"x" * 5000)
    training = watched(60)
    process = sample(run, training.pid, "--dataset", str(data), "--exact")
    assert wait_for((run / "sampler.json").exists)
    time.sleep(0.5)
    (run / "inside.json").write_text("{}")
    time.sleep(1.6)
    process.terminate()
    process.wait(10)
    assert len(read_stream(run / "samples-residency.ets").table) == 3  # at the start, at the epoch, at the end
    training.kill()
    training.wait()


def test_a_device_that_does_not_exist_still_gives_a_record_of_the_processes(tmp_path: Path) -> None:
    training = watched(1.5)
    process = subprocess.Popen(
        [*COMMAND, "--run", str(tmp_path), "--device", "toaster", "--watch-pid", str(training.pid)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    training.wait()
    _, said = process.communicate(timeout=10)
    assert process.returncode == 0 and "unknown device 'toaster'" in said and "Traceback" not in said
    assert len(read_stream(tmp_path / "samples-process.ets").table) >= 5
    assert any("unknown device" in event.text for event in read_run(tmp_path).events)


def test_a_folder_that_cannot_be_written_is_a_sentence_not_a_traceback(tmp_path: Path) -> None:
    command = [*COMMAND, "--run", str(tmp_path / "nowhere"), "--device", "host", "--watch-pid", str(os.getpid())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert ran.returncode == 1 and "nowhere" in ran.stderr and "Traceback" not in ran.stderr


def test_the_sampler_imports_nothing_beyond_the_standard_library() -> None:
    code = "import sys, edgetrain.sampling.__main__; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("numpy", "torch", "psutil", "rich", "typer", "pydantic", "yaml"):
        assert f"'{name}'" not in loaded


def raises() -> Sequence[float]:
    raise BlockingIOError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize(
    "read",
    [raises, lambda: [1.0], lambda: [1.0, 2.0, 3.0], lambda: ["a", "b"], lambda: None, lambda: [1.0, None]],
    ids=["EAGAIN", "too few", "too many", "text", "nothing", "half nothing"],
)
def test_a_probe_that_misbehaves_gives_nan_and_is_counted(tmp_path: Path, read) -> None:
    lane = scheduled(Given(read), tmp_path)
    for _ in range(4):
        lane.read(ignore)
    account = lane.account()
    lane.close()
    columns = read_stream(tmp_path / "samples-given.ets").table
    assert account.broken == 4 and account.why
    assert np.all(np.isnan(columns["x_w"])) and len(columns["x_w"]) == 4
    assert lane.failed["x_w"] == 3  # the first reading of a share has no predecessor and is not counted


def test_one_bad_column_leaves_the_others_and_is_counted(tmp_path: Path) -> None:
    lane = scheduled(Given(lambda: [math.nan, 7.0]), tmp_path)
    for _ in range(5):
        lane.read(ignore)
    lane.close()
    assert lane.failed == {"x_w": 4}
    assert list(read_stream(tmp_path / "samples-given.ets").table["y_w"]) == [7.0] * 5


def test_numbers_too_large_for_their_column_are_stored_not_raised(tmp_path: Path) -> None:
    lane = scheduled(Given(lambda: [1e300, math.inf]), tmp_path)
    lane.read(ignore)
    lane.close()
    assert len(read_stream(tmp_path / "samples-given.ets").table) == 1


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_slow_probe_is_read_less_often_and_reported_once(own_thread: bool, tmp_path: Path) -> None:
    def slow() -> Sequence[float]:
        time.sleep(0.02)
        return [1.0, 2.0]

    reported: list[str] = []
    lane = scheduled(Given(slow), tmp_path, time.monotonic_ns() // 1000, own_thread=own_thread)
    for _ in range(30):
        lane.read(lambda kind, text, **facts: reported.append(text))
    if own_thread:  # it delays no other probe, so only its CPU time counts
        assert lane.rate.interval_s(0.01) < 0.1 and not reported
        return
    assert lane.due_us > time.monotonic_ns() // 1000
    assert lane.rate.interval_s(0.01) > 0.8 * 0.02 / MAX_WALL_SHARE
    assert len(reported) == 1 and "given is slow to read here (2" in reported[0] and "sampled every" in reported[0]


def test_a_probe_that_burns_cpu_keeps_to_its_share_of_a_core(tmp_path: Path) -> None:
    def busy() -> Sequence[float]:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return [1.0, 2.0]

    lane = scheduled(Given(busy, ("x_share", "y_bytes")), tmp_path, power=False)
    power = scheduled(Given(busy, ("x_w", "y_j")), tmp_path, own_thread=True, name="power")
    for _ in range(40):
        lane.read(ignore)
        power.read(ignore)
    assert lane.rate.interval_s(0.01) >= 0.9 * 0.002 / MAX_CPU_SHARE
    assert power.rate.interval_s(0.01) >= 0.9 * 0.002 / MAX_POWER_CPU_SHARE
    assert power.rate.interval_s(0.01) < 0.8 * lane.rate.interval_s(0.01)


def test_sampling_as_a_whole_keeps_to_its_share_of_a_core_by_reading_less_often(tmp_path: Path) -> None:
    limiter = RateLimiter()
    rate = limiter.add(0.01, measures_power=False, own_thread=False)
    lane = ScheduledProbe(Given(lambda: [1.0, 2.0]), tmp_path, time.monotonic_ns() // 1000, rate)
    now_s = cpu_s = 0.0

    def spend(*shares: float) -> int:
        nonlocal now_s, cpu_s
        for share in shares:  # a second each; the limiter looks at five
            now_s, cpu_s = now_s + 1, cpu_s + share * MAX_TOTAL_CPU_SHARE
            limiter.update(now_s, cpu_s)
        return rate.slowdown

    limiter.update(now_s, cpu_s)
    assert spend(*[0.9] * 10) == 1
    assert spend(0.9, 0.9, 1.3, 0.9, 0.9) == 1  # a brief spike
    assert spend(*[1.1] * 5) == 2
    assert spend(*[0.9] * 30) == 2  # twice as often would be too much
    assert spend(*[1.5] * 30) == MAX_SLOWDOWN
    began_us = lane.due_us
    lane.read(ignore)
    assert (lane.due_us - began_us) % (MAX_SLOWDOWN * 10_000) == 0
    assert spend(*[0.1] * 30) == 1


class Briefly:
    """Lets a sampler run for a while; an epoch ends whenever the test says so."""

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + seconds
        self.epoch_ended = False

    @property
    def ended(self) -> str | None:
        return "enough" if time.monotonic() > self._until_s else None

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def pop_request(self) -> bool:
        ended, self.epoch_ended = self.epoch_ended, False
        return ended


def test_a_sampler_that_costs_too_much_slows_what_is_read_often_and_measures_no_power(tmp_path: Path) -> None:
    probes = [Given(lambda: [1.0, 2.0], columns) for columns in (("x_w", "y_w"), ("x_share", "y_bytes")) * 2]
    probes[2].period_s = probes[3].period_s = 1.0
    sampling = Sampler(tmp_path, probes, Briefly(2.5), RateLimiter(max_cpu_share=0.0, update_interval_s=0.5))
    sampling.run()
    account = json.loads((tmp_path / "sampler.json").read_text())
    reads = [account["per_probe"][name]["reads"] for name in ("given", "given2", "given3", "given4")]
    assert account["slower"] > 1
    assert reads[1] < 0.8 * reads[0]  # the second is read often and measures no power
    assert reads[2] >= 2 and reads[3] >= 2  # those read once a second are left alone


def test_a_probe_that_blocks_delays_no_other(tmp_path: Path) -> None:
    def slow() -> Sequence[float]:
        time.sleep(0.3)
        return [1.0, 2.0]

    fast, blocking = Given(lambda: [1.0, 2.0]), Given(slow)
    fast.period_s, blocking.period_s, blocking.blocking = 0.05, 0.05, True
    Sampler(tmp_path, [fast, blocking], Briefly(1.5)).run()
    account = json.loads((tmp_path / "sampler.json").read_text())
    assert account["per_probe"]["given"]["reads"] >= 20
    assert 3 <= account["per_probe"]["given2"]["reads"] <= 7


def test_blocking_probes_are_read_when_an_epoch_ends(tmp_path: Path) -> None:
    probe, monitor = Given(lambda: [1.0, 2.0]), Briefly(2.5)
    probe.period_s, probe.blocking = 60.0, True
    threading.Timer(1.0, lambda: setattr(monitor, "epoch_ended", True)).start()
    Sampler(tmp_path, [probe], monitor).run()
    assert len(read_stream(tmp_path / "samples-given.ets").table) == 3  # at the start, at the epoch, at the end


def test_epoch_ends_are_noticed_by_the_facts_that_training_rewrites(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from edgetrain.sampling.monitor import StopMonitor\n"
        "run = Path(sys.argv[1]); monitor = StopMonitor(None, None, run)\n"
        "seen = [monitor.pop_request()]\n"
        "for name in ('inside.json', 'inside-7.json', 'other.json'):\n"
        "    (run / name).write_text('{}'); time.sleep(0.3); seen.append(monitor.pop_request())\n"
        "time.sleep(0.3); seen.append(monitor.pop_request()); print(seen)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[False, True, True, False, False]"


def test_a_killed_samplers_account_says_up_to_when_samples_are_on_disk(tmp_path: Path) -> None:
    training = watched(60)
    process = sample(tmp_path, training.pid)
    assert wait_for((tmp_path / "sampler.json").exists)
    time.sleep(6.5)
    process.kill()
    process.wait()
    killed_us = time.monotonic_ns() // 1000
    account = json.loads((tmp_path / "sampler.json").read_text())
    assert account["state"] == "running"  # nobody could write that it ended
    assert killed_us - 8_000_000 < account["flushed_us"] <= account["written_us"] <= killed_us
    last_us = int(read_stream(tmp_path / "samples-cpu.ets").table["at_us"][-1])
    assert last_us >= account["flushed_us"] - 200_000
    training.kill()
    training.wait()


def test_missed_readings_are_counted_and_never_made_up_for(tmp_path: Path) -> None:
    began_us = time.monotonic_ns() // 1000
    lane = scheduled(Given(lambda: [1.0, 2.0]), tmp_path, began_us - 1_000_000)  # a second behind
    lane.read(ignore)
    assert lane.missed == pytest.approx(100, abs=3)
    assert (lane.due_us - (began_us - 1_000_000)) % 10_000 == 0  # still on its grid
    assert lane.due_us > began_us


def test_a_full_disk_ends_the_stream_and_not_the_sampler(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    (tmp_path / "samples-given.ets").symlink_to("/dev/full")
    lane = scheduled(Given(lambda: [1.0, 2.0]), tmp_path)
    lane.read(ignore)
    lane.close()
    assert "No space left" in lane.writer.failed


def test_a_wall_clock_that_is_set_and_a_machine_that_sleeps_are_distinguished() -> None:
    clocks = {"monotonic": 100.0, "wall": 5000.0, "boot": 200.0}

    def move(**by: float) -> None:
        for name, seconds in by.items():
            clocks[name] += seconds

    watch = ClockMonitor(lambda: clocks["monotonic"], lambda: clocks["wall"], lambda: clocks["boot"])
    move(monotonic=1, wall=1.001, boot=1)
    assert watch.check() == []
    move(monotonic=1, wall=-3599, boot=1)
    assert [doubt for doubt, _ in watch.check()] == ["clock_jumped"]
    assert watch.check() == []
    move(monotonic=1, wall=301, boot=301)
    assert [doubt for doubt, _ in watch.check()] == ["machine_slept"]


def test_without_pidfds_the_end_is_still_noticed(tmp_path: Path) -> None:
    code = (
        "import sys; from edgetrain.sampling.monitor import StopMonitor\n"
        "monitor = StopMonitor(int(sys.argv[1]), None, use_pidfd=False)\n"
        "while monitor.ended is None: monitor.wait(0.1)\n"
        "print(monitor.ended)"
    )
    training = watched(1)
    process = subprocess.Popen([sys.executable, "-c", code, str(training.pid)], stdout=subprocess.PIPE, text=True)
    training.wait()
    assert process.communicate(timeout=10)[0].strip() == "the watched process ended"
