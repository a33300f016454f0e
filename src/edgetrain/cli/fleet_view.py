"""The progress of a campaign on a fleet on stderr: one table of all boards on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.live import Live

from edgetrain.report import console, fleet_line, printable, show_fleet_progress
from edgetrain.schema import FleetProgress

EVERY_S = 5.0  # between two lines where nothing is new but the time


class FleetView:
    """Called with the progress; a context manager that leaves the terminal as it was."""

    def __init__(self) -> None:
        terminal = console(stderr=True)
        self._live = Live(console=terminal, transient=True, auto_refresh=False) if terminal.is_terminal else None
        self._line, self._printed_s = "", 0.0
        self._problems: set[str] = set()

    def __enter__(self) -> FleetView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: FleetProgress) -> None:
        """Show how far the campaign is."""
        if self._live is not None:
            self._live.update(show_fleet_progress(progress), refresh=True)
            return
        for one in progress.boards:
            if one.problem is not None and one.problem not in self._problems:
                self._problems.add(one.problem)
                self._print(one.problem)
        line = fleet_line(progress)
        if line != self._line and (progress.note or progress.complete or time.monotonic() - self._printed_s > EVERY_S):
            self._line, self._printed_s = line, time.monotonic()
            self._print(line)

    def _print(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)
