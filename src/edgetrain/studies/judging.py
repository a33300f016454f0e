"""Judges a statement by evidence: each comparison has an interval, and supports it, contradicts it, or cannot say.

A statement does not hold where one comparison clearly contradicts it, holds where every comparison clearly supports
it, and otherwise cannot be judged. Clearly: the 95 % interval lies on one side of the limit. That something may happen
holds where one comparison shows it; that others do not show it denies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from edgetrain.analysis import MIN_RUNS, Bound, Evidence, StudyFinding, Verdict
from edgetrain.schema import Origin
from edgetrain.studies.data import CampaignData
from edgetrain.studies.needed import Needed, lacking
from edgetrain.studies.repeated import RepeatedRuns
from edgetrain.studies.uncertain import Uncertain

NO_NUMBER = "–"


def percent(value: float) -> str:
    """Spell a share."""
    return f"{value:.1%}" if abs(value) < 0.0995 else f"{value:.0%}"


def milliseconds(seconds: float) -> str:
    """Spell a time per minibatch."""
    return f"{_plain_ms(seconds)} ms"


def change(before: Uncertain, after: Uncertain) -> str:
    """Spell two times per minibatch."""
    return f"{_plain_ms(before.value)} → {milliseconds(after.value)}"


def _plain_ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"


def at_least(name: str, number: Uncertain, least: float) -> Bound:
    """Return the bound that a number must not fall below."""
    return Bound(name, number.value, number.lo, number.hi, least=least)


def at_most(name: str, number: Uncertain, most: float) -> Bound:
    """Return the bound that a number must not exceed."""
    return Bound(name, number.value, number.lo, number.hi, most=most)


def within(name: str, number: Uncertain, either_way: float) -> Bound:
    """Return the bound that a number must lie within, either way."""
    return Bound(name, number.value, number.lo, number.hi, -either_way, either_way)


@dataclass
class Case:
    """Collects the evidence for and against one statement.

    `any_suffices` is for statements that something may happen: one comparison that shows it is enough, and one that
    does not show it is no evidence against it.
    """

    evidence: list[Evidence] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # halves of the statement that no run is about
    any_suffices: bool = False
    undecided: list[bool] = field(default_factory=list)  # of each comparison: its interval contains the limit
    repeated: list[bool] = field(default_factory=list)  # of each comparison: all it compares was run often enough

    def add(
        self,
        what: str,
        bounds: Sequence[Bound],
        numbers: str = "",
        paper: str = NO_NUMBER,
        spell: Callable[[float], str] = percent,
        of: Sequence[RepeatedRuns] = (),
    ) -> None:
        """Add one comparison of these groups; it supports the statement where every bound is kept."""
        kept = all_kept(bounds)
        spelled = "; ".join(_spell_bound(bound, spell) for bound in bounds)
        ours = f"{numbers}; {spelled}" if numbers and spelled else numbers or spelled
        supports = None if self.any_suffices and kept is False else kept
        self.evidence.append(Evidence(what, ours, paper, supports, tuple(bounds)))
        self.undecided.append(kept is None)
        self.repeated.append(all(len(group.runs) >= MIN_RUNS for group in of))

    def require(self, found: bool, what: str) -> None:
        """Note that a half of the statement could not be checked."""
        if not found:
            self.missing.append(what)


def all_kept(bounds: Sequence[Bound]) -> bool | None:
    """Return whether all bounds are kept; None where that is undecided."""
    kept = [bound.kept for bound in bounds]
    return False if False in kept else None if None in kept else True


def _spell_bound(bound: Bound, spell: Callable[[float], str]) -> str:
    interval = "" if bound.lo == bound.hi else f" [{spell(bound.lo)}, {spell(bound.hi)}]"
    if bound.least is not None and bound.most is not None:
        limit = f"within ±{spell(bound.most)}"
    elif bound.least is not None:
        limit = f"at least {spell(bound.least)}" if bound.least else "above 0"
    else:
        limit = f"at most {spell(bound.most)}" if bound.most else "below 0"
    return f"{bound.name} {spell(bound.value)}{interval} (required: {limit})"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a paper: what it needs, how it is judged, and who cannot say anything about it."""

    letter: str
    text: str
    found: str  # the paper's own numbers
    needs: str  # the runs that would answer it
    judge: Callable[[CampaignData, Case], None]
    of_each: tuple[Needed, ...] = ()  # what a run must have recorded to say anything about it
    simulated: str | None = None  # why a simulated board cannot say; None: it can
    emulated: str | None = None  # why the lab cannot
    paced: str | None = None  # why a paced accelerator cannot


