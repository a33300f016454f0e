"""Recommends a power mode within limits: chooses, confirms or searches, and answers about whole trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.api.boards import ModesSource, board_modes, is_live
from edgetrain.api.measuring import measure_from
from edgetrain.api.prediction import read_prior
from edgetrain.api.profiled import ProfiledSource, read_profiled
from edgetrain.api.records import StoreLike
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.prediction import Fitted, ModeTable, exact_predictions, fit, parse_predictor
from edgetrain.recommendation import (
    AppliedMode,
    BoardModes,
    Candidates,
    ChosenFrom,
    Confirmed,
    Goal,
    GoalLimits,
    Recommendation,
    TrainingQuestion,
    Work,
    answer_phases,
    answer_training,
    assess,
    check_against,
    check_predictor,
    check_same_board,
    choose,
    confirm,
    frontier_with_intervals,
    parse_confidence,
    parse_quantity,
    rows_of,
    search,
    stock_losses,
)
from edgetrain.schema import Measure, PowerMode

Amount = float | str | None  # a number in the unit of the name, or text with a unit: "20W", "2h", "50Wh"
_AXES = {"time": "time_s", "power": "power_w", "energy": "energy_j"}
_NO_MEASURE = "needs something to measure with: --truth TABLE.csv, or --measure-on sim:orin-agx --network NETWORK"


@dataclass(frozen=True, slots=True)
class ModeSource:
    """What to choose from: profiled modes or a saved predictor, and the modes of a board."""

    profiled: ProfiledSource | None = None
    board: str | None = None  # a name of the catalogue, auto, or sim:orin-agx
    modes: ModesSource | None = None  # given modes instead of a board's
    predictor: str | Path | None = None
    prior: str = "orin"
    without: tuple[str, ...] = ()  # networks left out of the prior
    seed: int = 0
    store: StoreLike = None


@dataclass(frozen=True, slots=True)
class MeasuringOptions:
    """Whether, how often and with what modes are measured: `measure`, a table, or training on a board."""

    confirm: int = 0  # measure up to this many chosen modes
    search: int | None = None  # start from nothing, with this many measurements
    truth: str | Path | ModeTable | None = None
    measure_on: str | None = None
    network: str | None = None
    measure: Measure | None = None


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Questions about the whole training; needs the number of epochs and of minibatches per epoch."""

    cold_epoch_s: Amount = None  # duration of the first epoch, which reads from storage
    baseload_w: float | None = None  # power of the waiting board
    period_s: Amount = None  # one job per period
    between: str = "idle"  # idle | wake-on-lan | off
    between_w: float | None = None
    battery_wh: float | None = None
    switch_s: float = 7.0

    @property
    def is_asked(self) -> bool:
        """Whether anything was asked that only a whole training answers."""
        return any(each is not None for each in (self.cold_epoch_s, self.period_s, self.battery_wh))


