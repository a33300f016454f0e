"""Waits between readings; notices when to stop (signals, watched process, parent), epoch ends and clock jumps."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Where the kernel has no pidfd (before 5.3: JetPack 4), processes are checked this often.
POLL_INTERVAL_S = 1.0
# The training rewrites its facts at each epoch's end; this is how often the sampler checks.
EPOCH_INTERVAL_S = 0.25
# A wall clock that moves against the monotonic one by more than this was set, not slewed.
JUMP_S = 0.5


class StopMonitor:
    """Waits until an instant, ends early when sampling is over, and notices the ends of epochs."""

    def __init__(
        self, watch_pid: int | None, parent_pid: int | None, run: Path | None = None, use_pidfd: bool = True
    ) -> None:
        self.ended: str | None = None
        self._named: dict[int, str] = {}
        self._polled: dict[int, str] = {}
        self._use_pidfd = use_pidfd and sys.version_info >= (3, 9)
        self._polled_s = self._epoch_s = time.monotonic()
        self._run = run
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._stamp = self._facts_stamp()
        for pid, text in ((watch_pid, "the watched process ended"), (parent_pid, "the parent ended")):
            if pid is not None and pid not in self._polled:
                self._watch(pid, text)
        self._wakeup, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        # Ctrl-C reaches the whole terminal group; training's last seconds are worth sampling, and when it ends
        # so do we. The same for a terminal that goes away.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)

    def wait(self, seconds: float) -> None:
        """Sleep, or return earlier with `ended` set."""
        ready, _, _ = select.select([self._wakeup, *self._named], [], [], max(seconds, 0.0))
        for fd in ready:
            if fd == self._wakeup:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 64)
            else:
                self.ended = self.ended or self._named[fd]
        if self._polled and time.monotonic() - self._polled_s >= POLL_INTERVAL_S:
            self._polled_s = time.monotonic()
            for pid, text in self._polled.items():
                if not _alive(pid):
                    self.ended = self.ended or text

    def pop_request(self) -> bool:
        """Return whether an epoch ended since the last call: a training process has rewritten its facts."""
        now_s = time.monotonic()
        if now_s - self._epoch_s < EPOCH_INTERVAL_S:
            return False
        self._epoch_s = now_s
        before, self._stamp = self._stamp, self._facts_stamp()
        return self._stamp != before

    def _facts_stamp(self) -> tuple[tuple[str, int], ...]:
        """Return name and time of change of each training process's facts file."""
        if self._run is None:
            return ()
        found = []
        try:
            with os.scandir(self._run) as entries:
                for entry in entries:
                    if entry.name.startswith("inside") and entry.name.endswith(".json"):
                        found.append((entry.name, entry.stat().st_mtime_ns))
        except OSError:
            return self._stamp
        return tuple(sorted(found))

    def _watch(self, pid: int, text: str) -> None:
        if self._use_pidfd:
            try:
                self._named[os.pidfd_open(pid)] = text
                return
            except ProcessLookupError:
                self.ended = text
                return
            except OSError:
                pass
        self._polled[pid] = text

    def _on_term(self, number: int, frame: object) -> None:
        self.ended = self.ended or "asked to stop"


class ClockMonitor:
    """Notices a wall clock that was set and a machine that slept: durations stay right, labels do not."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._monotonic, self._wall, self._boot = monotonic, wall, boot
        self._wall_ahead_s = wall() - monotonic()
        self._slept_s = boot() - monotonic()

    def check(self) -> list[tuple[str, str]]:
        """Return what happened to the clocks since the last call, as (doubt, text)."""
        now_s = self._monotonic()
        wall_s, slept_s = self._wall() - now_s, self._boot() - now_s
        jumped_s, asleep_s = wall_s - self._wall_ahead_s, slept_s - self._slept_s
        self._wall_ahead_s, self._slept_s = wall_s, slept_s
        if asleep_s > JUMP_S:
            text = f"the machine slept for {asleep_s:.1f} s; that time is not part of any minibatch or energy"
            return [("machine_slept", text)]
        if abs(jumped_s) > JUMP_S:
            text = f"the wall clock jumped by {jumped_s:+.1f} s; durations are right, times of day after it are not"
            return [("clock_jumped", text)]
        return []


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(512).rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
