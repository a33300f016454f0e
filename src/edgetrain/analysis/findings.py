"""What a study found: statements of a paper, each with a verdict and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from edgetrain.analysis.factors import FactorRow
from edgetrain.schema import Origin


class Verdict(str, Enum):
    """Whether a statement holds in our runs."""

    HOLDS = "holds"
    DOES_NOT = "does not"
    CANNOT_SAY = "cannot say"

    @property
    def spoken(self) -> str:
        """The verdict as a sentence says it."""
        return "does not hold" if self is Verdict.DOES_NOT else self.value


@dataclass(frozen=True, slots=True)
class Bound:
    """A number with its 95 % interval, and the least or most that a statement allows."""

    name: str
    value: float
    lo: float
    hi: float
    least: float | None = None
    most: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether the whole interval lies on the allowed side; None where it contains the limit."""
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if self.lo >= least and self.hi <= most:
            return True
        return False if self.hi < least or self.lo > most else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One comparison: what, our number, the paper's where it has one, and whether it supports the statement."""

    what: str
    ours: str
    paper: str
    supports: bool | None  # None: the limit lies inside the interval, or the comparison does not count
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyFinding:
    """One statement of a paper, judged; `reason` says why where it cannot be."""

    letter: str  # A, or 17
    claim: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    reason: str = ""
    paper: str = ""  # short name
    found: str = ""  # the paper's own numbers, in words
    origin: Origin | None = None  # of the runs it was judged by; None: there were none
    refused: bool = False  # runs of this origin cannot say: their numbers are shown and do not count


@dataclass(frozen=True, slots=True)
class SectionScale:
    """How one part of a study was scaled: every time of a board was divided by `speed`, the dataset by `shrink`."""

    section: str
    speed: float
    shrink: float


@dataclass(frozen=True, slots=True)
class StudyReport:
    """A paper's experiments made here, and whether its findings hold; the document of `reproduce`."""

    paper: str  # short name
    title: str
    numbering: str  # what stands before a finding's letter: III-
    origin: Origin
    took_s: float
    findings: tuple[StudyFinding, ...]
    sections: Mapping[str, tuple[FactorRow, ...]]  # the runs of each part, by setting
    scales: tuple[SectionScale, ...]
    failed_runs: int

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the letters of the findings that do not hold in our own runs."""
        return tuple(
            finding.letter
            for finding in self.findings
            if finding.verdict is Verdict.DOES_NOT and finding.origin is not Origin.PUBLISHED
        )


@dataclass(frozen=True, slots=True)
class FindingsReport:
    """The papers' statements tested against recorded runs."""

    campaigns: tuple[str, ...]  # ids
    runs: int
    doubtful: tuple[str, ...]  # runs that have doubts; they count
    left_out: tuple[str, ...]  # runs that do not count, with the reason
    findings: tuple[StudyFinding, ...]


@dataclass(frozen=True, slots=True)
class SectionCost:
    """What one part of a study takes; None where that is not known before the first run."""

    section: str
    runs: int
    done: int
    left_s: float | None
    speed: float
    new_bytes: int  # of datasets that have to be made first
