"""Keeps one command running: `python -m edgetrain.fleet.supervisor [OPTIONS] PIDFILE LOG COMMAND...`.

Standard library only. A worker exits when its scheduler is gone and never reconnects, so something must start it again.
SIGTERM ends the command and then the supervisor; a worker that hangs in its exit gets a second SIGTERM, then SIGKILL.

    --lease FOLDER        end when nobody holds FOLDER/users and there is no FOLDER/kept: the campaign that started this
                          was killed, and nobody asked for the fleet to stay up
    --wait-for HOST:PORT  start the command only while something listens there: a worker without a scheduler would
                          use the board's CPU for nothing
    --give-up-s SECONDS   end after nothing has listened there for this long
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE_S, MAX_PAUSE_S = 0.2, 5.0
LIVED_S = 10.0  # a command that lived this long started well: the pause is short again
TERM_S = 3.0
CHECK_S = 2.0  # how often the lease is checked
CONNECT_S = 2.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
USERS, KEPT = "users", "kept"  # files in the folder of a lease


@dataclass(frozen=True)
class Watch:
    """When a command may run."""

    lease: Path | None = None
    wait_for: tuple[str, int] | None = None
    give_up_s: float | None = None

    def expired(self) -> bool:
        """Return whether nobody uses the fleet any more."""
        if self.lease is None or (self.lease / KEPT).exists():
            return False
        try:
            descriptor = os.open(self.lease / USERS, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)

    def reachable(self) -> bool:
        """Return whether something listens where the command needs it."""
        if self.wait_for is None:
            return True
        try:
            with socket.create_connection(self.wait_for, CONNECT_S):
                return True
        except OSError:
            return False


class Supervisor:
    """One command, started again whenever it ends."""

    def __init__(self, pid_file: Path, log: Path, command: Sequence[str], watch: Watch) -> None:
        self.pid_file, self.log, self.command, self.watch = pid_file, log, command, watch
        self.stop = False

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Wait; returns early at a signal to end, where the lease has expired, or when `until` holds."""
        end_s = time.monotonic() + seconds
        while not self.stop and not until():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return
            found = signal.sigtimedwait(SIGNALS, min(left_s, CHECK_S))
            if (found is not None and found.si_signo != signal.SIGCHLD) or self.watch.expired():
                self.stop = True

    def run(self) -> int:
        """Run the command again and again until a signal, the end of the lease, or giving up."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pause_s, missing_s = PAUSE_S, time.monotonic()
        while not self.stop:
            self._write_pids(0)
            if not self.watch.reachable():
                if self.watch.give_up_s is not None and time.monotonic() - missing_s > self.watch.give_up_s:
                    break
                self.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                continue
            began_s = missing_s = time.monotonic()
            self._run_once()
            pause_s = PAUSE_S if time.monotonic() - began_s > LIVED_S else min(2 * pause_s, MAX_PAUSE_S)
            self.wait(pause_s)
        with contextlib.suppress(FileNotFoundError):
            self.pid_file.unlink()
        return 0

    def _run_once(self) -> None:
        with open(self.log, "ab") as out:
            child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=_unblock, cwd="/"
            )
        self._write_pids(child.pid)
        while child.poll() is None and not self.stop:
            self.wait(3600.0, until=lambda: child.poll() is not None)
        if child.poll() is None:
            end(child)

    def _write_pids(self, child: int) -> None:
        """Write the ids of supervisor and command; 0: the command is not running."""
        fresh = self.pid_file.with_suffix(".new")
        fresh.write_text(f"{os.getpid()} {child}\n")
        os.replace(fresh, self.pid_file)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a command: SIGTERM twice, then SIGKILL."""
    for send in (child.terminate, child.terminate, child.kill):
        send()
        try:
            child.wait(TERM_S)
            return
        except subprocess.TimeoutExpired:
            continue


def main(words: Sequence[str]) -> int:
    """Read the arguments and supervise; a second supervisor of the same command ends at once."""
    parser = argparse.ArgumentParser(prog="edgetrain.fleet.supervisor")
    parser.add_argument("--lease", type=Path)
    parser.add_argument("--wait-for")
    parser.add_argument("--give-up-s", type=float)
    parser.add_argument("pid_file", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(words)
    wait_for = None
    if asked.wait_for:
        host, _, port = asked.wait_for.rpartition(":")
        wait_for = (host.strip("[]"), int(port))
    descriptor = os.open(asked.pid_file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    return Supervisor(asked.pid_file, asked.log, asked.command, Watch(asked.lease, wait_for, asked.give_up_s)).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
