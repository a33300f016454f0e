"""`edgetrain predict`: which modes to profile, and every other mode from those."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from edgetrain.cli.decide import BoardModes, Profiled, board_modes, check_match, measure_from, read_profiled
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.errors import UsageError
from edgetrain.predict import ModeTable, dump_predictor, fit, load_prior, write_table
from edgetrain.predict.active import profile_until
from edgetrain.predict.base import bare
from edgetrain.predict.intervals import bounds, energy, expected_error
from edgetrain.predict.modes.design import plan_modes
from edgetrain.predict.modes.prior import Prior
from edgetrain.predict.outlook import Cost, cost_of, never_varied
from edgetrain.report.document import emit
from edgetrain.report.prediction import MOST_ROWS, show_plan, show_steps, show_table
from edgetrain.report.text import console
from edgetrain.runner.modes import SWITCH_S, WINDOW_S, visit_order
from edgetrain.schema import SCHEMA, Measure, Origin, PowerMode

PANEL, ORDER = "predict", 10
ABOUT = "Every power mode's time, power and energy from a few profiled ones."
MINIBATCHES = 45  # five to warm up and forty to measure, as the published tables were made

DeviceOption = Annotated[
    str | None, typer.Option(help="A board's modes instead: orin-agx (catalogue), auto, or sim:orin-agx.")
]
PriorOption = Annotated[str, typer.Option(help="What other networks taught: orin, none, or a file.")]
WithoutOption = Annotated[list[str] | None, typer.Option(help="Leave a network (or network@board) out of the prior.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    predict = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown")
    predict.command("plan")(plan)
    predict.command("table")(table)
    app.add_typer(predict, name="predict", rich_help_panel=PANEL)


def plan(
    candidates: Annotated[Path | None, typer.Option(help="CSV of the modes that may be profiled.")] = None,
    device: DeviceOption = None,
    count: Annotated[int, typer.Option(help="How many modes to profile.", min=1)] = 10,
    profiled: Annotated[
        str | None, typer.Option(help="Modes already measured: a CSV, or a campaign of the store.")
    ] = None,
    prior: PriorOption = "orin",
    without: WithoutOption = None,
    seed: Annotated[int, typer.Option(help="Ties and sampling of large boards.")] = 0,
    until: Annotated[
        str | None,
        typer.Option(help="Profile one by one until this error is expected: 5%. Needs --truth or --measure-on."),
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="With --until: a table stands in for the board.")] = None,
    measure_on: Annotated[
        str | None, typer.Option(help="With --until: train on this board: auto, sim:orin-agx.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="What to train (with --measure-on, and in --campaign).")] = None,
    minibatch_ms: Annotated[
        float | None, typer.Option(help="Time of a minibatch in the top mode, if you know it: for the cost.", min=0.0)
    ] = None,
    campaign: Annotated[Path | None, typer.Option(help="Also write the modes as a campaign plan (YAML).")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the modes (or what was measured) as CSV.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Which modes should I profile, in which order, how long will it take, and how good will predictions be?

    Example: edgetrain predict plan --device orin-agx --count 8 -o ask.csv
    """
    seen = None if profiled is None else read_profiled(profiled, store)
    board = board_modes(candidates, device, None)
    if seen is not None:
        check_match(seen, board)
    known = load_prior(prior, without=_names(without))
    if until is not None:
        measure = measure_from(truth, measure_on or _measurable(device, truth), network, store)
        document = _until(board, seen, known, until, count, measure, seed, output)
        emit(document) if json else console().print(show_steps(document))
        if not document["reached"]:
            raise typer.Exit(1)
        return
    document = _planned(board, seen, known, count, seed, minibatch_ms)
    if output is not None:
        chosen = board.modes.take(np.array([row["row"] for row in document["modes"]]))
        _write(output, write_table(chosen))
    if campaign is not None:
        _write(campaign, _campaign(document["modes"], network))
    if json:
        emit(document)
    else:
        console().print(show_plan(document))


