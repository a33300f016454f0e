"""`edgetrain recommend`: the best setting within limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.cli.decide import (
    BoardModes,
    board_modes,
    check_match,
    exact_predictions,
    measure_from,
    read_profiled,
    rows_of,
)
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.whole import PhaseAsk, TrainingAsk, add_phases, add_training
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.predict import Predictor, Prior, fit, load_prior
from edgetrain.predict.modes.saved import parse_predictor
from edgetrain.recommend import Candidates, Goal, Limits, Work, choose, confirm, search
from edgetrain.recommend.confirm import Confirmed
from edgetrain.recommend.documents import (
    choice_document,
    confirmed_document,
    frontier_document,
    losses_document,
    with_schema,
)
from edgetrain.recommend.frontier import frontier_with_intervals, losses
from edgetrain.recommend.goals import check_against, parse_confidence, parse_quantity
from edgetrain.recommend.outlook import look
from edgetrain.report.choice import show_choice
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA, Measure, PowerMode

PANEL, ORDER = "decide", 10
_AXES = {"time": "time_s", "power": "power_w", "energy": "energy_j"}
FROM, LIMITS, WHOLE, CHECK, SHOW = "Choose from", "Limits", "Whole trainings", "Confirm and apply", "Show"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("recommend", rich_help_panel=PANEL)(recommend)


def recommend(
    profiled: Annotated[
        str | None,
        typer.Option(help="Modes that were measured: a CSV, or a campaign of the store.", rich_help_panel=FROM),
    ] = None,
    predictor: Annotated[Path | None, typer.Option(help="A saved predictor instead.", rich_help_panel=FROM)] = None,
    modes: Annotated[Path | None, typer.Option(help="CSV of the modes to choose from.", rich_help_panel=FROM)] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="A board's modes instead: orin-agx (catalogue), auto, or sim:orin-agx.", rich_help_panel=FROM
        ),
    ] = None,
    prior: Annotated[
        str, typer.Option(help="What other networks taught: orin, or none.", rich_help_panel=FROM)
    ] = "orin",
    without: Annotated[
        list[str] | None, typer.Option(help="Leave a network out of the prior.", rich_help_panel=FROM)
    ] = None,
    minimise: Annotated[str, typer.Option(help="time, energy or power.", rich_help_panel=LIMITS)] = "time",
    max_power_w: Annotated[
        str | None, typer.Option(help="Steady mean power; watts, or 15000mW.", rich_help_panel=LIMITS)
    ] = None,
    peak: Annotated[bool, typer.Option(help="Hold the power limit for 1 s peaks too.", rich_help_panel=LIMITS)] = False,
    max_time_s: Annotated[
        str | None,
        typer.Option(
            help="Time of a minibatch, of an epoch (--minibatches) or of all --epochs.", rich_help_panel=LIMITS
        ),
    ] = None,
    max_energy_j: Annotated[
        str | None, typer.Option(help="Energy of the same; joules, or 50Wh.", rich_help_panel=LIMITS)
    ] = None,
    max_cores: Annotated[int | None, typer.Option(help="Leave the other cores free.", rich_help_panel=LIMITS)] = None,
    max_temp_c: Annotated[
        float | None, typer.Option(help="Leave out modes that were measured hotter.", rich_help_panel=LIMITS)
    ] = None,
    stock_only: Annotated[bool, typer.Option(help="Only modes the board ships with.", rich_help_panel=LIMITS)] = False,
    confidence: Annotated[
        float, typer.Option(help="Probability in % with which each limit must hold.", rich_help_panel=LIMITS)
    ] = 95.0,
    minibatches: Annotated[float | None, typer.Option(help="Minibatches an epoch.", rich_help_panel=WHOLE)] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help="Epochs of the whole training; limits are then on all of it.", rich_help_panel=WHOLE),
    ] = None,
    cold_epoch_s: Annotated[
        str | None, typer.Option(help="Time of the cold first epoch, as measured.", rich_help_panel=WHOLE)
    ] = None,
    baseload_w: Annotated[
        float | None, typer.Option(help="What the board draws while it waits, as measured.", rich_help_panel=WHOLE)
    ] = None,
    period: Annotated[str | None, typer.Option(help="One job every so long: 24h.", rich_help_panel=WHOLE)] = None,
    between: Annotated[
        str, typer.Option(help="Between jobs: idle, wake-on-lan or off.", rich_help_panel=WHOLE)
    ] = "idle",
    between_w: Annotated[
        float | None, typer.Option(help="What it draws then; published figures where left out.", rich_help_panel=WHOLE)
    ] = None,
    battery_wh: Annotated[
        float | None, typer.Option(help="How many trainings does this battery hold?", rich_help_panel=WHOLE)
    ] = None,
    switch_s: Annotated[
        float, typer.Option(help="What switching modes between epochs costs.", rich_help_panel=WHOLE)
    ] = 7.0,
    confirm_: Annotated[
        int,
        typer.Option(
            "--confirm", help="Measure up to so many chosen modes and learn from each.", rich_help_panel=CHECK
        ),
    ] = 0,
    search_: Annotated[
        int | None,
        typer.Option(
            "--search", help="No profile, no prior: find the mode with so many measurements.", rich_help_panel=CHECK
        ),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="A table stands in for the board when measuring.", rich_help_panel=CHECK)
    ] = None,
    measure_on: Annotated[
        str | None, typer.Option(help="Measure by training on this board: auto, sim:orin-agx.", rich_help_panel=CHECK)
    ] = None,
    network: Annotated[str | None, typer.Option(help="What to train when measuring.", rich_help_panel=CHECK)] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Set the mode on this board.", rich_help_panel=CHECK)] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --apply: show what would be written.", rich_help_panel=CHECK)
    ] = False,
    frontier: Annotated[
        bool,
        typer.Option("--frontier", help="Show what nothing beats, and stock modes against it.", rich_help_panel=SHOW),
    ] = False,
    frontier_axes: Annotated[
        str, typer.Option(help="Of --frontier: time,power; time,energy; or power,energy.", rich_help_panel=SHOW)
    ] = "time,power",
    explain: Annotated[
        bool, typer.Option("--explain", help="The reasoning in sentences.", rich_help_panel=SHOW)
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the fit.", rich_help_panel=SHOW)] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Which power mode should this training run in? The best one within your limits, and how sure that is.

    Example: edgetrain recommend --profiled mine.csv --device orin-agx --max-power-w 20 --explain
    """
    limits = Limits(
        parse_quantity(max_power_w, "power"),
        parse_quantity(max_time_s, "time"),
        parse_quantity(max_energy_j, "energy"),
        max_cores,
        max_temp_c,
        peak,
        stock_only,
    )
    goal = Goal(minimise, limits, parse_confidence(confidence), Work.of(minibatches, epochs))
    measure = measure_from(truth, measure_on, network, store)
    known = _prior(prior, without or [])
    if search_ is not None:
        if profiled is not None or predictor is not None:
            raise UsageError("--search starts from nothing; leave --profiled and --predictor out, or use --confirm")
        answer = _searched(goal, board_modes(modes, device or measure_on, None), measure, search_, seed)
    else:
        source = _read(profiled, predictor, modes, device, store, known, seed)
        power_w = source.candidates.predictions.power_w
        baseload_w = source.baseload_w if baseload_w is None else baseload_w
        notes = check_against(limits, float(power_w.min()), float(power_w.max()), baseload_w)
        answer = _chosen(goal, source, measure, confirm_, notes)
    document = answer.document
    if epochs is not None and answer.best_row is not None:
        ask = TrainingAsk(
            epochs,
            minibatches or 1.0,
            parse_quantity(cold_epoch_s, "time"),
            baseload_w,
            parse_quantity(period, "time"),
            between,
            between_w,
            battery_wh,
        )
        document["training"] = add_training(ask, goal, answer.candidates, answer.best_row, answer.board)
        phase_ask = PhaseAsk(ask, switch_s)
        document["phases"] = add_phases(phase_ask, goal, answer.candidates)
    elif battery_wh is not None or period is not None or cold_epoch_s is not None:
        raise UsageError(
            "--battery-wh, --period and --cold-epoch-s are about whole trainings; give --minibatches and --epochs too"
        )
    if frontier:
        _add_frontier(document, answer, goal, frontier_axes)
    if apply:
        document["applied"] = _apply(answer, device, dry_run)
    if json:
        emit(document)
    else:
        console().print(show_choice(document, explain))
        _say_applied(document.get("applied"), dry_run)
    if document["best"] is None:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Source:
    """What there is to choose from, and where it is from."""

    candidates: Candidates
    board: BoardModes
    about: dict[str, Any]
    baseload_w: float | None = None


