"""A supervisor starts its command again, and ends when nobody needs it any more."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

import pytest


def wait_for(holds, seconds=10.0):
    until_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def supervise(tmp_path):
    started = []

    def start(*words, options=()):
        command = [sys.executable, "-m", "edgetrain.fleet.supervisor", *options, str(tmp_path / "x.pid")]
        started.append(subprocess.Popen([*command, str(tmp_path / "x.log"), *words]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def pids(folder):
    try:
        return tuple(map(int, (folder / "x.pid").read_text().split()))
    except (OSError, ValueError):
        return (0, 0)


def test_a_killed_command_is_started_again_and_sigterm_ends_both(supervise, tmp_path):
    process = supervise("sleep", "60")
    wait_for(lambda: pids(tmp_path)[1])
    first = pids(tmp_path)[1]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: pids(tmp_path)[1] not in (0, first))
    second = pids(tmp_path)[1]
    process.terminate()
    assert process.wait(10) == 0
    assert not os.path.exists(f"/proc/{second}") and not (tmp_path / "x.pid").exists()


def test_a_second_supervisor_of_the_same_command_ends_at_once(supervise, tmp_path):
    supervise("sleep", "60")
    wait_for(lambda: pids(tmp_path)[1])
    before = pids(tmp_path)
    assert supervise("sleep", "60").wait(10) == 0 and pids(tmp_path) == before


def test_the_command_ends_when_the_last_user_of_the_fleet_is_gone_unless_it_is_kept(supervise, tmp_path):
    lease = os.open(tmp_path / "users", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lease, fcntl.LOCK_SH)
    process = supervise("sleep", "60", options=("--lease", str(tmp_path)))
    wait_for(lambda: pids(tmp_path)[1])
    child = pids(tmp_path)[1]
    (tmp_path / "kept").touch()
    os.close(lease)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    (tmp_path / "kept").unlink()
    assert process.wait(10) == 0 and not os.path.exists(f"/proc/{child}")


def test_a_worker_waits_for_its_scheduler_and_gives_up_after_the_time_it_was_given(supervise, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--wait-for", f"127.0.0.1:{port}", "--give-up-s", "1")
    process = supervise("touch", str(tmp_path / "started"), options=options)
    assert process.wait(10) == 0 and not (tmp_path / "started").exists()
    with socket.create_server(("127.0.0.1", port)):
        supervise("touch", str(tmp_path / "started"), options=options)
        wait_for((tmp_path / "started").exists)
