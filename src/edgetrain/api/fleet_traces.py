"""Exports the open trace set: time, power and variability of every board and network of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgetrain.api.files import write_text
from edgetrain.api.records import Exported
from edgetrain.device import Physics, load_catalogue, networks_of, simulated_boards, spread_of
from edgetrain.prediction import ModeTable
from edgetrain.recommendation import find_row, frontier, load_published
from edgetrain.report import FleetTraceRow, fleet_trace_csv
from edgetrain.schema import DEFAULT_BATCH_SIZE, Board, Origin, PowerMode

WORKERS = 4  # loader workers of all entries
SPREAD_SOURCE = "SIGMETRICS 2023: medians of five units, and one unit over 15 h; as standard deviation of the logarithm"
ASSUMED_SOURCE = "assumed: as AGX Xavier, nothing is published about this board"


def export_fleet_trace(path: Path | str) -> Exported:
    """Write the trace set as CSV."""
    rows = list(fleet_trace())
    write_text(path, fleet_trace_csv(rows))
    return Exported(str(path), len(rows), Path(path).stat().st_size, 0)


def fleet_trace() -> Iterator[FleetTraceRow]:
    """Yield every value of the trace set."""
    for key in simulated_boards():
        board = load_catalogue().get(key)
        yield from _board_rows(board)
        for network in networks_of(key):
            yield from _mode_rows(board, network)
    for figure in load_published().figures:
        facts = (figure.board, figure.network, DEFAULT_BATCH_SIZE, "MAXN", None, None, None, None)
        yield FleetTraceRow(*facts, "samples", figure.samples, "1", figure.origin, figure.source)
        yield FleetTraceRow(*facts, "epoch_s", figure.epoch_s, "s", figure.origin, figure.source)
        if figure.energy_j is not None:
            yield FleetTraceRow(*facts, "epoch_energy_j", figure.energy_j, "J", figure.origin, figure.source)


def _board_rows(board: Board) -> Iterator[FleetTraceRow]:
    """Yield what holds for all networks: variability and idle power at the socket."""
    found = spread_of(board.key)
    origin, source = (Origin.SIMULATED, ASSUMED_SOURCE) if found.assumed else (Origin.PUBLISHED, SPREAD_SOURCE)
    nothing = (None,) * 7
    for quantity, value in (
        ("unit_time_log_sd", found.unit_time),
        ("unit_power_log_sd", found.unit_power),
        ("run_time_log_sd", found.run_time),
        ("run_power_log_sd", found.run_power),
    ):
        yield FleetTraceRow(board.key, *nothing, quantity, value, "1", origin, source)
    for state, power in board.idle_socket_w.items():
        if isinstance(power, (int, float)):
            quantity = f"idle_socket_w:{state}"
            cited = board.sources.get("idle_socket_w", "")
            yield FleetTraceRow(board.key, *nothing, quantity, float(power), "W", Origin.PUBLISHED, cited)


def _mode_rows(board: Board, network: str) -> Iterator[FleetTraceRow]:
    """Yield time, power and idle power of the stock modes and of the frontier of time and power."""
    physics = Physics(board.key, network, smooth=True)
    modes = list(board.modes())
    steps = [physics.step(mode) for mode in modes]
    time_s = np.array([step.interval_s(WORKERS) for step in steps])
    power_w = np.array([step.power_w(WORKERS) for step in steps])
    named = _stock_rows(board, ModeTable.of_modes(modes))
    for row in sorted({*named, *(int(each) for each in frontier(time_s, power_w))}):
        mode, step = modes[row], steps[row]
        facts = (
            board.key,
            network,
            DEFAULT_BATCH_SIZE,
            named.get(row),
            mode.cores,
            mode.cpu_hz,
            mode.gpu_hz,
            mode.emc_hz,
        )
        origin = Origin.SIMULATED
        yield FleetTraceRow(*facts, "minibatch_s", float(time_s[row]), "s", origin, physics.source)
        yield FleetTraceRow(*facts, "minibatch_cv", physics.minibatch_cv, "1", origin, physics.source)
        yield FleetTraceRow(*facts, "power_w", float(power_w[row]), "W", origin, physics.source)
        yield FleetTraceRow(*facts, "idle_held_w", step.idle_w, "W", origin, physics.idle_source)
        yield FleetTraceRow(*facts, "idle_free_w", step.rest_w, "W", origin, physics.idle_source)


def _stock_rows(board: Board, table: ModeTable) -> dict[int, str]:
    """Return the stock modes by their row; a stock mode whose clocks are not in the tables is left out."""
    found: dict[int, str] = {}
    for stock in board.stock_modes:
        held: PowerMode | None = stock.held_on(board)
        row = None if held is None else find_row(table, held)
        if row is not None:
            found.setdefault(row, stock.name)
    return found
