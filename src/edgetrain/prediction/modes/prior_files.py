"""Reads and writes prior files: the coefficients of each network as JSON, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.documents import DocumentError, from_document, read_json, to_document
from edgetrain.errors import UsageError
from edgetrain.prediction.modes.physics import POWER_NAMES, TIME_NAMES
from edgetrain.prediction.modes.prior import GENERIC, Prior, PriorEntry

FORMAT = "edgetrain-prior-1"
SHIPPED = Path(__file__).parent.parent / "priors"
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class _SavedEntry:
    """One entry as it is in the file: coefficients by name, so that a reader can check them."""

    network: str
    board: str
    kind: str
    time: dict[str, float]
    power: dict[str, float]
    time_spread: dict[str, float]
    power_spread: dict[str, float]
    time_scatter: float
    power_scatter: float
    modes: int
    batch_size: float | None = None
    weight: float = 1.0
    source: str = ""

    def entry(self) -> PriorEntry:
        return PriorEntry(
            self.network,
            self.board,
            self.kind,
            tuple(self.time[name] for name in TIME_NAMES),
            tuple(self.power[name] for name in POWER_NAMES),
            tuple(self.time_spread[name] for name in TIME_NAMES),
            tuple(self.power_spread[name] for name in POWER_NAMES),
            self.time_scatter,
            self.power_scatter,
            self.modes,
            self.batch_size,
            self.weight,
            self.source,
        )

    @staticmethod
    def of(entry: PriorEntry) -> _SavedEntry:
        def named(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
            return {name: round(value, _DIGITS) for name, value in zip(names, values, strict=True)}

        return _SavedEntry(
            entry.network,
            entry.board,
            entry.kind,
            named(TIME_NAMES, entry.time),
            named(POWER_NAMES, entry.power),
            named(TIME_NAMES, entry.time_spread),
            named(POWER_NAMES, entry.power_spread),
            entry.time_scatter,
            entry.power_scatter,
            entry.modes,
            entry.batch_size,
            entry.weight,
            entry.source,
        )


@dataclass(frozen=True, slots=True)
class _SavedPrior:
    schema: str
    name: str
    provenance: str
    entries: tuple[_SavedEntry, ...]


def shipped_priors() -> list[str]:
    """Return the names of the priors that ship with edgetrain."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_prior(name: str = "orin", without: Iterable[str] = ()) -> Prior:
    """Load a prior: `none`, one that ships (`orin`), or a file; `without` leaves networks or boards out."""
    if name == "none":
        return GENERIC
    path = SHIPPED / f"{name}.json"
    if not path.exists():
        path = Path(name)
    try:
        document = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        known = ", ".join(["none", *shipped_priors()])
        raise UsageError(f"cannot read the prior {name!r}: {error}; shipped are: {known}") from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != FORMAT:
        raise UsageError(f"{path} has schema {found!r}; this version reads {FORMAT}")
    try:
        saved = from_document(_SavedPrior, {"name": path.stem, "provenance": "", **document})
        entries = tuple(entry.entry() for entry in saved.entries)
    except KeyError as error:
        raise UsageError(f"{path} is not a complete prior: the coefficient {error} is missing") from error
    except DocumentError as error:
        raise UsageError(f"{path} is not a complete prior: {error}") from error
    return Prior(saved.name, entries, saved.provenance).without(without)


def dump_prior(prior: Prior) -> str:
    """Return the prior as versioned JSON."""
    saved = _SavedPrior(FORMAT, prior.name, prior.provenance, tuple(_SavedEntry.of(entry) for entry in prior.entries))
    return json.dumps(to_document(saved), indent=1) + "\n"
