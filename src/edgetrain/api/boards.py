"""The power modes of a board: of the catalogue, of the device at hand, of a simulated one, or of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.device import load_catalogue, open_device
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.importers import ANY_BOARD, PowerRange
from edgetrain.prediction import ModeTable, bare, read_table
from edgetrain.recommendation import BoardModes, ProfiledModes, with_stock_modes
from edgetrain.schema import Board, PowerMode

ModesSource = str | Path | ModeTable | Sequence[PowerMode]
LIVE_DEVICES = ("auto", "jetson", "sim")


def is_live(board: str | None) -> bool:
    """Return whether a board is a device that can be opened, and not only a name of the catalogue."""
    return board is not None and board.partition(":")[0] in LIVE_DEVICES


def board_modes(
    board: str | None = None, modes: ModesSource | None = None, profiled: ProfiledModes | None = None
) -> BoardModes:
    """Return the modes to choose from: given ones, those of a board, or else the profiled ones."""
    if modes is not None and board is not None:
        raise UsageError("give either --modes or --device, not both")
    if isinstance(modes, (str, Path)):
        return BoardModes(str(modes), read_table(modes, need_results=False))
    if isinstance(modes, ModeTable):
        return BoardModes(f"{len(modes)} given modes", bare(modes))
    if modes is not None:
        return BoardModes(f"{len(modes)} given modes", ModeTable.of_modes(modes))
    if board is None:
        if profiled is None:
            raise UsageError("give the modes to choose from: --modes M.csv or --device orin-agx")
        return BoardModes(f"the {len(profiled.table)} profiled modes", bare(profiled.table))
    return _live_modes(board) if is_live(board) else _catalogued_modes(board)


def _live_modes(name: str) -> BoardModes:
    device = open_device(name)
    space = device.modes()
    if space is None or len(space) == 0:
        raise UsageError(
            f"{name} has no power modes to choose from; name a board of `edgetrain devices`, or give --modes"
        )
    default = next((stock.name for stock in space.stock if stock.default), None)
    stock = {stock.name: stock.mode for stock in space.stock}
    board = load_catalogue().find(device.spec.name)
    return with_stock_modes(name, ModeTable.of_modes(list(space)), stock, default, _idle_w(board))


def _catalogued_modes(name: str) -> BoardModes:
    board = load_catalogue().get(name)
    modes = list(board.modes())
    if not modes:
        raise UsageError(
            f"the clock tables of {board.title} are not published; give --modes M.csv from the board itself"
        )
    stock = {mode.name: held for mode in board.stock_modes if (held := mode.held_on(board)) is not None}
    default = next((mode.name for mode in board.stock_modes if mode.id == board.stock_default), None)
    return with_stock_modes(board.key, ModeTable.of_modes(modes), stock, default, _idle_w(board))


def _idle_w(board: Board | None) -> dict[str, float]:
    if board is None:
        return {}
    return {state: power for state, power in board.idle_socket_w.items() if isinstance(power, float)}


def power_range(board: str | None) -> PowerRange:
    """Return the total powers that are possible for a board; for any board where it is not known."""
    if board is None:
        return ANY_BOARD
    name = board
    if is_live(board):
        try:
            name = open_device(board).spec.name
        except EdgetrainError:
            return ANY_BOARD
    known = load_catalogue().find(name)
    return ANY_BOARD if known is None else PowerRange.of_board(known.title, known.peak_power_w)
