"""Priors as they are listed, and adding one network to a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgetrain.prediction.modes.prior import Prior, PriorEntry


@dataclass(frozen=True, slots=True)
class PriorSummary:
    """One prior and its entries."""

    name: str
    provenance: str
    entries: tuple[PriorEntry, ...]


@dataclass(frozen=True, slots=True)
class PriorList:
    """Priors that are there; `written` and `replaced` say what adding an entry did."""

    priors: tuple[PriorSummary, ...]
    written: str | None = None  # the file
    replaced: int | None = None  # entries of the same network, board, kind and batch size


def summarize_prior(prior: Prior, name: str) -> PriorSummary:
    """Return a prior under the name by which it was loaded."""
    return PriorSummary(name, prior.provenance, prior.entries)


def with_entry(prior: Prior, entry: PriorEntry, name: str) -> tuple[Prior, int]:
    """Return the prior with an entry added under a new name, and how many entries it replaced."""

    def key(each: PriorEntry) -> tuple[str, str, str, float | None]:
        return each.network, each.board, each.kind, each.batch_size

    kept = tuple(each for each in prior.entries if key(each) != key(entry))
    return replace(prior, name=name, entries=(*kept, entry)), len(prior.entries) - len(kept)
