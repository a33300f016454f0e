"""The page of a table of power modes: measured ones, or those of a board predicted from a few."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgetrain.api.boards import board_modes
from edgetrain.api.prediction import predict, read_prior
from edgetrain.api.profiled import read_profiled
from edgetrain.errors import EdgetrainError
from edgetrain.prediction import ModeTable, bare, choose_modes, fit, results
from edgetrain.recommendation import BoardModes, ProfiledModes, parse_quantity, rows_of
from edgetrain.record import FolderStore
from edgetrain.record import read_table as read_campaign_table
from edgetrain.record import tables as campaign_tables
from edgetrain.report import HeldOut, ModeCloud, ModesContent, modes_page
from edgetrain.schema import Origin

PROFILED = 25  # modes of a measured table that predictions of the others are made from
MIN_HELD_OUT = 40
MEASURED_SHARE = 0.5  # of a board's modes: a table with fewer is completed by predictions


def is_mode_table(name: str, store: FolderStore) -> bool:
    """Return whether a name is a CSV file, or an imported table of power modes."""
    if Path(name).suffix.lower() == ".csv":
        return True
    if (Path(name) / "modes.csv").is_file():
        return True
    tables = [about.campaign for about in campaign_tables(store) if about.campaign]
    return any(each == name or each.rpartition("-")[0] == name for each in tables)


def mode_table_page(
    name: str,
    store: FolderStore,
    board: str | None = None,
    max_power_w: float | str | None = None,
    max_time_s: float | str | None = None,
    title: str | None = None,
) -> tuple[str, int]:
    """Return the page of a table of power modes, and how many modes it shows."""
    content = mode_content(name, store, board)
    limits = (parse_quantity(max_power_w, "power"), parse_quantity(max_time_s, "time"))
    cloud = replace(content.cloud, max_power_w=limits[0], max_time_s=limits[1])
    shown = replace(content, name=Path(content.name).stem, cloud=cloud)
    return modes_page(shown, title), len(cloud.time_s)


def mode_content(name: str, store: FolderStore, board: str | None = None) -> ModesContent:
    """Return the modes of a table as measured, or those of a board predicted from it where it holds only a few."""
    known = read_profiled(name, store, board)
    facts, device = _facts(name, store)
    all_modes = _board(board or device)
    table = known.table
    if board is not None and all_modes is not None and len(table) < MEASURED_SHARE * len(all_modes.modes):
        predictor = predict(known.table, board, store=store)
        cloud = ModeCloud.of_predictions(predictor.board, predictor.predictions, predictor.stock)
        return ModesContent(
            known.name,
            board,
            Origin.PREDICTED,
            cloud,
            table,
            known.measurements[0].origin,
            facts=facts,
            warnings=tuple(predictor.table().warnings),
        )
    time_s, power_w = results(table)
    mean_s = time_s if table.time_mean_s is None else table.time_mean_s
    stock = {} if all_modes is None else _stock_rows(all_modes, known)
    cloud = ModeCloud(bare(table), time_s, power_w, power_w * mean_s, stock=stock)
    origin = known.measurements[0].origin
    held, warnings = _held_out(table, origin)
    title = board or device or "board not named in the table"
    return ModesContent(known.name, title, origin, cloud, held_out=held, facts=facts, warnings=warnings)


def _facts(name: str, store: FolderStore) -> tuple[list[tuple[str, str]], str | None]:
    """Return what is known about an imported table, and the name of its board."""
    if Path(name).is_file():
        return [("table", name)], None
    try:
        about = read_campaign_table(store, name).about
    except EdgetrainError:
        return [], None
    device, workload = about.device, about.workload
    pairs = (
        ("table", about.campaign),
        ("origin", str(about.origin)),
        ("device", device.model or device.name),
        ("network", workload.network),
        ("batch size", workload.batch_size),
        ("imported from", about.imported.source if about.imported else None),
    )
    found = [(key, str(value)) for key, value in pairs if value is not None]
    found += [("problem in the source", text) for text in (about.imported.problems if about.imported else ())]
    return found, device.name


def _board(name: str | None) -> BoardModes | None:
    if name is None:
        return None
    try:
        return board_modes(name)
    except EdgetrainError:
        return None


def _stock_rows(board: BoardModes, known: ProfiledModes) -> dict[str, int]:
    """Return the rows of the table that are stock modes of the board."""
    found = {}
    for label, row in board.stock.items():
        rows = rows_of(known.table, [m for m in known.measurements if m.mode == board.modes.mode(row)])
        if rows:
            found[label] = next(iter(rows))
    return found


def _held_out(table: ModeTable, origin: Origin) -> tuple[HeldOut | None, tuple[str, ...]]:
    """Predict most of a measured table from a few of its modes; None where it is too small, or has batch sizes."""
    if len(table) < PROFILED + MIN_HELD_OUT or table.batch_size is not None:
        return None, ()
    if origin is Origin.SIMULATED:
        return None, ("the table is simulated: how well it is predicted says nothing about a board, and is not shown",)
    try:
        prior, _ = read_prior("none")
        chosen = choose_modes(bare(table), PROFILED, prior=prior)
        others = np.setdiff1d(np.arange(len(table)), chosen)
        fitted = fit(table.take(chosen), prior, 0, bare(table))
        truth = table.take(others)
        return HeldOut(truth, fitted.predict(bare(truth)), len(chosen)), ()
    except EdgetrainError as error:
        return None, (f"predictions were not checked against this table: {error}",)
