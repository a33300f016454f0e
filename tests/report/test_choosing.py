"""Recommendations, predictions, sensitivities and rankings as a terminal shows them, from typed results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.console import RenderableType

from edgetrain.api import undo_command
from edgetrain.prediction import (
    GENERIC,
    ModePredictor,
    PriorUsed,
    linear_model,
    load_prior,
    physics,
    plan_profiling,
    run_profiling,
    summarize_prior,
)
from edgetrain.prediction.prior_list import PriorList
from edgetrain.recommendation import (
    AppliedMode,
    BoardModes,
    Candidates,
    ChosenFrom,
    Goal,
    GoalLimits,
    Recommendation,
    TableMeasure,
    TrainingQuestion,
    Work,
    answer_phases,
    answer_training,
    choose,
    confirm,
    evaluate_table,
    frontier_with_intervals,
    sensitivity_of,
    stock_losses,
)
from edgetrain.recommendation.hardware import BoardOffer, TrainingTarget
from edgetrain.recommendation.published import EpochFigure, Published
from edgetrain.recommendation.ranking import rank_devices
from edgetrain.report.choice import show_applied, show_choice
from edgetrain.report.devices_ranked import show_options
from edgetrain.report.prediction import show_evaluation, show_plan, show_priors, show_profiling, show_table
from edgetrain.report.sensitivity import show_sensitivity
from edgetrain.schema import Origin, PowerMode
from tests.recommendation.conftest import make_board, make_predictions
from tests.report.printing import printed

SOURCE = ChosenFrom(8, None, None, "a board", 96)


def shown(part: RenderableType) -> str:
    """Return what a wide terminal shows, with runs of blanks as one."""
    return "\n".join(" ".join(line.split()) for line in printed(part, 220).splitlines())


@pytest.fixture
def candidates() -> Candidates:
    board = make_board()
    return Candidates.of(board, make_predictions(board), {}, {"MAXN": 95, "15W": 3})


def test_a_choice_shows_mode_costs_limit_probability_and_runner_up(candidates):
    answer = Recommendation.of(SOURCE, choose(candidates, Goal("time", GoalLimits(max_power_w=9))))
    text = shown(show_choice(answer))
    assert "GPU" in text.splitlines()[0] and "90 % interval" in text
    assert "time of one minibatch" in text and "9 W" in text and "predicted" in text
    assert "runner-up: " in text and "power ≤ 9.9 W instead: " in text
    assert "per minibatch; give --minibatches" in text
    assert "you asked for" not in text and "you asked for the least time" in shown(show_choice(answer, True))


def test_a_mode_without_gpu_and_memory_clock_shows_neither(candidates):
    answer = Recommendation.of(SOURCE, choose(candidates, Goal()))
    answer = replace(answer, best=replace(answer.best, mode=PowerMode(4, 1_500_000_000)), runner_up=None)
    assert shown(show_choice(answer)).splitlines()[0] == "4 cores at 1500 MHz"


def test_limits_that_no_mode_keeps_show_the_nearest_mode(candidates):
    text = shown(show_choice(Recommendation.of(SOURCE, choose(candidates, Goal("time", GoalLimits(max_power_w=3))))))
    text = " ".join(text.split())
    assert text.startswith("no mode keeps the limits") and "the nearest mode is" in text
    assert "it would need power ≤" in text


def test_confirmations_are_listed_with_what_was_expected_and_measured(candidates):
    goal = Goal("time", GoalLimits(max_power_w=9))
    found = confirm(candidates, goal, TableMeasure(make_board()), 2)
    answer = replace(Recommendation.of(SOURCE, found.choice), confirmed=found.confirmed, trail=found.trail)
    text = shown(show_choice(answer))
    assert "measured within the limits; 2 confirmations" in text and "time per minibatch" in text
    assert "confirmation 1: " in shown(show_choice(answer, True))


def test_whole_trainings_phases_frontier_and_stock_modes_have_sections(candidates):
    goal = Goal("energy", GoalLimits(max_power_w=12), work=Work.of(1000, 5))
    seen = replace(candidates, seen={3: make_board().measurement(3, Origin.MEASURED)})
    board = BoardModes("b", seen.modes, seen.stock, default="MAXN")
    choice = choose(seen, goal)
    question = TrainingQuestion(5, 1000, 1200.0, 4.0, 86_400.0, "idle", 1.5, 50.0)
    b = make_board()
    answer = replace(
        Recommendation.of(SOURCE, choice),
        training=answer_training(question, goal, seen, choice.best.row, board),
        phases=answer_phases(question, goal, seen),
        frontier=tuple(frontier_with_intervals(seen.predictions, seen.modes)),
        stock=tuple(stock_losses(b, b.time_s, b.power_w, b.time_s * b.power_w, {"MAXN": 95, "x": None}, "MAXN")),
    )
    text = shown(show_choice(answer))
    for words in (
        "whole training", "5 epochs: ", "the cold first epoch adds", "baseload: ", "one job every 24 h 00 min, idle",
        "on 50 Wh: ", "it pays off in time", "one mode per phase", "stock modes against the frontier",
        "MAXN (factory default)", "frontier", "knee",
    ):  # fmt: skip
        assert words in text, words


def test_what_was_set_is_named_with_how_to_undo_it():
    assert "edgetrain modes restore undoes it" in shown(show_applied(AppliedMode("orin-agx", False, ("a: 1 → 2",))))
    undo = undo_command("sim:orin-agx")
    applied = AppliedMode("orin-agx", False, (), undo)
    assert "edgetrain modes restore --device sim:orin-agx undoes it" in shown(show_applied(applied))
    assert undo_command("auto") == undo_command(None) == "edgetrain modes restore"
    assert shown(show_applied(AppliedMode("orin-agx", True, ("a: 1 → 2",)))).splitlines() == [
        "would write 1 settings on orin-agx",
        "a: 1 → 2",
    ]


def test_a_plan_and_a_profiling_run_show_modes_cost_and_errors():
    board = make_board()
    plan = plan_profiling("b", board, 3, list, 7.0, minibatch_ms=100.0)
    text = shown(show_plan(plan))
    assert "profile these 3 modes" in text and "1." in text and "minibatches in each mode, predicted" in text
    unknown = replace(plan, cost=replace(plan.cost, training_min=None))
    assert "give --minibatch-ms" in shown(show_plan(unknown))
    run = run_profiling("b", board, TableMeasure(board), GENERIC, 0.01, 3)
    text = shown(show_profiling(run))
    assert "3 modes profiled (replayed); 1 % NOT reached" in text and "! stopped after 3 modes" in text


def test_a_table_shows_the_fastest_modes_and_its_warnings():
    board = make_board()
    predictor = ModePredictor.of(board.take([0, 13, 27, 38, 50]), board, GENERIC, PriorUsed("none", (), ()))
    text = shown(show_table(predictor.table()))
    assert text.startswith("the fastest 12 of 96 modes; predicted, 90 % intervals, per minibatch")
    assert "expected error: time " in text


def test_an_evaluation_shows_every_method():
    board = make_board()
    methods = [physics(GENERIC), linear_model()]
    found = evaluate_table("t.csv", board, 8, 1, GENERIC, PriorUsed("none", (), ()), methods)
    text = shown(show_evaluation(found))
    assert "t.csv: 96 modes, 8 profiled" in text and "\nphysics " in text and "\nlinear " in text
    assert "only generic coefficients" in text


def test_priors_are_listed_with_their_source():
    text = shown(show_priors(PriorList((summarize_prior(load_prior("orin"), "orin"),))))
    assert "orin resnet orin-agx train 4368" in text and "DREAM:Lab" in text


def test_sensitivities_show_intervals_and_why_one_is_missing():
    board = make_board()
    blind = replace(board, emc_hz=np.full(len(board), np.nan))
    found = sensitivity_of("t.csv", blind, {"time": board.time_s}, Origin.REPLAYED, notes=("a note",))
    text = shown(show_sensitivity(found))
    assert "96 modes, replayed" in text and "note: a note" in text
    assert "– emc_hz is not known, or the board has no such clock" in text


def test_a_ranking_shows_options_reasons_and_sources():
    offers = [
        BoardOffer("big", "Big [1]", 2**35, ("ssd",), 1000.0, 60.0),
        BoardOffer("x", "X", 2**35, ("ssd",), None, None),
    ]
    figures = [EpochFigure("big", "net", 1000, 300.0, "a paper")]
    ranking = rank_devices(TrainingTarget("net", 1000, None), offers, {}, figures, Published((), (), {}), ("a note",))
    text = shown(show_options(ranking))
    assert "no option is known to meet the target" in text and "Big [1] ssd" in text
    assert "no figure for this network on: X" in text and "source: a paper" in text and "note: a note" in text
    assert "\nX ssd" in shown(show_options(ranking, everything=True))
