"""Signals during a run: the first one stops it and closes its record; a user's command gets every signal itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FORWARDED = (*STOPPING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


class Stopped(KeyboardInterrupt):
    """A signal ended what was under way; `signal` is its number."""

    def __init__(self, number: int, message: str | None = None) -> None:
        super().__init__(message or f"stopped by {signal.Signals(number).name}")
        self.signal = number


class Interrupted(Stopped):
    """A signal ended a run; `run` is its record, complete up to then."""

    def __init__(self, run: str, number: int = signal.SIGINT) -> None:
        super().__init__(number, f"interrupted; the record up to then is {run}")
        self.run = run


@contextlib.contextmanager
def stop_on_signal() -> Iterator[None]:
    """Raise Stopped on the first stopping signal and ignore the rest, so that the record is closed undisturbed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def stop(number: int, frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.getsignal(number) for number in STOPPING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def forward_signals(send: Callable[[int], None]) -> Iterator[list[int]]:
    """Pass signals on to a command; yields the list of those that came."""
    seen: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return  # the terminal has sent it to the command as well
        send(number)

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: the caller handles signals
        for number in FORWARDED:
            before[number] = signal.signal(number, forward)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
