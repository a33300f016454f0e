"""Prints what the report functions return, as the commands do, into text."""

from __future__ import annotations

import io
import re

from rich.console import RenderableType

from edgetrain.report.text import PlainConsole

# What must not reach a person: a dictionary or a dataclass as Python writes it.
PYTHON = re.compile(r"""\{['"]|\b[A-Z]\w+\(\w+=|\bNone\b|\bnan\b|<\w+(\.\w+)+ """)
HOSTILE = "\x1b[31mred\x1b[0m\r\x07[bold]x[/bold] [/nosuch] <script>alert(1)</script>"


def printed(renderable: RenderableType, width: int = 160) -> str:
    """Return what a terminal of this width would show, without colours."""
    out = io.StringIO()
    # A height too: without it rich takes any terminal called dumb for 80 columns.
    console = PlainConsole(
        file=out, width=width, height=25, force_terminal=True, color_system=None, highlight=False, markup=False
    )
    console.print(renderable)
    return out.getvalue()


def assert_plain(text: str) -> None:
    """Assert that no Python value and no terminal escape is in the text."""
    found = PYTHON.search(text)
    assert found is None, text[max(0, found.start() - 40) : found.end() + 40]
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text
