"""What the deciding verbs share: reading profiled modes, the board's modes, and what measures a mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.device import catalog, open_device
from edgetrain.errors import StoreError, UsageError
from edgetrain.predict import ModeTable, read_table
from edgetrain.predict.base import Predictions
from edgetrain.recommend.budgets import TableMeasure
from edgetrain.recommend.records import measurements_from, stalls_from, survey
from edgetrain.schema import Measure, ModeMeasurement, Origin, PowerMode
from edgetrain.store import Store
from edgetrain.store.campaigns import read_table as read_campaign


@dataclass(frozen=True)
class Profiled:
    """Modes that were measured, as a table to learn from and as measurements."""

    name: str
    table: ModeTable
    measurements: Sequence[ModeMeasurement]
    stalls: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)  # where runs hold them
    baseload_w: float | None = None  # the least that runs measured at rest


@dataclass(frozen=True)
class BoardModes:
    """The modes of a board: all of them, the stock ones among them, and what it draws at rest."""

    name: str
    modes: ModeTable
    stock: Mapping[str, int]
    unlisted_stock: Sequence[str] = ()  # stock modes whose clocks are not among the modes
    default: str | None = None
    idle_w: Mapping[str, float] = field(default_factory=dict)  # at the socket, published
    price_usd: float | None = None


def read_profiled(name: str, store: Path | None) -> Profiled:
    """Read profiled modes from a CSV, an imported table, or the runs of a campaign."""
    path = Path(name)
    if path.is_file():
        table = read_table(path, need_results=True)
        return Profiled(name, table, _measurements(table, Origin.REPLAYED))
    records = Store(store)
    runs = [row["run"] for row in records.list() if row.get("campaign") == name]
    if runs:
        documents = [survey(records.open(run)) for run in runs]
        found = measurements_from(documents)
        if not found:
            raise UsageError(f"none of the {len(runs)} runs of campaign {name} has a power mode, a time and a power")
        idle = [each["baseload_w"] for each in documents if each.get("baseload_w") is not None]
        return Profiled(name, table_of(found), found, stalls_from(documents), min(idle, default=None))
    try:
        campaign = read_campaign(records, name)
    except StoreError as error:
        raise UsageError(f"{name!r} is neither a CSV file nor a campaign: {error}") from error
    table = read_table(campaign.modes_csv, need_results=True)
    origin = Origin(str(campaign.about.get("origin") or Origin.REPLAYED.value))
    return Profiled(name, table, _measurements(table, origin))


def _measurements(table: ModeTable, origin: Origin) -> list[ModeMeasurement]:
    assert table.time_s is not None and table.power_w is not None
    means = table.time_mean_s
    return [
        ModeMeasurement(
            table.mode(row),
            float(table.time_s[row]),
            float(table.power_w[row]),
            origin,
            None if means is None else float(means[row]),
        )
        for row in range(len(table))
    ]


def table_of(measurements: Sequence[ModeMeasurement]) -> ModeTable:
    """Return measurements as a table; boards without a GPU or memory clock get 1 Hz there, which never varies."""
    means = [m.time_mean_s for m in measurements]
    whole = [mean for mean in means if mean is not None]
    return replace(
        modes_table([m.mode for m in measurements]),
        time_s=np.array([m.time_s for m in measurements]),
        time_mean_s=np.array(whole) if len(whole) == len(means) else None,
        power_w=np.array([m.power_w for m in measurements]),
    )


def modes_table(modes: Sequence[PowerMode]) -> ModeTable:
    """Return modes as columns."""
    return ModeTable(
        np.array([mode.cores for mode in modes], dtype=float),
        np.array([mode.cpu_hz for mode in modes], dtype=float),
        np.array([mode.gpu_hz or 1 for mode in modes], dtype=float),
        np.array([mode.emc_hz or 1 for mode in modes], dtype=float),
    )


def board_modes(modes: Path | None, device: str | None, profiled: Profiled | None) -> BoardModes:
    """Return what there is to choose from: a CSV of modes, a board's, or just those that were profiled."""
    if modes is not None and device is not None:
        raise UsageError("give either --modes or --device, not both")
    if modes is not None:
        return BoardModes(str(modes), read_table(modes, need_results=False), {})
    if device is None:
        if profiled is None:
            raise UsageError("give the modes to choose from: --modes M.csv or --device orin-agx")
        bare = replace(profiled.table, time_s=None, time_mean_s=None, power_w=None)
        return BoardModes(f"the {len(bare)} profiled modes", bare, {})
    kind = device.partition(":")[0]
    if kind in ("auto", "jetson", "sim"):
        return _live_modes(device)
    return _catalogued_modes(device)


