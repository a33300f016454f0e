"""Progress of a run on stderr: a bar on a terminal, a line now and then where nobody looks."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

WORDS = {
    "dataset": "generating the dataset",
    "mode": "waiting for the power mode to settle",
    "prepare": "loading torch and the network",
    "baseload": "measuring the idle baseload",
    "cold": "dropping the dataset from the page cache",
    "warm": "reading the dataset into the page cache",
    "keep": "looking at the page cache",
    "ended": "the training process ended",
}
PLAIN_EVERY_S = 10.0


class Shown:
    """Called with (stage, done, total); a context manager that leaves the terminal as it was."""

    def __init__(self, label: str = "", quiet: bool = False) -> None:
        self._label = f"{label}: " if label else ""
        self._quiet = quiet
        self._stage = ""
        self._told_s = 0.0
        self._task: TaskID | None = None
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(28), MofNCompleteColumn())
            self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)

    def __enter__(self) -> Shown:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show where we are."""
        if self._quiet:
            return
        words = self._label + WORDS.get(stage, stage)
        if self._bar is not None:
            if self._task is None or stage != self._stage:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(words, total=total)
            self._bar.update(self._task, completed=done, total=total)
        elif not self._stage or time.monotonic() - self._told_s > PLAIN_EVERY_S:
            print(f"{words}, {done} of {total}" if total else words, file=sys.stderr, flush=True)
            self._told_s = time.monotonic()
        self._stage = stage
