"""What the page says first: the verdict on a run in one sentence, and the remedies with their predicted gain."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.analysis import Summary, verdict_sentence


@dataclass(frozen=True, slots=True)
class PageRemedy:
    """One change, what the training would take with it, and what it costs or risks."""

    change: str
    predicted: str  # with its interval
    gain: str
    cost: str


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """What limits a run, the evidence, and the remedies; or why there are none."""

    sentence: str
    evidence: tuple[str, ...] = ()
    remedies: tuple[PageRemedy, ...] = ()
    remedies_reason: str | None = None


def page_sentence(sentence: str) -> str:
    """Return a verdict as the first sentence of a page, whose remedies stand below it."""
    said = sentence.partition("; edgetrain diagnose")[0]
    return said[:1].upper() + said[1:] + "."


def plain_verdict(summary: Summary) -> PageVerdict:
    """Say what takes the time, from the summary alone."""
    return PageVerdict(page_sentence(verdict_sentence(summary)))
