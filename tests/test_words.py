"""Words that this project does not use: private vocabulary that a newcomer would have to be told about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PLACES = ("src", "docs", "benchmarks", "scripts", "tools", *PAGES)
ENDINGS = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".html", ".js", ".css"}
WORDS = (
    "dear",  # slow, expensive
    "vigil",  # monitor
    "coin",  # dither, random bit
    "keeper",  # writer thread
    "owed",
    "lest",
    "whoever",
    "thrift",  # rate limiter
    "told_by",
    "so many",  # this number of
    "held down",  # limited
    "stands for",  # denotes, imitates
    "room",  # package; for memory and disk: space
    "door",  # interface
    "of ours",  # of edgetrain, built-in
    "lie apart",  # differ
    "lies apart",  # is an outlier
    "stood still",  # slept, was stopped
    "without a word",  # without a message
)
# "Looks" as a noun: say readings of the counters. The verb is allowed.
LOOKS = r"(?:a|one|two|each|every|between(?: the| two)?) looks?|looks? (?:is|are) (?:owed|taken)"
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(map(re.escape, WORDS))}|{LOOKS})\b", re.IGNORECASE)


def texts(place: Path) -> list[Path]:
    """Return the text files of a place."""
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.suffix in ENDINGS and path.is_file())


@pytest.mark.parametrize("place", PLACES)
def test_private_vocabulary_does_not_occur(place: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in texts(ROOT / place)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in FORBIDDEN.finditer(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["a probe that is dear here", "So many threads", "between two looks", "one look is owed"]
)
def test_the_check_finds_such_words(text: str) -> None:
    assert FORBIDDEN.search(text)


@pytest.mark.parametrize("text", ["it looks like a board", "a coincidence", "look for every clock", "the doorbell"])
def test_the_check_allows_ordinary_words(text: str) -> None:
    assert not FORBIDDEN.search(text)
