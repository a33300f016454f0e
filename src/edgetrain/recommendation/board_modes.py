"""The modes of a board to choose from, with its stock modes; and whether profiled modes are of the same board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.prediction import FACTORS, Array, Fitted, ModeTable, largest, varies
from edgetrain.schema import ModeMeasurement, PowerMode
from edgetrain.units import HZ_PER_MHZ

SAME_CLOCK = 0.015  # sources print 1300 for 1300.5 MHz, and 1200 for 1190.4


@dataclass(frozen=True, slots=True)
class BoardModes:
    """The modes of a board, the stock modes among them, and what it draws when it does not train."""

    name: str
    modes: ModeTable
    stock: Mapping[str, int] = field(default_factory=dict)  # name: row
    unlisted_stock: tuple[str, ...] = ()  # stock modes whose clocks are not among the modes
    default: str | None = None  # name of the factory default
    idle_w: Mapping[str, float] = field(default_factory=dict)  # by state, at the socket, published


def with_stock_modes(
    name: str,
    modes: ModeTable,
    stock: Mapping[str, PowerMode],
    default: str | None = None,
    idle_w: Mapping[str, float] | None = None,
) -> BoardModes:
    """Return a board's modes with the rows of its stock modes."""
    rows: dict[str, int] = {}
    missing: list[str] = []
    for label, mode in stock.items():
        row = find_row(modes, mode)
        row = find_row(modes, _held(modes, mode)) if row is None else row
        if row is None:
            missing.append(label)
        else:
            rows[label] = row
    return BoardModes(name, modes, rows, tuple(missing), default, dict(idle_w or {}))


def _held(modes: ModeTable, mode: PowerMode) -> PowerMode:
    """Return the mode that a stock mode results in: it caps clocks, and the board takes the highest step below."""

    def below(column: Array, cap: int | None) -> int | None:
        steps = column[column <= 1.005 * cap] if cap is not None else column[:0]
        return int(steps.max()) if len(steps) else cap

    cpu_hz = below(modes.cpu_hz, mode.cpu_hz) or mode.cpu_hz
    return PowerMode(mode.cores, cpu_hz, below(modes.gpu_hz, mode.gpu_hz), below(modes.emc_hz, mode.emc_hz))


def find_row(modes: ModeTable, mode: PowerMode, tolerance: float = SAME_CLOCK) -> int | None:
    """Return the row of a mode, with clocks within the tolerance; a clock that either side lacks is not compared."""
    if not len(modes):
        return None
    off = np.zeros(len(modes))
    for column, value in ((modes.cpu_hz, mode.cpu_hz), (modes.gpu_hz, mode.gpu_hz), (modes.emc_hz, mode.emc_hz)):
        if value is not None:
            off = np.fmax(off, np.abs(column / value - 1.0))
    off[modes.cores != mode.cores] = np.inf
    row = int(np.argmin(off))
    return row if off[row] <= tolerance else None


def rows_of(modes: ModeTable, measurements: Sequence[ModeMeasurement]) -> dict[int, ModeMeasurement]:
    """Return the measurements by the row of their mode; those of modes that are not in the table are left out."""
    rows = ((find_row(modes, found.mode, 1e-6), found) for found in measurements)
    return {row: found for row, found in rows if row is not None}


def check_same_board(profiled: ModeTable, profiled_name: str, board: BoardModes) -> None:
    """Refuse modes profiled on a board that cannot be this one."""
    for name, words in FACTORS.items():
        mine, theirs = profiled.factor(name), board.modes.factor(name)
        most, top = largest(mine), largest(theirs)
        if most is None and varies(theirs):
            raise UsageError(
                f"{profiled_name} does not give the {words} ({name}) of its modes, and {board.name} has several; "
                "add that column"
            )
        if top is None and varies(mine):
            raise UsageError(
                f"the modes of {profiled_name} differ in {words}, and {board.name} does not give it ({name}); "
                "name the right board"
            )
        if most is not None and top is not None and most > 1.05 * top:
            spelled = (
                f"{most:g} against {top:g}"
                if name == "cores"
                else f"{most / HZ_PER_MHZ:g} MHz against {top / HZ_PER_MHZ:g} MHz"
            )
            raise UsageError(
                f"{profiled_name} was profiled on another board than {board.name}: its largest {words} is {spelled}; "
                "name the right board"
            )


def check_predictor(fitted: Fitted, predictor_name: str, board: BoardModes) -> None:
    """Refuse a predictor whose largest clocks are not this board's."""
    reference = fitted.reference.table()
    for name, words in FACTORS.items():
        mine, theirs = largest(reference.factor(name)), largest(board.modes.factor(name))
        if mine is None or theirs is None:
            continue
        if mine > 1.05 * theirs or theirs > 1.5 * mine:
            raise UsageError(
                f"the predictor {predictor_name} does not match {board.name}: it was fitted where the largest {words} "
                f"({name}) is {mine:g}, here it is {theirs:g}; fit one for this board"
            )
