"""The board's own tegrastats as a source of rails: the fallback where sysfs shows no power monitor.

The first number of a rail is an instant value (itself averaged by the chip), the second an average since tegrastats
started; only the first is kept. Spelling drifts between releases; `schema.tegrastats` reads them all.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
import time
from collections.abc import Sequence

from edgetrain.device.jetson.rails import NOT_CONNECTED, TOTALS
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import PowerSource, parse_tegrastats

INTERVAL_S = 1.0
LINES_TO_JUDGE_BY = 2  # as many without a rail: this tegrastats shows none


def rails_of(line: str) -> dict[str, float]:
    """Return the rails of one line in watts; repeated and unconnected ones are left out."""
    return {
        name: watts
        for name, watts in parse_tegrastats(line).rails_w.items()
        if name.split("@")[0] not in {*NOT_CONNECTED, ""}
    }


class TegrastatsProbe:
    """Runs tegrastats and gives its last line's rails."""

    name = "rails"
    period_s = INTERVAL_S
    blocking = False

    def __init__(self, program: str, patience_s: float = 3.0, chip: str | None = None) -> None:
        self._chip = chip
        try:
            self._process = subprocess.Popen(
                [program, "--interval", str(int(INTERVAL_S * 1000))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise ProbeUnavailable(f"tegrastats could not be started: {error.strerror}") from error
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)
        self._tail = b""
        self._fresh: dict[str, float] = {}
        self._lines = 0
        waiting = select.poll()
        waiting.register(self._fd, select.POLLIN)
        until = time.monotonic() + patience_s
        while not self._fresh and self._lines < LINES_TO_JUDGE_BY and time.monotonic() < until:
            if self._process.poll() is not None:
                break
            waiting.poll(200)
            self._drain()
        if not self._fresh:
            self.close()
            raise ProbeUnavailable("tegrastats shows no rail on this board")
        self._labels = list(self._fresh)
        self.columns: Sequence[str] = [f"{label}_w" for label in self._labels]

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._fd, 65536):
                self._tail = (self._tail + chunk)[-65536:]
        *lines, self._tail = self._tail.split(b"\n")
        self._lines += len(lines)
        for line in lines:
            found = rails_of(line.decode("ascii", "replace"))
            if found:
                self._fresh = found

    def read(self) -> Sequence[float]:
        """Return the newest line's rails, NaN where none came since the last reading."""
        self._drain()
        row = [self._fresh.get(label, math.nan) for label in self._labels]
        self._fresh = {}
        return row

    def power_source(self) -> PowerSource | None:
        """Return which of its rails are the total."""
        for names, scope, chip in TOTALS:
            if all(name in self._labels for name in names) and chip in (None, self._chip):
                return PowerSource(self.name, tuple(f"{name}_w" for name in names), None, scope, INTERVAL_S, None)
        return None

    def close(self) -> None:
        """End tegrastats."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
