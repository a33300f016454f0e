"""`edgetrain sensitivity`: what answers to which clock."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from edgetrain.cli.decide import board_modes, check_match, read_profiled
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.errors import UsageError
from edgetrain.predict import fit, load_prior
from edgetrain.recommend.sensitivity import dominant, elasticities
from edgetrain.report.document import emit
from edgetrain.report.sensitivity import show_sensitivity
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA, Origin, weakest

PANEL, ORDER = "decide", 20
NO_STALLS = "stall and compute are not told apart: a table has no such columns; a campaign of runs does"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("sensitivity", rich_help_panel=PANEL)(sensitivity)


def sensitivity(
    profiled: Annotated[str, typer.Argument(help="Modes that were measured: a CSV, or a campaign of the store.")],
    predict: Annotated[
        bool, typer.Option("--predict", help="Fit the modes and answer for all of --modes or --device.")
    ] = False,
    modes: Annotated[Path | None, typer.Option(help="With --predict: CSV of the modes.")] = None,
    device: Annotated[str | None, typer.Option(help="With --predict: a board's modes.")] = None,
    prior: Annotated[str, typer.Option(help="With --predict: orin, or none.")] = "orin",
    without: Annotated[list[str] | None, typer.Option(help="Leave a network out of the prior.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.9,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What would a faster clock, or another core, change? Percent of time, power and energy per percent.

    Example: edgetrain sensitivity mine.csv
    """
    if not 0 < level < 1:
        raise UsageError(f"--level lies between 0 and 1, not at {level:g}")
    known = read_profiled(profiled, store)
    origin = weakest(m.origin for m in known.measurements)
    if predict:
        board = board_modes(modes, device, None)
        check_match(known, board)
        fitted = fit(
            known.table, None if prior == "none" else load_prior(prior, without=tuple(without or ())), 0, board.modes
        )
        table, p = board.modes, fitted.predict(board.modes)
        time_s, power_w, stalls, origin = p.time_s, p.power_w, {}, Origin.PREDICTED
    else:
        assert known.table.time_s is not None and known.table.power_w is not None
        table, time_s, power_w, stalls = known.table, known.table.time_s, known.table.power_w, dict(known.stalls)
    quantities = {"time": time_s, "power": power_w, "energy": time_s * power_w}
    for name, column in (("fetch stall", "fetch_stall_s"), ("compute", "compute_s")):
        if column in stalls:
            quantities[name] = np.asarray(stalls[column], dtype=float)
    found = elasticities(table, quantities, level)
    notes = [] if "fetch_stall_s" in stalls else [NO_STALLS]
    if predict:
        notes.append("intervals are over pairs of modes; what the predictor may have wrong comes on top")
    document = {
        "schema": SCHEMA,
        "from": profiled,
        "modes": len(table),
        "origin": origin.value,
        "level": level,
        "elasticities": [asdict(each) for each in found],
        "rules": {name: dominant(found, name) for name in quantities},
        "notes": notes,
    }
    if json:
        emit(document)
    else:
        console().print(show_sensitivity(document))
