"""Progress of a run on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from edgetrain.errors import EdgetrainError
from edgetrain.report import console, printable
from edgetrain.runner import Interrupted

WORDS = {
    "dataset": "generating the dataset",
    "mode": "waiting for the power mode to settle",
    "prepare": "loading torch and the network",
    "baseload": "measuring the idle baseload",
    "cold": "dropping the dataset from the page cache",
    "warm": "reading the dataset into the page cache",
    "keep": "reading the state of the page cache",
    "command": "running the command",
    "ended": "the training process ended",
}
PLAIN_EVERY_S = 10.0


class ProgressLine:
    """Called with (stage, done, total); a context manager that leaves the terminal as it was."""

    def __init__(self, label: str = "", quiet: bool = False) -> None:
        self._label = f"{label}: " if label else ""
        self._quiet = quiet
        self._stage = ""
        self._printed_s = 0.0
        self._task: TaskID | None = None
        terminal = console(stderr=True)
        self._bar: Progress | None = None
        if terminal.is_terminal and not quiet:
            words = TextColumn("{task.description}", markup=False)
            columns = (SpinnerColumn(), words, BarColumn(28), MofNCompleteColumn())
            self._bar = Progress(*columns, TimeElapsedColumn(), console=terminal, transient=True)

    def __enter__(self) -> ProgressLine:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def once(self) -> Callable[[str, int, int | None], None]:
        """Return a progress function for a caller that has no `with`: lines instead of a bar."""
        self._bar = None
        return self

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show how far the run is."""
        if self._quiet:
            return
        words = self._label + WORDS.get(stage, stage)
        if self._bar is not None:
            if self._task is None or stage != self._stage:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(words, total=total)
            self._bar.update(self._task, completed=done, total=total)
        elif not self._stage or time.monotonic() - self._printed_s > PLAIN_EVERY_S:
            print(printable(f"{words}, {done} of {total}" if total else words), file=sys.stderr, flush=True)
            self._printed_s = time.monotonic()
        self._stage = stage


@contextlib.contextmanager
def record_kept() -> Iterator[None]:
    """After a failure or an interrupt, tell the user which record was kept, and end with the right status."""
    say = functools.partial(console(stderr=True).print, soft_wrap=True)  # commands in it can be copied
    try:
        yield
    except Interrupted as stopped:
        say(f"edgetrain: {stopped}; see it with: edgetrain show {stopped.run}")
        raise typer.Exit(128 + stopped.signal) from None
    except EdgetrainError as error:
        if error.run is not None:
            say(f"show the record up to then with: edgetrain show {error.run}")
        if error.status is not None:  # of the user's command: it is kept, whatever happened to our record
            say(f"edgetrain: {error}")
            raise typer.Exit(error.status) from None
        raise