@dataclass(frozen=True)
class Answer:
    """A choice with what it was made from."""

    document: dict[str, Any]
    candidates: Candidates
    board: BoardModes
    best_row: int | None
    best_mode: PowerMode | None


def _prior(name: str, without: list[str]) -> Prior | None:
    return None if name == "none" else load_prior(name, without=tuple(without))


def _read(
    profiled: str | None, predictor: Path | None, modes: Path | None, device: str | None, store: Path | None,
    prior: Prior | None, seed: int,
) -> Source:  # fmt: skip
    if (profiled is None) == (predictor is None):
        raise UsageError(
            "give what to choose from: --profiled P.csv (or a campaign), or --predictor FILE; --search needs neither"
        )
    if predictor is not None:
        if modes is None and device is None:
            raise UsageError("a predictor needs the modes to choose from: --modes M.csv or --device orin-agx")
        board = board_modes(modes, device, None)
        fitted = _saved(predictor)
        _check_reference(fitted, board, predictor)
        candidates = Candidates.of(board.modes, fitted.predict(board.modes), {}, board.stock)
        return Source(candidates, board, {"profiled": None, "predictor": str(predictor), "prior": None})
    assert profiled is not None
    known = read_profiled(profiled, store)
    board = board_modes(modes, device, known)
    check_match(known, board)
    seen = rows_of(board.modes, known.measurements)
    about = {"profiled": len(known.table), "predictor": None, "prior": None if prior is None else prior.name}
    if len(seen) == len(board.modes):
        candidates = Candidates.of(board.modes, exact_predictions(known.table), seen, board.stock)
        return Source(candidates, board, {**about, "prior": None}, known.baseload_w)

    predictions = fit(known.table, prior, seed, board.modes).predict(board.modes)
    candidates = Candidates.of(board.modes, predictions, seen, board.stock)
    return Source(candidates, board, about, known.baseload_w)


