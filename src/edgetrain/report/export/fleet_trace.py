"""The open trace set: one CSV, one value per row, each with its origin and source, for other simulators."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, fields

from edgetrain.schema import Origin


@dataclass(frozen=True, slots=True)
class FleetTraceRow:
    """One value about a board, a network on it, or one power mode of both. None: does not apply."""

    board: str
    network: str | None
    batch_size: int | None
    mode: str | None  # name of a stock mode
    cores: int | None
    cpu_hz: int | None
    gpu_hz: int | None
    emc_hz: int | None
    quantity: str  # docs/rounds.md lists them
    value: float
    unit: str
    origin: Origin
    source: str


def fleet_trace_csv(rows: Iterable[FleetTraceRow]) -> str:
    """Return the rows as CSV; what does not apply is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [item.name for item in fields(FleetTraceRow)]
    writer.writerow(names)
    for row in rows:
        clocks = (row.cores, row.cpu_hz, row.gpu_hz, row.emc_hz)
        cells = (row.board, row.network, row.batch_size, row.mode, *clocks, row.quantity, f"{row.value:.6g}")
        writer.writerow(["" if cell is None else cell for cell in (*cells, row.unit, str(row.origin), row.source)])
    return out.getvalue()
