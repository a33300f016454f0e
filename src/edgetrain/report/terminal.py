"""The console and the tables of every command: text as it is, without markup or terminal escapes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text


class PlainConsole(Console):
    """A console that takes text as it is: no markup, no terminal escapes, nothing that its encoding does not have.

    Names of networks, campaigns, files and hosts are other people's: they must not move the cursor or stop a command.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, and make the text printable."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, self.encoding), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; in a pipe or a file a sentence stays on one line, so that its command can be copied."""
        if not self.is_terminal and objects and all(isinstance(each, str) for each in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Leave it to the command: rich would end the program here."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return text without control characters, and without characters that the encoding lacks."""
    if not text.isprintable():
        text = "".join(mark if mark in "\n\t" or mark.isprintable() else "\ufffd" for mark in text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, "replace").decode(encoding)
    return text


def console(stderr: bool = False) -> Console:
    """Return a console that keeps tables readable when piped."""
    found = PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        # A height too: without it rich takes any terminal called dumb for 80 columns.
        width = max(found.width, 118)
        return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, width=width, height=found.height)
    return found


class PlainTable(Table):
    """A table whose cells are text as it is, not markup."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add one row."""
        super().add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells), **more)


def plain_table(*headers: str, title: str | None = None) -> Table:
    """Return a table in our look: no box, first column left, the rest right."""
    heading = None if title is None else Text(title, style="table.title")
    table = PlainTable(box=None, title=heading, title_justify="left", header_style="bold", pad_edge=False)
    for place, header in enumerate(headers):
        width = max(len(line) for line in header.split("\n"))
        table.add_column(header, justify="left" if place == 0 else "right", no_wrap=place > 0, min_width=width)
    return table
