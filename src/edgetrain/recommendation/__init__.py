"""Chooses: the best power mode within limits, with the probability of each limit, and the right hardware.

choose(candidates, goal)                the best mode from what is measured and predicted
confirm(candidates, goal, measure, K)   the same with up to K measurements; no mode over a limit is returned
search(modes, goal, measure, N)         the same without a table or a prior
frontier(time_s, power_w)               the Pareto frontier
rank_devices(target, …)                 boards × storage × RAM
plan_round(devices, rules)              a federated round: each device's mode, so that all finish in time
"""

from __future__ import annotations

from edgetrain.recommendation.answer import AppliedMode, ChosenFrom, Recommendation
from edgetrain.recommendation.assessment import SELECTION_FACTOR, Assessment, Candidates, assess
from edgetrain.recommendation.board_modes import (
    BoardModes,
    check_predictor,
    check_same_board,
    find_row,
    rows_of,
    with_stock_modes,
)
from edgetrain.recommendation.budgets import (
    BudgetAnswer,
    BudgetEvaluation,
    Penalty,
    TableMeasure,
    answer_limits,
    evaluate_budgets,
    judge_answer,
    profiled_candidates,
    summarize_answers,
)
from edgetrain.recommendation.choice import Choice, Nearest, Pick, Relaxed, choose
from edgetrain.recommendation.confirmation import Confirmation, Confirmed, confirm
from edgetrain.recommendation.diagnosis import (
    PER_COLD_MINIBATCH,
    PER_MINIBATCH,
    WORTH_PCT,
    Diagnosis,
    Remedy,
    VerifiedRemedy,
    diagnose_run,
)
from edgetrain.recommendation.evaluation import Evaluation, evaluate_table
from edgetrain.recommendation.explanation import explain, spell_mode
from edgetrain.recommendation.fits import Fit, judge
from edgetrain.recommendation.gain import GainInterval, all_begin_passes, gain_interval, mean_time_s
from edgetrain.recommendation.goals import (
    AXES,
    Goal,
    GoalLimits,
    Work,
    check_against,
    parse_confidence,
    parse_quantity,
    spell_limit,
)
from edgetrain.recommendation.guided_search import search
from edgetrain.recommendation.hardware import (
    WORKERS,
    BoardOffer,
    DeviceRanking,
    HardwareOption,
    MediumCost,
    TrainingTarget,
)
from edgetrain.recommendation.loader_search import LoaderSearch
from edgetrain.recommendation.loader_target import find_target
from edgetrain.recommendation.pareto import (
    FrontierPoint,
    StockLoss,
    frontier,
    frontier_with_intervals,
    knee,
    stock_losses,
)
from edgetrain.recommendation.phases import PhaseAdvice, PhaseModes
from edgetrain.recommendation.profiled import ProfiledModes
from edgetrain.recommendation.published import EpochFigure, Published, load_published
from edgetrain.recommendation.ranking import rank_devices
from edgetrain.recommendation.records import StallTimes, measurements_from
from edgetrain.recommendation.rounds import (
    ALL_DEFAULT,
    ALL_MAXN,
    LITTLE_MARGIN,
    PLAN,
    RACE_TO_IDLE,
    SITS_OUT,
    TRAINS,
    DeviceRounds,
    KindSpread,
    RecordedRounds,
    RoundAnswer,
    RoundAssignment,
    RoundDevice,
    RoundEnergy,
    RoundModes,
    RoundPlan,
    RoundRules,
    RoundSimulation,
    SharedSlowdown,
)
from edgetrain.recommendation.rounds_costs import RoundCosts, RoundPolicy, evaluate_policy, round_energies
from edgetrain.recommendation.rounds_planning import plan_round, round_policies
from edgetrain.recommendation.rounds_simulation import simulate_rounds
from edgetrain.recommendation.rounds_spread import Margins, RoundDraws, allowed_lateness, draw_rounds
from edgetrain.recommendation.search_closing import SearchResult
from edgetrain.recommendation.search_trials import SearchLimits, SearchTrial
from edgetrain.recommendation.sensitivity import Elasticity, Sensitivity, sensitivity_of
from edgetrain.recommendation.training import BatteryLife, JobCycle, Payback, WholeTraining
from edgetrain.recommendation.trial_doubts import doubt_notes, passing_doubts
from edgetrain.recommendation.trial_times import TrialTimes, measure_trial, training_loader, trial_times
from edgetrain.recommendation.tuning import (
    PowerLimit,
    TuneBaseline,
    TunedSetting,
    TuneResult,
    TuneTrial,
    power_limit,
    trial_row,
)
from edgetrain.recommendation.whole import TrainingQuestion, answer_phases, answer_training

