"""A doubt: one reason not to trust a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubt:
    """`kind` is for programs, `text` for people; doubts stand beside the numbers and never remove them."""

    kind: str
    text: str