def table(
    profiled: Annotated[str, typer.Option(help="Modes that were measured: a CSV, or a campaign of the store.")],
    modes: Annotated[Path | None, typer.Option(help="CSV of the modes to predict.")] = None,
    device: DeviceOption = None,
    prior: PriorOption = "orin",
    without: WithoutOption = None,
    seed: Annotated[int, typer.Option(help="Of the ensemble.")] = 0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write all predictions as CSV.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the predictor, for edgetrain recommend --predictor.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What are time, power and energy of every mode, given the few that were profiled?

    Example: edgetrain predict table --profiled mine.csv --device orin-agx -o all.csv
    """
    seen = read_profiled(profiled, store)
    board = board_modes(modes, device, seen)
    check_match(seen, board)
    known = load_prior(prior, without=_names(without))
    aimed = board.modes
    if seen.table.batch_size is None and aimed.batch_size is not None:
        raise UsageError(
            f"{board.name} has a batch_size column and {profiled} has none; profile with the batch size written down"
        )
    if seen.table.batch_size is not None and aimed.batch_size is None:
        raise UsageError(
            f"{profiled} has a batch_size column; add one to the modes, so that it is clear which to predict"
        )
    fitted = fit(seen.table, known, seed, aimed)
    predictions = fitted.predict(aimed)
    joules, joules_sd = energy(predictions)
    columns: dict[str, Any] = {"time_ms": 1e3 * predictions.time_s}
    _ends(columns, "time_ms", predictions.time_log_sd, predictions.dof)
    if predictions.time_mean_s is not None:
        columns["time_mean_ms"] = 1e3 * predictions.time_mean_s
    columns["power_mw"] = 1e3 * predictions.power_w
    _ends(columns, "power_mw", predictions.power_log_sd, predictions.dof)
    columns["energy_mj"] = 1e3 * joules
    _ends(columns, "energy_mj", joules_sd, predictions.dof)
    columns["extrapolated"] = predictions.extrapolated.astype(float)
    warnings = list(predictions.warnings)
    if predictions.time_mean_s is None:
        warnings.append("no time_mean_ms was profiled: energy follows the median minibatch, and epochs may take longer")
    warnings += never_varied(seen.table, aimed, known, seed)
    if output is not None:
        _write(output, write_table(bare(aimed), columns))
    if save is not None:
        _write(save, dump_predictor(fitted))
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "profiled": profiled,
        "profiled_modes": len(seen.table),
        "modes": len(aimed),
        "board": board.name,
        "origin": Origin.PREDICTED.value,
        "level": 0.9,
        "prior": {"name": prior, "without": list(_names(without)), "held": known.held},
        "expected_error": {
            "time": expected_error(predictions.time_log_sd, predictions.dof),
            "power": expected_error(predictions.power_log_sd, predictions.dof),
        },
        "warnings": warnings,
    }
    if json:
        plain = {"cores": aimed.cores, "cpu_khz": aimed.cpu_hz / 1e3, "gpu_hz": aimed.gpu_hz, "emc_hz": aimed.emc_hz}
        if aimed.batch_size is not None:
            plain["batch_size"] = aimed.batch_size
        emit({**document, "columns": {**plain, **columns}})
        return
    console().print(show_table(document, _quickest(aimed, columns)))


def _ends(columns: dict[str, Any], name: str, log_sd: Any, dof: float) -> None:
    columns[f"{name}_lo"], columns[f"{name}_hi"] = bounds(columns[name], log_sd, dof)


def _quickest(modes: ModeTable, columns: dict[str, Any]) -> list[dict[str, Any]]:
    order = np.argsort(columns["time_ms"], kind="stable")[:MOST_ROWS]
    rows: list[dict[str, Any]] = []
    for row in order.tolist():
        found = {
            "mode": str(modes.mode(row)),
            "energy_j": columns["energy_mj"][row] / 1e3,
            "extrapolated": bool(columns["extrapolated"][row]),
        }
        for name, unit in (("time_ms", "time_s"), ("power_mw", "power_w")):
            for end in ("", "_lo", "_hi"):
                found[f"{unit}{end}"] = columns[f"{name}{end}"][row] / 1e3
        rows.append(found)
    return rows


def _planned(
    board: BoardModes, seen: Profiled | None, prior: Prior, count: int, seed: int, minibatch_ms: float | None
) -> dict[str, Any]:
    have = None if seen is None else seen.table
    found = plan_modes(board.modes, count, have, prior, seed)
    modes = [board.modes.mode(row) for row in found.rows]
    rank = {mode: i for i, mode in enumerate(modes)}
    spent = cost_of(board.modes.take(found.rows), have, prior, seed, MINIBATCHES, minibatch_ms, SWITCH_S + 2 * WINDOW_S)
    warnings = []
    if seen is not None:
        warnings = never_varied(seen.table, board.modes, prior, seed)
    return {
        "schema": SCHEMA,
        "board": board.name,
        "prior": prior.held,
        "origin": Origin.PREDICTED.value,
        "modes": [_row(mode, rank[mode], found.rows[rank[mode]], found) for mode in visit_order(modes)],
        "cost": _cost(spent),
        "warnings": warnings,
    }


def _row(mode: PowerMode, rank: int, row: int, found: Any) -> dict[str, Any]:
    return {
        "mode": str(mode),
        "row": row,
        "cores": mode.cores,
        "cpu_hz": mode.cpu_hz,
        "gpu_hz": mode.gpu_hz,
        "emc_hz": mode.emc_hz,
        "rank": rank + 1,
        "time_error_after": found.time_sd[rank],
        "power_error_after": found.power_sd[rank],
    }


def _cost(cost: Cost) -> dict[str, Any]:
    training = None if cost.training_s is None else cost.training_s / 60.0
    return {"switching_min": cost.switching_s / 60.0, "training_min": training, "minibatches": cost.minibatches}


def _until(
    board: BoardModes,
    seen: Profiled | None,
    prior: Prior,
    until: str,
    most: int,
    measure: Measure | None,
    seed: int,
    output: Path | None,
) -> dict[str, Any]:
    if measure is None:
        raise UsageError("--until profiles modes: give --truth TABLE.csv or --measure-on BOARD --network NETWORK")
    target = _share(until)
    steps: list[dict[str, Any]] = []
    last = None
    for last in profile_until(board.modes, measure, prior, target, most, seed, None if seen is None else seen.table):
        found = last.measurement
        steps.append(
            {
                "mode": str(last.mode),
                "time_s": None if found is None else found.time_s,
                "power_w": None if found is None else found.power_w,
                "cost_s": None if found is None else found.cost_s,
                "origin": None if found is None else found.origin.value,
                "time_error": last.time_error,
                "power_error": last.power_error,
                "refusal": last.refusal,
            }
        )
        if output is not None and len(last.profiled):
            _write(output, write_table(last.profiled))
    if last is None:
        raise UsageError("every mode of the board is already profiled")
    origins = sorted({step["origin"] for step in steps if step["origin"]})
    return {
        "schema": SCHEMA,
        "board": board.name,
        "until_pct": 100 * target,
        "reached": last.reached,
        "profiled": len(last.profiled),
        "cost_s": sum(step["cost_s"] or 0.0 for step in steps),
        "origin": ", ".join(origins) or None,
        "steps": steps,
        "warnings": [] if last.reached else [f"stopped after {most} modes; ask for more with --count"],
    }


def _measurable(device: str | None, truth: Path | None) -> str | None:
    """A live or simulated board that the modes come from can measure them too."""
    live = device is not None and device.partition(":")[0] in ("sim", "auto", "jetson")
    return device if live and truth is None else None


def _share(text: str) -> float:
    try:
        value = float(text.strip().rstrip("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < 100:
        raise UsageError(f"cannot read --until {text!r}; write an error in per cent, for example 5%")
    return value / 100.0


def _campaign(rows: list[dict[str, Any]], network: str | None) -> str:
    if network is None:
        raise UsageError("a campaign plan needs to know what to train; give --network")
    written: list[str] = [
        f"    - {r['cores']}/{r['cpu_hz'] / 1e6:g}/{r['gpu_hz'] / 1e6:g}/{r['emc_hz'] / 1e6:g}" for r in rows
    ]
    head = [f"name: modes of {network}", f"network: {network}", "epochs: 1", "workers: 4", "factors:", "  power_mode:"]
    return "\n".join([*head, *written]) + "\n"


def _names(without: list[str] | None) -> tuple[str, ...]:
    return tuple(name for text in without or () for name in text.split(",") if name)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error
