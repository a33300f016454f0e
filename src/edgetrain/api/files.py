"""Writes the files that a user asked for."""

from __future__ import annotations

from pathlib import Path

from edgetrain.errors import UsageError


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, or say why it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
