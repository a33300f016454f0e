"""Pictures as JSON for the page's script: numbers as base64 of 16-bit steps between the smallest and the largest.

A column costs 2.7 bytes per value and is exact to 1/65,000 of its range, finer than any screen.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetrain.documents import to_document
from edgetrain.report.page.plot import Floats, Plot, PlotMark, PlotSeries

STEPS = 65_534
MISSING = 65_535


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """A column of numbers in 16-bit steps; `at` is base64, little-endian."""

    lo: float
    hi: float
    at: str


def pack(values: Floats) -> PackedColumn:
    """Pack a column; NaN and infinities are missing."""
    known = np.isfinite(values)
    lo = float(values[known].min()) if known.any() else 0.0
    hi = float(values[known].max()) if known.any() else 0.0
    places = np.full(len(values), MISSING, np.uint16)
    span = hi - lo or 1.0
    places[known] = np.rint((values[known] - lo) / span * STEPS).astype(np.uint16)
    return PackedColumn(lo, hi, base64.b64encode(places.astype("<u2").tobytes()).decode("ascii"))


def unpack(column: PackedColumn) -> Floats:
    """Return the numbers of a packed column, as the page's script does."""
    places = np.frombuffer(base64.b64decode(column.at), "<u2")
    values = column.lo + places / STEPS * (column.hi - column.lo)
    return np.where(places == MISSING, np.nan, values)


def _document(series: PlotSeries) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": series.name,
        "style": series.style.value,
        "colour": series.colour,
        "n": len(series.y),
        "y": to_document(pack(series.y)),
    }
    step = np.diff(series.x)
    even = len(step) > 2 and bool(np.allclose(step, step[0], rtol=1e-6))
    # Equal bins need no column: their first and last middle say all.
    found["x"] = [float(series.x[0]), float(series.x[-1])] if even else to_document(pack(series.x))
    for name in ("low", "high", "x_low", "x_high"):
        column = getattr(series, name)
        if column is not None:
            found[name] = to_document(pack(column))
    found |= {name: True for name in ("strong", "hidden", "dashed") if getattr(series, name)}
    if series.facts:
        found["facts"] = [
            {"name": fact.name, "unit": fact.unit, "values": to_document(pack(fact.values))} for fact in series.facts
        ]
    if series.labels:
        found["labels"] = list(series.labels)
    return found


def _marks(plot: Plot, owner: dict[tuple[PlotMark, ...], str]) -> list[Any] | str:
    first = owner.setdefault(plot.marks, plot.id)
    return first if plot.marks and first != plot.id else list(to_document(plot.marks))


def plots_json(plots: list[Plot]) -> str:
    """Return pictures as JSON that can stand inside a script element.

    Marks that an earlier picture has too, as the epochs of a timeline, are written once: as the id of that picture.
    """
    owner: dict[tuple[PlotMark, ...], str] = {}
    documents = [
        {
            "id": plot.id,
            "title": plot.title,
            "alt": plot.alt,
            "note": plot.note,
            "group": plot.group,
            "height": plot.height,
            "x": to_document(plot.x),
            "y": to_document(plot.y),
            "marks": _marks(plot, owner),
            "series": [_document(series) for series in plot.series],
        }
        for plot in plots
    ]
    text = json.dumps(documents, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
