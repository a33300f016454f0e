"""Sleeping between readings without missing the end: signals, the watched process, our parent, jumps of the clock."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable

# Where the kernel has no pidfd (before 5.3: JetPack 4), processes are looked at this often.
LOOK_S = 1.0
# A wall clock that moves against the monotonic one by more than this was set, not slewed.
JUMP_S = 0.5


class Vigil:
    """Waits until an instant, and ends early when there is nothing left to sample for."""

    def __init__(self, watch_pid: int | None, parent_pid: int | None) -> None:
        self.ended: str | None = None
        self.asked = False  # somebody wants the dear readings now (SIGUSR1)
        self._named: dict[int, str] = {}
        self._polled: dict[int, str] = {}
        self._looked_s = time.monotonic()
        for pid, text in ((watch_pid, "the watched process ended"), (parent_pid, "the parent ended")):
            if pid is not None and pid not in self._polled:
                self._watch(pid, text)
        self._wakeup, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGUSR1, self._on_ask)
        # Ctrl-C reaches the whole terminal group; training's last seconds are worth sampling, and when it ends
        # so do we. The same for a terminal that goes away.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def wait(self, seconds: float) -> None:
        """Sleep, or return earlier with `ended` or `asked` set."""
        ready, _, _ = select.select([self._wakeup, *self._named], [], [], max(seconds, 0.0))
        for fd in ready:
            if fd == self._wakeup:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 64)
            else:
                self.ended = self.ended or self._named[fd]
        if self._polled and time.monotonic() - self._looked_s >= LOOK_S:
            self._looked_s = time.monotonic()
            for pid, text in self._polled.items():
                if not _alive(pid):
                    self.ended = self.ended or text

    def take_asked(self) -> bool:
        """Return whether dear readings were asked for since the last call."""
        asked, self.asked = self.asked, False
        return asked

    def _watch(self, pid: int, text: str) -> None:
        if hasattr(os, "pidfd_open"):
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

    def _on_ask(self, number: int, frame: object) -> None:
        self.asked = True


class ClockWatch:
    """Notices a wall clock that was set and a machine that slept: instants stay right, labels do not."""

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
            text = f"the machine slept for {asleep_s:.1f} s; that time is in no minibatch and no energy"
            return [("machine_slept", text)]
        if abs(jumped_s) > JUMP_S:
            text = f"the wall clock jumped by {jumped_s:+.1f} s; durations are unharmed, labels after it are not"
            return [("clock_jumped", text)]
        return []


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(512).rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
