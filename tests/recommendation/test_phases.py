import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.recommendation.board_modes import find_row
from edgetrain.recommendation.goals import GoalLimits
from edgetrain.recommendation.phases import SwitchCost, TrainingPhase, advise_phases, cold_phase, warm_phase

from .conftest import make_board, make_predictions


def sure(board):
    return make_predictions(board, 1e-4, 1e-4, wrong=False)


def test_a_cold_epoch_no_clock_can_speed_up_wants_a_cheaper_mode():
    board = make_board()
    p = sure(board)
    phases = [cold_phase(p, 1000, 2.0, 4.0), warm_phase(p, 5000)]
    found = advise_phases(
        phases, p, board, "energy", GoalLimits(max_time_s=float(3000 + 5000 * p.time_mean_s.min() * 1.05))
    )
    assert found.advised and found.gain_pct > 0 and found.gain_lo_pct > 0
    cold, warm = (find_row(board, found.switched.modes[phase]) for phase in ("cold", "warm"))
    assert p.power_w[cold] < p.power_w[warm]
    assert found.switched.time_s <= 3000 + 5000 * p.time_mean_s.min() * 1.05


def test_a_gain_within_its_interval_is_not_advised():
    board = make_board()
    p = make_predictions(board, 0.2, 0.2)
    phases = [cold_phase(p, 10, float(p.time_mean_s.min()) * 1.5, 4.0), warm_phase(p, 5000)]
    found = advise_phases(phases, p, board, "energy", GoalLimits())
    assert not found.advised


def test_an_expensive_switch_is_not_advised():
    board = make_board()
    p = sure(board)
    phases = [cold_phase(p, 10, 2.0, 4.0), warm_phase(p, 50)]
    found = advise_phases(phases, p, board, "energy", GoalLimits(max_time_s=1e9), SwitchCost(1.0, 1e9))
    assert not found.advised and found.switched.switches == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_two_phases_is_what_trying_all_pairs_gives(seed):
    rng = np.random.default_rng(seed)
    n = 25
    phases = [TrainingPhase(str(i), 10.0, rng.uniform(1, 3, n), rng.uniform(5, 15, n)) for i in range(2)]
    board = make_board().take(slice(0, n))
    p = make_predictions(board, 1e-4, 1e-4, wrong=False)
    limits, switch = GoalLimits(max_power_w=12.0, max_time_s=45.0), SwitchCost(0.5, 5.0)
    best = min(
        (
            sum(ph.minibatches * ph.time_s[r] * ph.power_w[r] for ph, r in zip(phases, (a, b), strict=True))
            + 5 * (a != b)
            for a in range(n)
            for b in range(n)
            if max(phases[0].power_w[a], phases[1].power_w[b]) <= 12
            and 10 * (phases[0].time_s[a] + phases[1].time_s[b]) + 0.5 * (a != b) <= 45
        ),
        default=None,
    )
    found = advise_phases(phases, p, board, "energy", limits, switch)
    assert best is not None
    chosen = min(plan.energy_j for plan in (found.single, found.switched) if plan is not None)
    assert chosen == pytest.approx(best)


def test_limits_that_no_plan_keeps_are_reported():
    board = make_board()
    p = sure(board)
    found = advise_phases([warm_phase(p, 100)], p, board, "time", GoalLimits(max_power_w=0.5))
    assert found.switched is None and "no plan" in found.reason
    with pytest.raises(UsageError):
        cold_phase(p, 10, 0.0, 4.0)
