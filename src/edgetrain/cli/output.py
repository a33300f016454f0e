"""Prints the result of a command: one JSON document, or what `report` makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rich.console import RenderableType

from edgetrain.report import console, emit

Result = TypeVar("Result")


def print_result(result: Result, show: Callable[[Result], RenderableType], json: bool) -> None:
    """Print a typed result on stdout: as JSON with its schema, or shown for people."""
    if json:
        emit(result)
    else:
        console().print(show(result))


def print_note(note: RenderableType) -> None:
    """Print a remark on stderr."""
    console(stderr=True).print(note)