def recommend(
    profiled: ProfiledSource | None = None,
    board: str | None = None,
    *,
    max_power_w: Amount = None,
    max_time_s: Amount = None,
    max_energy_j: Amount = None,
    max_cores: int | None = None,
    max_temp_c: float | None = None,
    peak: bool = False,
    stock_only: bool = False,
    minimize: str = "time",
    confidence: float = 0.95,
    minibatches: float | None = None,
    epochs: float | None = None,
    modes: ModesSource | None = None,
    predictor: str | Path | None = None,
    prior: str = "orin",
    without: Sequence[str] = (),
    seed: int = 0,
    measuring: MeasuringOptions | None = None,
    training: TrainingOptions | None = None,
    frontier: tuple[str, str] | None = None,
    apply: bool = False,
    dry_run: bool = False,
    store: StoreLike = None,
) -> Recommendation:
    """Return the best power mode within limits, with the probability that each limit holds.

    `profiled` and `board` as for `predict`. Time and energy are per minibatch; with `minibatches` (per epoch) those of
    an epoch, with `epochs` of all of them. `measuring` confirms the choice by measurements, or searches without any
    profile; `training` asks about the whole training; `frontier` names two axes of time, power and energy; `apply`
    sets the mode on the board (`dry_run`: only lists what would be written).
    """
    limits = GoalLimits(
        parse_quantity(max_power_w, "power"),
        parse_quantity(max_time_s, "time"),
        parse_quantity(max_energy_j, "energy"),
        max_cores,
        max_temp_c,
        peak,
        stock_only,
    )
    goal = Goal(minimize, limits, parse_confidence(confidence), Work.of(minibatches, epochs))
    source = ModeSource(profiled, board, modes, predictor, prior, tuple(without), seed, store)
    options = TrainingOptions() if training is None else training
    found = choose_mode(source, goal, MeasuringOptions() if measuring is None else measuring, options.baseload_w)
    answer = found.answer
    if epochs is not None:
        answer = _with_training(found, options, minibatches or 1.0, epochs)
    elif options.is_asked:
        raise UsageError(
            "--battery-wh, --period and --cold-epoch-s are about whole trainings; give --minibatches and --epochs too"
        )
    if frontier is not None:
        answer = _with_frontier(replace(found, answer=answer), frontier)
    if apply:
        if answer.best is None:
            raise EdgetrainError("no mode keeps the limits, so none was set; see the nearest one with --explain")
        answer = replace(answer, applied=apply_mode(answer.best.mode, board, dry_run))
    return answer


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """A recommendation together with the candidates and the board it was chosen from."""

    answer: Recommendation
    candidates: Candidates
    board: BoardModes
    baseload_w: float | None


def choose_mode(
    source: ModeSource, goal: Goal, measuring: MeasuringOptions, baseload_w: float | None = None
) -> ModeChoice:
    """Choose, confirm or search, as the options say."""
    measure = measuring.measure or measure_from(measuring.truth, measuring.measure_on, measuring.network, source.store)
    if measuring.search is not None:
        return _search(source, goal, measuring, measure, baseload_w)
    candidates, board, about, seen_baseload_w = _candidates(source)
    baseload_w = seen_baseload_w if baseload_w is None else baseload_w
    power_w = candidates.predictions.power_w
    notes = (
        *check_against(goal.limits, float(power_w.min()), float(power_w.max()), baseload_w),
        *candidates.predictions.warnings,
    )
    if not measuring.confirm:
        answer = Recommendation.of(about, choose(candidates, goal), notes)
        return ModeChoice(answer, candidates, board, baseload_w)
    if measure is None:
        raise UsageError(f"--confirm {_NO_MEASURE}")
    confirmed = confirm(candidates, goal, measure, measuring.confirm)
    return ModeChoice(_confirmed(about, confirmed, notes), confirmed.candidates, board, baseload_w)


def _search(
    source: ModeSource, goal: Goal, measuring: MeasuringOptions, measure: Measure | None, baseload_w: float | None
) -> ModeChoice:
    if source.profiled is not None or source.predictor is not None:
        raise UsageError("--search starts from nothing; leave --profiled and --predictor out, or use --confirm")
    if measure is None or measuring.search is None:
        raise UsageError(f"--search {_NO_MEASURE}")
    name = source.board if source.board or source.modes is not None else measuring.measure_on
    board = board_modes(name, source.modes)
    found = search(board.modes, goal, measure, measuring.search, source.seed)
    candidates = Candidates.of(board.modes, found.candidates.predictions, found.candidates.seen, board.stock)
    about = ChosenFrom(0, None, None, board.name, len(board.modes))
    return ModeChoice(_confirmed(about, found), candidates, board, baseload_w)


def _confirmed(about: ChosenFrom, confirmed: Confirmed, notes: tuple[str, ...] = ()) -> Recommendation:
    answer = Recommendation.of(about, confirmed.choice, notes)
    return replace(answer, confirmed=confirmed.confirmed, trail=confirmed.trail)


