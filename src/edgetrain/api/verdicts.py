"""What `diagnose` and `whatif` say about a run, in the form that pages show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from edgetrain.analysis import Summary, verdict_sentence
from edgetrain.api.diagnosing import diagnose
from edgetrain.api.mode_effects import ModeEffects
from edgetrain.api.what_if import change_facts, open_model, storage_media
from edgetrain.errors import EdgetrainError
from edgetrain.prediction import ChangeFacts, read_changes
from edgetrain.recommendation import Diagnosis, Remedy
from edgetrain.record import FolderStore, Run
from edgetrain.report import PageRemedy, PageVerdict, page_sentence, spell_gain
from edgetrain.schema import Scalar
from edgetrain.units import spell, spell_gain_pct, spell_seconds

if TYPE_CHECKING:
    from edgetrain.live import WhatIfPoint

MAX_DIAGNOSED = 300_000  # minibatches: predicting remedies of a longer run takes longer than its page


class RunQuestions(Protocol):
    """Answers what-if questions about one recorded run."""

    def point(self, changes: Mapping[str, str]) -> WhatIfPoint:
        """Answer without an interval, at once."""

    def with_interval(self, changes: Mapping[str, str], pause: Callable[[], None]) -> WhatIfPoint:
        """Answer with the interval; `pause` is called between simulations."""


# Takes a run and its store, returns what answers questions about it.
WhatIfSource = Callable[[str, FolderStore], RunQuestions]


def page_verdict(run: Run, summary: Summary, store: FolderStore) -> PageVerdict | None:
    """Return the verdict on a run with its remedies; None where the run cannot be diagnosed."""
    sentence = page_sentence(verdict_sentence(summary, run))
    if not summary.epochs:
        return PageVerdict(sentence)
    if sum(epoch.minibatches for epoch in summary.epochs) > MAX_DIAGNOSED:
        return PageVerdict(
            sentence, remedies_reason=f"the run is too long to predict them here; run edgetrain diagnose {summary.run}"
        )
    try:
        found = diagnose(run, store=store)
    except (EdgetrainError, ValueError) as error:
        return PageVerdict(sentence, remedies_reason=str(error))
    return PageVerdict(
        sentence,
        tuple(fact.text for fact in found.evidence),
        tuple(_remedy(each, found) for each in found.remedies),
        found.remedies_reason,
    )


def _remedy(found: Remedy, diagnosis: Diagnosis) -> PageRemedy:
    interval = f"{spell_seconds(found.e2e_lo)} to {spell_seconds(found.e2e_hi)}"
    predicted = f"{spell_seconds(found.e2e_s)} ({interval})"
    return PageRemedy(found.change, predicted, spell_gain(found, diagnosis), found.cost)


def what_if_source() -> WhatIfSource | None:
    """Return what predicts a run under other settings; None where that is not available."""
    return WhatIfQuestions


class WhatIfQuestions:
    """The model of one recorded run, ready for questions from the live page."""

    def __init__(self, run: str, store: FolderStore) -> None:
        self._model = open_model(run, store=store)
        self._media = storage_media()
        self._modes = ModeEffects(self._model.summary, None, store)
        with suppress(EdgetrainError):  # a run without power modes; asking for one is answered with the reason
            self._modes.fit()

    def point(self, changes: Mapping[str, str]) -> WhatIfPoint:
        """Answer without an interval, from one simulation of each epoch."""
        from edgetrain.live import WhatIfPoint

        given, facts = self._read(changes)
        found = self._model.values(given, facts)
        said = (
            f"{_asked(changes)}: {spell_seconds(found.total_s)} for the recorded epochs (predicted; interval follows), "
            f"gain {spell_gain_pct(found.gain_pct)}."
        )
        said += _rest(found.later.e2e_s, found.later.stall_s, found.later.energy_j, found.assumed)
        return WhatIfPoint(said, found.total_s, None, None, found.gain_pct)

    def with_interval(self, changes: Mapping[str, str], pause: Callable[[], None]) -> WhatIfPoint:
        """Answer with the interval, from simulations with varied inputs."""
        from edgetrain.live import WhatIfPoint

        given, facts = self._read(changes)
        row = self._model.row(given, facts, pause) if given else self._model.base
        total, later = row.total_s, row.later
        said = (
            f"{_asked(changes)}: {spell_seconds(total.value)} for the recorded epochs (predicted; 90 % interval "
            f"{spell_seconds(total.lo)} to {spell_seconds(total.hi)}), gain {spell_gain_pct(row.gain_pct)}."
        )
        energy_j = later.energy_j.value if later.energy_j is not None else None
        said += _rest(later.e2e_s.value, later.stall_s.value, energy_j, row.assumed)
        return WhatIfPoint(said, total.value, total.lo, total.hi, row.gain_pct)

    def _read(self, changes: Mapping[str, str]) -> tuple[dict[str, Scalar], ChangeFacts]:
        given = read_changes({name: _scalar(value) for name, value in changes.items()})
        model = self._model
        facts = change_facts(model.summary, given, self._media, self._modes, model.predictor.base.experiment)
        return given, facts


def _asked(changes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "as recorded"


def _rest(e2e_s: float, stall_s: float, energy_j: float | None, assumed: Sequence[str]) -> str:
    """Return what is said of a later epoch, and what was assumed."""
    said = f" A later epoch: {spell_seconds(e2e_s)}, of it stall {spell_seconds(stall_s)}"
    if energy_j is not None:
        said += f", {spell(energy_j, 'J')}"
    if assumed:
        said += f". Assumed: {'; '.join(assumed)}"
    return said + "."


def _scalar(text: str) -> Scalar:
    try:
        return int(text)
    except ValueError:
        return text
