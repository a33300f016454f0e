"""Random boards, wrong predictions and odd limits: what is chosen keeps its promises, or no answer is given."""

from __future__ import annotations

import itertools

import numpy as np

from edgetrain.prediction import ModeTable, Predictions
from edgetrain.recommendation import AXES, Candidates, Goal, GoalLimits, TableMeasure, choose, confirm, frontier

FULL = 3000


def _board(rng: np.random.Generator) -> ModeTable:
    """Return a grid of modes with physics drawn at random, outliers included."""
    cores, cpu, gpu, emc = (
        np.sort(rng.choice(np.arange(1, 40), rng.integers(1, 5), replace=False)) * scale
        for scale in (1, 50e6, 40e6, 80e6)
    )
    rows = np.array(list(itertools.product(cores, cpu, gpu, emc)), dtype=float)
    c, fc, fg, fm = rows.T
    a = rng.lognormal(0, 1, 8)
    time_s = a[0] / fg * 1e8 + a[1] / (fc * c**0.7) * 1e8 + a[2] / fm * 1e8 + 1e-3
    power_w = 1 + a[3] + a[4] * fm / 1e9 + a[5] * c * (fc / 1e9) ** 2 + a[6] * (fg / 1e9) ** 2 + a[7] / time_s / 50
    odd = rng.random(len(rows)) < 0.02
    noise = np.exp(rng.normal(0, 0.02, (2, len(rows))) + odd * rng.normal(0, 0.4, (2, len(rows))))
    return ModeTable(c, fc, fg, fm, None, time_s * noise[0], time_s * noise[0] * 1.05, power_w * noise[1])


def _predictions(board: ModeTable, rng: np.random.Generator) -> Predictions:
    """Return predictions that may admit to far less error than they make."""
    assert board.time_s is not None and board.power_w is not None
    spread, honest = rng.uniform(0.01, 0.3), rng.uniform(0.2, 2.0)
    errors = rng.standard_t(4, (2, len(board))) * spread
    sd = np.full(len(board), spread * honest)
    time_s, power_w = board.time_s * np.exp(errors[0]), board.power_w * np.exp(errors[1])
    return Predictions(time_s, None, power_w, sd, sd, -0.3, 4.0, np.zeros(len(board), dtype=bool))


def _limits(board: ModeTable, rng: np.random.Generator) -> GoalLimits:
    assert board.time_s is not None and board.power_w is not None

    def near(column: np.ndarray) -> float | None:
        return float(np.quantile(column, rng.random()) * rng.uniform(0.5, 1.5)) if rng.random() < 0.6 else None

    return GoalLimits(near(board.power_w), near(board.time_s), near(board.time_s * board.power_w))


def _beaten(points: np.ndarray) -> np.ndarray:
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    return (no_worse & better).any(axis=0)


def run(count: int, seed: int) -> str:
    """Choose and confirm on random boards; return how it went."""
    answered = confirmed = refused = measured = 0
    for trial in range(count):
        rng = np.random.default_rng([seed, trial])
        board = _board(rng)
        assert board.time_s is not None and board.power_w is not None
        _check_frontier(rng)
        goal = Goal(str(rng.choice(AXES)), _limits(board, rng), float(rng.uniform(0.5, 0.999)))
        candidates = Candidates.of(board, _predictions(board, rng))
        choice = choose(candidates, goal)
        if choice.best is None:
            refused += 1
            assert choice.nearest is not None, f"trial {trial}: no answer and no nearest"
        else:
            answered += 1
            assert all(held >= goal.confidence for held in choice.best.holds.values()), (
                f"trial {trial}: margin not kept"
            )
        measure = TableMeasure(board)
        tries = int(rng.integers(1, 6))
        result = confirm(candidates, goal, measure, tries)
        measured += measure.calls
        assert measure.calls <= tries, f"trial {trial}: {measure.calls} confirmations of {tries}"
        best = result.choice.best
        over = {step.row for step in result.trail if not step.within}
        if best is not None:
            assert best.row not in over, f"trial {trial}: returned a mode seen over a limit"
        if result.confirmed:
            confirmed += 1
            assert best is not None
            t, p = board.time_s[best.row], board.power_w[best.row]
            for limit, value in (
                (goal.limits.max_power_w, p),
                (goal.limits.max_time_s, t),
                (goal.limits.max_energy_j, t * p),
            ):
                assert limit is None or value <= limit * (1 + 1e-12), f"trial {trial}: {value} is over {limit}"
    return (
        f"{count} random boards and limits: {answered} answered, {refused} refused with the nearest named; "
        f"{measured} confirmations, {confirmed} answers confirmed, none of them over a limit; frontiers exact"
    )


def _check_frontier(rng: np.random.Generator) -> None:
    size, axes = int(rng.integers(1, 120)), int(rng.integers(2, 4))
    points = rng.integers(0, 9, (size, axes)).astype(float) if rng.random() < 0.5 else rng.random((size, axes))
    assert sorted(frontier(*points.T)) == list(np.flatnonzero(~_beaten(points))), "a frontier is not exact"