def _saved(path: Path) -> Predictor:
    try:
        return parse_predictor(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"cannot read the predictor {path}: {error.strerror}") from error


def _check_reference(fitted: Any, board: BoardModes, path: Path) -> None:
    """Refuse a predictor whose largest clocks are not this board's."""
    reference = fitted.reference
    for name in ("cores", "cpu_hz", "gpu_hz", "emc_hz"):
        mine, theirs = float(getattr(reference, name)), float(getattr(board.modes, name).max())
        if mine > 1.05 * theirs or theirs > 1.5 * mine:
            raise UsageError(
                f"the predictor {path} does not match {board.name}: it was fitted where the largest {name} "
                f"is {mine:g}, here it is "
                f"{theirs:g}; fit one for this board"
            )


def _chosen(goal: Goal, source: Source, measure: Measure | None, count: int, notes: list[str]) -> Answer:
    about = {**source.about, "board": source.board.name, "modes": len(source.board.modes)}
    notes = [*notes, *source.candidates.predictions.warnings]
    if count:
        if measure is None:
            raise UsageError(
                "--confirm needs something to measure with: --truth TABLE.csv, or --measure-on sim:orin-agx --network N"
            )
        confirmed = confirm(source.candidates, goal, measure, count)
        return _answer(
            confirmed_document(confirmed), confirmed.candidates, source.board, confirmed.choice.best, about, notes
        )
    choice = choose(source.candidates, goal)
    return _answer(choice_document(choice), source.candidates, source.board, choice.best, about, notes)


