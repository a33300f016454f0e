"""What a device of a round can do: modes with time and power from a table, a predictor or the catalogue."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from edgetrain.api.boards import board_modes, power_range
from edgetrain.device import TIME_RESIDUAL, Physics, load_catalogue, networks_of, spread_of
from edgetrain.errors import BadTable, UsageError
from edgetrain.prediction import Array, ModeTable, bare, parse_predictor, read_table
from edgetrain.recommendation import (
    BoardModes,
    KindSpread,
    RecordedRounds,
    RoundModes,
    check_predictor,
    with_stock_modes,
)
from edgetrain.schema import Board, Origin, PowerMode

WORKERS = 4  # loader workers of the catalogue's entries, as in the published figures
RECORDED = ("round", "device", "predicted_s", "observed_s")


def kind_of(board: str) -> str:
    """Return the catalogue's name of a board; the name itself where it has none."""
    found = load_catalogue().find(board)
    return board if found is None else found.key


def catalogue_modes(board: str, network: str, batch_size: int = 16, idle_w: float | None = None) -> RoundModes:
    """Return the catalogue's entry of a network on a board: every mode, by formulas with published coefficients.

    A measured idle power takes the place of the formula's, whatever the clocks.
    """
    kind = kind_of(board)
    if network not in networks_of(kind):
        known = ", ".join(networks_of(kind))
        has = f"it has {known}" if known else "it has no entries at all"
        raise UsageError(
            f"the catalogue has no entry for the network {network!r} on {board}; {has}: give a table or a predictor"
        )
    entry = load_catalogue().get(kind)
    physics = Physics(kind, network, batch_size, smooth=True)
    modes = list(entry.modes())
    steps = [physics.step(mode) for mode in modes]
    table = ModeTable.of_modes(modes)
    top, default = top_row(table), _default_row(table, entry)
    return RoundModes(
        f"{kind} {network} (catalogue)",
        table,
        np.array([step.interval_s(WORKERS) for step in steps]),
        np.array([step.power_w(WORKERS) for step in steps]),
        Origin.SIMULATED,
        top,
        default,
        batch_size,
        np.full(len(modes), TIME_RESIDUAL),
        min(step.rest_w for step in steps) if idle_w is None else idle_w,
        steps[top].idle_w if idle_w is None else idle_w,
        None if default is None else (steps[default].idle_w if idle_w is None else idle_w),
    )


def table_modes(path: Path, board: str, batch_size: int = 16, idle_w: float | None = None) -> RoundModes:
    """Return measured modes from a CSV; without a column of power, power is not known."""
    table = read_table(path, need_results=False, power=power_range(kind_of(board)))
    if table.time_s is None:
        raise BadTable(f"{path} does not give the time of every mode (time_ms), which a round needs")
    seconds = table.time_s if table.time_mean_s is None else table.time_mean_s
    return _known_modes(f"{board} {path.name}", bare(table), seconds, table.power_w, board, batch_size, idle_w)


def predictor_modes(path: Path, board: str, batch_size: int = 16, idle_w: float | None = None) -> RoundModes:
    """Return what a saved predictor says about every mode of a board."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the predictor {path}: {error}") from error
    fitted, known = parse_predictor(text, str(path)), board_modes(kind_of(board))
    check_predictor(fitted, str(path), known)
    found = fitted.predict(known.modes)
    seconds = found.time_s if found.time_mean_s is None else found.time_mean_s
    default = known.stock.get(known.default) if known.default else None
    return RoundModes(
        f"{board} {path.name} (predictor)",
        known.modes,
        seconds,
        found.power_w,
        Origin.PREDICTED,
        top_row(known.modes),
        default,
        batch_size,
        found.time_log_sd,
        idle_w,
        idle_w,
        idle_w,
    )


def _known_modes(
    name: str,
    modes: ModeTable,
    time_s: Array,
    power_w: Array | None,
    board: str,
    batch_size: int,
    idle_w: float | None,
) -> RoundModes:
    entry = load_catalogue().find(board)
    default = None if entry is None else _default_row(modes, entry)
    # One idle power is known, whatever the clocks.
    return RoundModes(
        name, modes, time_s, power_w, Origin.REPLAYED, top_row(modes), default, batch_size, None, idle_w, idle_w, idle_w
    )


def top_row(modes: ModeTable) -> int:
    """Return the row with the most cores and, among those, the highest clocks."""
    columns = (modes.emc_hz, modes.cpu_hz, modes.gpu_hz, modes.cores)
    return int(np.lexsort([np.nan_to_num(column) for column in columns])[-1])


def _default_row(modes: ModeTable, board: Board) -> int | None:
    """Return the row of the factory default; None where it is not known or not among the modes."""
    named = {mode.name: mode.held_on(board) for mode in board.stock_modes if mode.id == board.stock_default}
    stock: dict[str, PowerMode] = {name: mode for name, mode in named.items() if mode is not None}
    if not stock:
        return None
    found: BoardModes = with_stock_modes(board.key, modes, stock)
    return next(iter(found.stock.values()), None)


def kind_spread(board: str) -> tuple[KindSpread, bool]:
    """Return how units and runs of a board vary, and whether that is assumed: nothing is published about the board."""
    found = spread_of(kind_of(board))
    return KindSpread(found.unit_time, found.run_time, found.unit_power, found.run_power), found.assumed


def read_recorded(path: Path) -> RecordedRounds:
    """Read observed and predicted times of earlier rounds; an empty observed_s is a missing answer."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTable(f"cannot read the recorded rounds {path}: {error}") from error
    if not rows:
        raise BadTable(f"{path} is empty; recorded rounds have the columns {', '.join(RECORDED)}")
    missing = [name for name in RECORDED if name not in rows[0]]
    if missing:
        raise BadTable(
            f"{path} line 1: recorded rounds have the columns {', '.join(RECORDED)}; {missing[0]} is missing"
        )
    devices = {name: place for place, name in enumerate(dict.fromkeys(row["device"] for row in rows))}
    rounds = {name: place for place, name in enumerate(dict.fromkeys(row["round"] for row in rows))}
    ratios = np.full((len(rounds), len(devices)), np.nan)
    for line, row in enumerate(rows, 2):
        ratios[rounds[row["round"]], devices[row["device"]]] = _ratio(row, line, path)
    if not np.isfinite(ratios).any():
        raise BadTable(f"{path} holds no answered round")
    return RecordedRounds(tuple(devices), ratios)


def _ratio(row: dict[str, str], line: int, path: Path) -> float:
    if not (row["observed_s"] or "").strip():
        return float("nan")
    try:
        predicted, observed = float(row["predicted_s"]), float(row["observed_s"])
    except ValueError as error:
        raise BadTable(f"{path} line {line}: {error}", file=path.name, line=line) from error
    if not (0 < predicted < float("inf") and 0 < observed < float("inf")):
        raise BadTable(f"{path} line {line}: times must be above zero", file=path.name, line=line)
    return observed / predicted