def judge_claims(paper: str, claims: Sequence[Claim], data: CampaignData, origin: Origin | None) -> list[StudyFinding]:
    """Judge statements by runs of one origin."""
    return [_judge(paper, claim, data, origin) for claim in claims]


def _judge(paper: str, claim: Claim, data: CampaignData, origin: Origin | None) -> StudyFinding:
    refused = _refusal(claim, data, origin)
    if claim.paced and refused is None:
        data = data.keep(lambda run: not run.paced)
    case, data = Case(), data.afresh()
    claim.judge(data, case)
    evidence = tuple(case.evidence)
    verdict, reason = _verdict(claim, case, data, repeatable=origin is not Origin.PUBLISHED)
    if refused is not None:
        evidence = tuple(replace(one, supports=None) for one in evidence)
        verdict, reason = Verdict.CANNOT_SAY, refused
    return StudyFinding(
        claim.letter, claim.text, verdict, evidence, reason, paper, claim.found, origin, refused is not None
    )


def _refusal(claim: Claim, data: CampaignData, origin: Origin | None) -> str | None:
    """Return why runs of this origin cannot say anything about a statement."""
    if origin is Origin.SIMULATED and claim.simulated:
        return f"not decidable on a simulated board: {claim.simulated}"
    if origin is Origin.EMULATED and claim.emulated:
        return f"not decidable in the lab: {claim.emulated}"
    runs = [run for group in data.groups for run in group.runs]
    if claim.paced and runs and all(run.paced for run in runs):
        return f"not decidable with a paced accelerator: {claim.paced}"
    return None


def _verdict(claim: Claim, case: Case, data: CampaignData, repeatable: bool) -> tuple[Verdict, str]:
    against = [one for one in case.evidence if one.supports is False]
    shown = case.any_suffices and any(one.supports for one in case.evidence)
    if against:
        return Verdict.DOES_NOT, f"{_count(len(against), case)} against it: {against[0].what}"
    if not case.evidence:
        # Runs of what the statement is about, which do not fulfil its condition, need less than its full list.
        needs = f"needs {' and '.join(case.missing) if data.groups and case.missing else claim.needs}"
        absent = lacking(claim.of_each, data)
        return Verdict.CANNOT_SAY, "; ".join([*filter(None, [absent]), needs, *_inseparable(data)])
    undecided = [at for at, open_still in enumerate(case.undecided) if open_still]
    if undecided and not shown:
        few = repeatable and not case.repeated[undecided[0]]
        more = f"; make each run at least {MIN_RUNS} times" if few else ""
        what = case.evidence[undecided[0]].what
        return Verdict.CANNOT_SAY, f"{_count(len(undecided), case)} too close to the limit: {what}{more}"
    if case.any_suffices and not shown:
        what = case.evidence[0].what
        none = f"none of {len(case.evidence)} comparisons shows it, which does not deny it: {what}"
        return Verdict.CANNOT_SAY, f"{none}; other runs may show it ({claim.needs})"
    if case.missing:
        return Verdict.CANNOT_SAY, "; ".join([f"also needs {' and '.join(case.missing)}", *_inseparable(data)])
    return Verdict.HOLDS, ""


def _inseparable(data: CampaignData) -> list[str]:
    """Return why runs that seem to be what is needed were not compared."""
    return data.inseparable[:1]


def _count(count: int, case: Case) -> str:
    return f"{count} of {len(case.evidence)} comparisons {'is' if count == 1 else 'are'}"