def _candidates(source: ModeSource) -> tuple[Candidates, BoardModes, ChosenFrom, float | None]:
    """Return the candidates, their board, what they are from, and the baseload that the profiled runs measured."""
    if (source.profiled is None) == (source.predictor is None):
        raise UsageError(
            "give what to choose from: --profiled P.csv (or a campaign), or --predictor FILE; --search needs neither"
        )
    if source.predictor is not None:
        if source.modes is None and source.board is None:
            raise UsageError("a predictor needs the modes to choose from: --modes M.csv or --device orin-agx")
        board = board_modes(source.board, source.modes)
        fitted = _read_predictor(source.predictor)
        check_predictor(fitted, str(source.predictor), board)
        candidates = Candidates.of(board.modes, fitted.predict(board.modes), {}, board.stock)
        about = ChosenFrom(None, str(source.predictor), None, board.name, len(board.modes))
        return candidates, board, about, None
    assert source.profiled is not None
    known = read_profiled(source.profiled, source.store, source.board)
    board = board_modes(source.board, source.modes, known)
    check_same_board(known.table, known.name, board)
    seen = rows_of(board.modes, known.measurements)
    about = ChosenFrom(len(known.table), None, None, board.name, len(board.modes), known.left_out)
    if len(seen) == len(board.modes):
        measured = exact_predictions(ModeTable.of_measurements([seen[row] for row in sorted(seen)]))
        return Candidates.of(board.modes, measured, seen, board.stock), board, about, known.baseload_w
    prior, _ = read_prior(source.prior, source.without)
    predictions = fit(known.table, prior, source.seed, board.modes).predict(board.modes)
    if source.prior != "none":
        about = replace(about, prior=prior.name)
    return Candidates.of(board.modes, predictions, seen, board.stock), board, about, known.baseload_w


def _read_predictor(path: str | Path) -> Fitted:
    try:
        return parse_predictor(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the predictor {path}: {error}") from error


def _with_training(found: ModeChoice, options: TrainingOptions, minibatches: float, epochs: float) -> Recommendation:
    if found.answer.best is None:
        return found.answer
    question = TrainingQuestion(
        epochs,
        minibatches,
        parse_quantity(options.cold_epoch_s, "time"),
        found.baseload_w,
        parse_quantity(options.period_s, "time"),
        options.between,
        options.between_w,
        options.battery_wh,
        options.switch_s,
    )
    goal = found.answer.goal
    return replace(
        found.answer,
        training=answer_training(question, goal, found.candidates, found.answer.best.row, found.board),
        phases=answer_phases(question, goal, found.candidates),
    )


def _with_frontier(found: ModeChoice, axes: tuple[str, str]) -> Recommendation:
    if len(set(axes)) != 2 or not set(axes) <= set(_AXES):
        raise UsageError(f"--frontier-axes names two of time, power and energy, not {','.join(axes)!r}")
    candidates, board = found.candidates, found.board
    points = frontier_with_intervals(candidates.predictions, candidates.modes, (_AXES[axes[0]], _AXES[axes[1]]))
    assessed = assess(candidates, found.answer.goal)
    stock: dict[str, int | None] = {**board.stock, **dict.fromkeys(board.unlisted_stock)}
    losses = stock_losses(candidates.modes, assessed.time_s, assessed.power_w, assessed.energy_j, stock, board.default)
    return replace(found.answer, frontier=tuple(points), stock=tuple(losses))


def undo_command(board: str | None) -> str:
    """Return the command that undoes what was set on a board."""
    named = board is not None and is_live(board) and board != "auto"
    return "edgetrain modes restore" + (f" --device {board}" if named else "")


def apply_mode(mode: PowerMode, board: str | None = None, dry_run: bool = False) -> AppliedMode:
    """Set a mode with the board's journaled control; `edgetrain modes restore` undoes it."""
    from edgetrain.device import ModeRequest, open_device

    device = open_device(board if board is not None and is_live(board) else "auto")
    control, space = device.control(), device.modes()
    if control is None or space is None:
        raise UsageError(
            f"{device.spec.name} has no power modes that can be set; run this on the board, or with --device "
            "sim:orin-agx"
        )
    request = ModeRequest(mode=space.check(replace(mode, name=None)))
    change = control.preview(request) if dry_run else control.set(request)
    return AppliedMode(device.spec.name, dry_run, tuple(str(write) for write in change.writes), undo_command(board))