__all__ = [
    "ALL_DEFAULT",
    "ALL_MAXN",
    "AXES",
    "LITTLE_MARGIN",
    "PER_COLD_MINIBATCH",
    "PER_MINIBATCH",
    "PLAN",
    "RACE_TO_IDLE",
    "SELECTION_FACTOR",
    "SITS_OUT",
    "TRAINS",
    "WORKERS",
    "WORTH_PCT",
    "AppliedMode",
    "Assessment",
    "BatteryLife",
    "BoardModes",
    "BoardOffer",
    "BudgetAnswer",
    "BudgetEvaluation",
    "Candidates",
    "Choice",
    "ChosenFrom",
    "Confirmation",
    "Confirmed",
    "DeviceRanking",
    "DeviceRounds",
    "Diagnosis",
    "Elasticity",
    "EpochFigure",
    "Evaluation",
    "Fit",
    "FrontierPoint",
    "GainInterval",
    "Goal",
    "GoalLimits",
    "HardwareOption",
    "JobCycle",
    "KindSpread",
    "LoaderSearch",
    "Margins",
    "MediumCost",
    "Nearest",
    "Payback",
    "Penalty",
    "PhaseAdvice",
    "PhaseModes",
    "Pick",
    "PowerLimit",
    "ProfiledModes",
    "Published",
    "Recommendation",
    "RecordedRounds",
    "Relaxed",
    "Remedy",
    "RoundAnswer",
    "RoundAssignment",
    "RoundCosts",
    "RoundDevice",
    "RoundDraws",
    "RoundEnergy",
    "RoundModes",
    "RoundPlan",
    "RoundPolicy",
    "RoundRules",
    "RoundSimulation",
    "SearchLimits",
    "SearchResult",
    "SearchTrial",
    "Sensitivity",
    "SharedSlowdown",
    "StallTimes",
    "StockLoss",
    "TableMeasure",
    "TrainingQuestion",
    "TrainingTarget",
    "TrialTimes",
    "TuneBaseline",
    "TuneResult",
    "TuneTrial",
    "TunedSetting",
    "VerifiedRemedy",
    "WholeTraining",
    "Work",
    "all_begin_passes",
    "allowed_lateness",
    "answer_limits",
    "answer_phases",
    "answer_training",
    "assess",
    "check_against",
    "check_predictor",
    "check_same_board",
    "choose",
    "confirm",
    "diagnose_run",
    "doubt_notes",
    "draw_rounds",
    "evaluate_budgets",
    "evaluate_policy",
    "evaluate_table",
    "explain",
    "find_row",
    "find_target",
    "frontier",
    "frontier_with_intervals",
    "gain_interval",
    "judge",
    "judge_answer",
    "knee",
    "load_published",
    "mean_time_s",
    "measure_trial",
    "measurements_from",
    "parse_confidence",
    "parse_quantity",
    "passing_doubts",
    "plan_round",
    "power_limit",
    "profiled_candidates",
    "rank_devices",
    "round_energies",
    "round_policies",
    "rows_of",
    "search",
    "sensitivity_of",
    "simulate_rounds",
    "spell_limit",
    "spell_mode",
    "stock_losses",
    "summarize_answers",
    "training_loader",
    "trial_row",
    "trial_times",
    "with_stock_modes",
]
