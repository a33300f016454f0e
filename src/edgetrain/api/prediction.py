"""Predicts every power mode of a board from a few profiled ones, and plans which modes to profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.api.boards import ModesSource, board_modes, is_live
from edgetrain.api.files import write_text
from edgetrain.api.measuring import measure_from
from edgetrain.api.profiled import ProfiledSource, read_profiled
from edgetrain.api.records import StoreLike
from edgetrain.errors import UsageError
from edgetrain.prediction import (
    ActiveStep,
    ModePredictor,
    ModeTable,
    Prior,
    PriorUsed,
    ProfilingPlan,
    ProfilingRun,
    load_prior,
    plan_profiling,
    run_profiling,
    write_table,
)
from edgetrain.recommendation import check_same_board
from edgetrain.schema import Measure


def predict(
    profiled: ProfiledSource,
    board: str | None = None,
    *,
    modes: ModesSource | None = None,
    prior: str = "orin",
    without: Sequence[str] = (),
    seed: int = 0,
    unit_profile: ProfiledSource | None = None,
    store: StoreLike = None,
) -> ModePredictor:
    """Fit profiled modes and return a predictor: `.at(mode)` for one mode, `.table()` for all of the board.

    `profiled` is a CSV, a campaign of the store, a list of ModeMeasurement or a ModeTable. The modes to predict are
    those of `board` (a name of the catalogue, `auto` or `sim:orin-agx`) or `modes` (a CSV, a ModeTable, PowerModes);
    without either, the profiled ones. `prior` is `orin`, `none` or a file; `without` leaves networks out of it.
    `unit_profile` are one or two modes profiled on another unit of the same kind: predictions are then of that unit.
    """
    seen = read_profiled(profiled, store, board)
    known = board_modes(board, modes, seen)
    check_same_board(seen.table, seen.name, known)
    loaded, used = read_prior(prior, without)
    found = ModePredictor.of(seen.table, known.modes, loaded, used, seen.name, known.name, seed, known.stock)
    return found if unit_profile is None else predict_unit(found, unit_profile, board, store=store)


def predict_unit(
    kind: ModePredictor,
    unit_profile: ProfiledSource,
    board: str | None = None,
    deviation: float | None = None,
    store: StoreLike = None,
) -> ModePredictor:
    """Correct the predictor of a kind of board for one unit, from one or two modes that were profiled on that unit.

    One fit serves a whole fleet: call `predict` once per kind, and this once per unit. `deviation` is how much units of
    the kind differ (standard deviation, as a share), where `variability` has measured it.
    """
    seen = read_profiled(unit_profile, store, board)
    if deviation is None:
        return kind.for_unit(seen.table, seen.name)
    if not 0 < deviation < 1:
        raise UsageError(f"the spread of units must be between 0 and 100 %, not {100 * deviation:g} %")
    return kind.for_unit(seen.table, seen.name, deviation)


def read_prior(name: str, without: Sequence[str] = ()) -> tuple[Prior, PriorUsed]:
    """Load a prior, and return it with the facts that answers state about it."""
    prior = load_prior(name, without=tuple(without))
    return prior, PriorUsed(name, tuple(without), tuple(prior.held))


def plan_modes(
    board: str | None = None,
    count: int = 10,
    *,
    candidates: ModesSource | None = None,
    profiled: ProfiledSource | None = None,
    prior: str = "orin",
    without: Sequence[str] = (),
    seed: int = 0,
    minibatch_ms: float | None = None,
    store: StoreLike = None,
) -> ProfilingPlan:
    """Choose which modes to profile, in which order, at what cost; `minibatch_ms` is that of the top mode, if known."""
    from edgetrain.runner import SWITCH_S, WINDOW_S, visit_order

    seen = None if profiled is None else read_profiled(profiled, store, board)
    known = board_modes(board, candidates)
    if seen is not None:
        check_same_board(seen.table, seen.name, known)
    loaded, _ = read_prior(prior, without)
    have = None if seen is None else seen.table
    switch_s = SWITCH_S + 2 * WINDOW_S
    return plan_profiling(known.name, known.modes, count, visit_order, switch_s, have, loaded, seed, minibatch_ms)


def profile_until(
    target: float,
    board: str | None = None,
    most: int = 10,
    *,
    candidates: ModesSource | None = None,
    profiled: ProfiledSource | None = None,
    measure: Measure | None = None,
    truth: str | Path | ModeTable | None = None,
    measure_on: str | None = None,
    network: str | None = None,
    prior: str = "orin",
    without: Sequence[str] = (),
    seed: int = 0,
    output: str | Path | None = None,
    store: StoreLike = None,
) -> ProfilingRun:
    """Profile modes one by one until time and power are expected within `target` (0.05 is 5 %), at most `most`.

    Modes are measured by `measure`, by a table (`truth`), or by training `network` on `measure_on` (default: the board,
    where it is a device). What was measured is written to `output` after each mode.
    """
    if not 0 < target < 1:
        raise UsageError(f"the error to reach must be between 0 and 100 %, not {100 * target:g} %")
    if measure is None:
        on = measure_on or (board if is_live(board) and truth is None else None)
        measure = measure_from(truth, on, network, store)
    if measure is None:
        raise UsageError("--until profiles modes: give --truth TABLE.csv or --measure-on BOARD --network NETWORK")
    seen = None if profiled is None else read_profiled(profiled, store, board)
    known = board_modes(board, candidates)
    if seen is not None:
        check_same_board(seen.table, seen.name, known)
    loaded, _ = read_prior(prior, without)

    def save(step: ActiveStep) -> None:
        if output is not None and len(step.profiled):
            write_text(output, write_table(step.profiled))

    have = None if seen is None else seen.table
    return run_profiling(known.name, known.modes, measure, loaded, target, most, seed, have, save)
