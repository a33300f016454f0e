import numpy as np

from edgetrain.errors import DeviceError
from edgetrain.prediction import bare, load_prior, profile_until
from edgetrain.schema import ModeMeasurement, Origin


class Bench:
    """A table in place of a board, which may refuse some modes."""

    def __init__(self, table, refuses=lambda mode: False):
        self.rows = {table.mode(row): row for row in range(len(table))}
        self.table, self.refuses, self.asked = table, refuses, []

    def __call__(self, mode):
        self.asked.append(mode)
        if self.refuses(mode):
            raise DeviceError("the board does not hold this mode")
        row = self.rows[mode]
        return ModeMeasurement(mode, self.table.time_s[row], self.table.power_w[row], Origin.REPLAYED)


def test_it_stops_when_the_asked_accuracy_is_expected_and_is_then_about_right(network):
    bench = Bench(network)
    steps = list(profile_until(bare(network), bench, load_prior("orin"), 0.06, 30))
    assert steps[-1].reached and not any(step.reached for step in steps[:-1])
    assert len(bench.asked) == len(set(bench.asked)) == len(steps) < 30
    found = steps[-1].fitted.predict(bare(network))
    assert np.mean(np.abs(found.time_s / network.time_s - 1)) < 0.06


def test_it_gives_up_at_the_most_modes_allowed(network):
    steps = list(profile_until(bare(network), Bench(network), load_prior("orin"), 0.001, 4))
    assert len(steps) == 4 and not steps[-1].reached


def test_a_refused_mode_is_passed_over_and_not_asked_again(network):
    bench = Bench(network, lambda mode: mode.cores == 4)
    steps = list(profile_until(bare(network), bench, load_prior("orin"), 0.05, 12))
    refused = [step for step in steps if step.refusal]
    assert all(step.mode.cores == 4 for step in refused)
    assert len(bench.asked) == len(set(bench.asked))
    assert (steps[-1].profiled.cores != 4).all()


def test_what_was_profiled_before_is_used_and_not_measured_again(network):
    first = list(profile_until(bare(network), Bench(network), load_prior("orin"), 0.001, 4))[-1].profiled
    bench = Bench(network)
    last = list(profile_until(bare(network), bench, load_prior("orin"), 0.001, 2, profiled=first))[-1]
    assert len(last.profiled) == 6
    assert not {first.mode(row) for row in range(4)} & set(bench.asked)