def _live_modes(spec: str) -> BoardModes:
    device = open_device(spec)
    space = device.modes()
    if space is None or len(space) == 0:
        raise UsageError(
            f"{spec} has no power modes to choose from; name a board of `edgetrain devices`, or give --modes"
        )
    table = modes_table(list(space))
    default = next((stock.name for stock in space.stock if stock.default), None)
    stock = {stock.name: stock.mode for stock in space.stock}
    board = catalog.load().find(device.spec.name)
    return _with_stock(spec, table, stock, default, board)


def _catalogued_modes(name: str) -> BoardModes:
    board = catalog.load().get(name)
    modes = list(board.modes())
    if not modes:
        raise UsageError(
            f"the clock tables of {board.title} are not published; give --modes M.csv from the board itself"
        )
    stock = {mode.name: held for mode in board.stock_modes if (held := mode.held_on(board)) is not None}
    default = next((mode.name for mode in board.stock_modes if mode.id == board.stock_default), None)
    return _with_stock(board.key, modes_table(modes), stock, default, board)


def _with_stock(
    name: str, table: ModeTable, stock: Mapping[str, PowerMode], default: str | None, board: catalog.Board | None
) -> BoardModes:
    rows: dict[str, int] = {}
    missing: list[str] = []
    for label, mode in stock.items():
        row = find_row(table, mode)
        row = find_row(table, _capped(table, mode)) if row is None else row
        if row is None:
            missing.append(label)
        else:
            rows[label] = row
    idle = (
        {} if board is None else {key: value for key, value in board.idle_socket_w.items() if isinstance(value, float)}
    )
    price = None if board is None else board.price_usd
    return BoardModes(name, table, rows, missing, default, idle, price)


def _capped(table: ModeTable, mode: PowerMode) -> PowerMode:
    """Return what a stock mode really holds: it caps clocks, and the board takes the highest step below the cap."""

    def below(column: np.ndarray[Any, Any], cap: int | None) -> int | None:
        steps = column[column <= 1.005 * cap] if cap is not None else column[:0]
        return int(steps.max()) if len(steps) else cap

    cpu_hz = below(table.cpu_hz, mode.cpu_hz) or mode.cpu_hz
    return PowerMode(mode.cores, cpu_hz, below(table.gpu_hz, mode.gpu_hz), below(table.emc_hz, mode.emc_hz))


def find_row(table: ModeTable, mode: PowerMode, tolerance: float = 0.015) -> int | None:
    """Return the row of a mode, clocks within 1.5 %: sources print 1300 for 1300.5 MHz, and 1200 for 1190.4."""
    off = np.zeros(len(table))
    for column, value in ((table.cpu_hz, mode.cpu_hz), (table.gpu_hz, mode.gpu_hz), (table.emc_hz, mode.emc_hz)):
        if value is not None:
            off = np.maximum(off, np.abs(column / value - 1.0))
    off[table.cores != mode.cores] = np.inf
    row = int(np.argmin(off))
    return row if off[row] <= tolerance else None


def rows_of(table: ModeTable, measurements: Sequence[ModeMeasurement]) -> dict[int, ModeMeasurement]:
    """Return the measurements by the row of their mode; those of modes not in the table are left out."""
    rows = ((find_row(table, m.mode, 1e-6), m) for m in measurements)
    return {row: m for row, m in rows if row is not None}


def check_match(profiled: Profiled, board: BoardModes) -> None:
    """Refuse modes profiled on a board that cannot be this one."""
    for label, mine, theirs in (
        ("cores", profiled.table.cores, board.modes.cores),
        ("CPU clock", profiled.table.cpu_hz, board.modes.cpu_hz),
        ("GPU clock", profiled.table.gpu_hz, board.modes.gpu_hz),
        ("memory clock", profiled.table.emc_hz, board.modes.emc_hz),
    ):
        most, top = float(mine.max()), float(theirs.max())
        if most > 1.05 * top:
            spelled = (
                f"{most:g} against {top:g}" if label == "cores" else f"{most / 1e6:g} MHz against {top / 1e6:g} MHz"
            )
            raise UsageError(
                f"{profiled.name} was profiled on another board than {board.name}: its largest {label} is "
                f"{spelled}; name the right "
                "board"
            )


def exact_predictions(table: ModeTable) -> Predictions:
    """Return a measured table as predictions without spread, so that one path serves both."""
    assert table.time_s is not None and table.power_w is not None
    small = np.full(len(table), 1e-9)
    return Predictions(
        table.time_s, table.time_mean_s, table.power_w, small, small, 0.0, 30.0, np.zeros(len(table), dtype=bool)
    )


def measure_from(truth: Path | None, board: str | None, network: str | None, store: Path | None) -> Measure | None:
    """Return what measures a mode: a table, or a board (also a simulated one) training a network."""
    if truth is not None and board is not None:
        raise UsageError("give either --truth or --measure-on, not both")
    if truth is not None:
        return TableMeasure(read_table(truth, need_results=True))
    if board is None:
        return None
    if network is None:
        raise UsageError("measuring on a board needs to know what to train; give --network")
    from edgetrain.cli.measures import board_measure

    return board_measure(board, network, store)