def _searched(goal: Goal, board: BoardModes, measure: Measure | None, count: int, seed: int) -> Answer:
    if measure is None:
        raise UsageError(
            "--search needs something to measure with: --truth TABLE.csv, or --measure-on sim:orin-agx --network N"
        )
    found: Confirmed = search(board.modes, goal, measure, count, seed)
    about = {"profiled": 0, "predictor": None, "prior": None, "board": board.name, "modes": len(board.modes)}
    candidates = Candidates.of(board.modes, found.candidates.predictions, found.candidates.seen, board.stock)
    return _answer(confirmed_document(found), candidates, board, found.choice.best, about, [])


def _answer(
    document: dict[str, Any],
    candidates: Candidates,
    board: BoardModes,
    best: Any,
    about: dict[str, Any],
    notes: list[str],
) -> Answer:
    if best is not None and best.extrapolated:
        notes = ["the chosen mode lies outside the clocks that were profiled: confirm it (--confirm)", *notes]
    document["notes"] = [*document["notes"], *notes]
    whole = with_schema(SCHEMA, {"from": about}, document)
    return Answer(whole, candidates, board, None if best is None else best.row, None if best is None else best.mode)


def _add_frontier(document: dict[str, Any], answer: Answer, goal: Goal, axes: str) -> None:
    named = tuple(word.strip() for word in axes.split(","))
    if len(named) != 2 or len(set(named)) != 2 or not set(named) <= set(_AXES):
        raise UsageError(f"--frontier-axes names two of time, power and energy, not {axes!r}")
    outlook = look(answer.candidates, goal)
    points = frontier_with_intervals(
        answer.candidates.predictions, answer.candidates.modes, (_AXES[named[0]], _AXES[named[1]])
    )
    document["frontier"] = frontier_document(points, answer.candidates)
    stock: dict[str, int | None] = {**answer.board.stock, **dict.fromkeys(answer.board.unlisted_stock)}
    lost = losses(outlook.time_s, outlook.power_w, stock, outlook.energy_j)
    document["stock"] = losses_document(lost, answer.candidates, answer.board.default)


def _apply(answer: Answer, device: str | None, dry_run: bool) -> dict[str, Any]:
    """Set the chosen mode with the board's journaled control; `edgetrain modes restore` undoes it."""
    from edgetrain.device import open_device
    from edgetrain.device.control import Setting

    if answer.best_mode is None:
        raise EdgetrainError("no mode keeps the limits, so none was set; see the nearest one with --explain")
    spec = device if device and device.partition(":")[0] in ("auto", "jetson", "sim") else "auto"
    board = open_device(spec)
    control = board.control()
    space = board.modes()
    if control is None or space is None:
        raise UsageError(
            f"{board.spec.name} has no power modes that can be set; run this on the board, or with --device "
            "sim:orin-agx"
        )
    mode = answer.best_mode
    setting = Setting(mode=space.check(PowerMode(mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz)))
    writes = control.plan(setting) if dry_run else control.set(setting)
    return {"device": board.spec.name, "dry_run": dry_run, "writes": [str(write) for write in writes]}


def _say_applied(applied: dict[str, Any] | None, dry_run: bool) -> None:
    if applied is None:
        return
    err = console(stderr=True)
    count, name = len(applied["writes"]), applied["device"]
    err.print(
        f"would write {count} settings on {name}" if dry_run else f"set on {name}; edgetrain modes restore undoes it"
    )
    for write in applied["writes"] if dry_run else ():
        err.print(f"  {write}")
