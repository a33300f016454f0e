"""Which doubts about a trial are a reason to measure it again, and how the others are told."""

from __future__ import annotations

from collections.abc import Sequence

from edgetrain.schema import Doubt, LoaderMeasurement

# What changes the time or the power of a trial and may be over in the next one. A loop that is fed by another thread,
# or a loader that could not be seen, is the same in each trial: that is only told.
PASSING = (
    "throttle",
    "over_current",
    "clocks_differ",
    "mode_differs",
    "mode_not_settled",
    "other_load",
    "steal",
    "stopped",
    "cache_not_cold",
    "cache_not_warm",
    "no_telemetry",
    "sampler_died",
    "worker_died",
)


def passing_doubts(measured: LoaderMeasurement) -> list[Doubt]:
    """Return the doubts of a trial for which measuring it again may help."""
    return [doubt for doubt in measured.doubts if doubt.kind in PASSING]


def doubt_notes(trials: Sequence[LoaderMeasurement]) -> list[str]:
    """Return one sentence per kind of doubt: how many trials have it, and what it says of the first of them."""
    texts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for trial in trials:
        for kind, text in {doubt.kind: doubt.text for doubt in reversed(trial.doubts)}.items():
            texts.setdefault(kind, text)
            counts[kind] = counts.get(kind, 0) + 1
    return [f"doubt about {counts[kind]} of {len(trials)} trials that count: {text}" for kind, text in texts.items()]
