"""Power modes of `tune`: the best one is recommended only if it can be repeated within the limits."""

from __future__ import annotations

from edgetrain.api.mode_tuning import ChosenMode, ModeTuning
from edgetrain.api.tune_request import TuneOptions
from edgetrain.errors import TrialError
from edgetrain.recommendation import SearchTrial
from edgetrain.schema import LoaderArguments, LoaderMeasurement, Origin, PowerMode

ARGUMENTS = LoaderArguments(2, 2, False, False)
START_S, START_W = 0.1, 30.0


class Modes:
    """A training that is faster and draws more in a mode with a higher GPU clock."""

    def __init__(self, repeat_w: float = 0.0, repeat_fails: bool = False) -> None:
        self.mode: PowerMode | None = None
        self._repeat_w, self._repeat_fails = repeat_w, repeat_fails
        self._asked: list[PowerMode | None] = []

    def __call__(self, arguments: LoaderArguments) -> LoaderMeasurement:
        mode, again = self.mode, self.mode is not None and self.mode in self._asked
        self._asked.append(mode)
        if again and self._repeat_fails:
            raise TrialError("the board restarted", kind="failed")
        share = 1.0 if mode is None else (mode.gpu_hz or 0) / 1.3e9
        time_s, power_w = START_S / (0.4 + share), 10.0 + 12.0 * share + (self._repeat_w if again else 0.0)
        if mode is None:
            time_s, power_w = START_S, START_W
        return LoaderMeasurement(
            arguments, (time_s,) * 4, 0.0, 0, 32, 0.1, None, None, power_w, Origin.SIMULATED, True, False, "run"
        )


def searched(measure: Modes, max_power_w: float) -> tuple[ChosenMode | None, list[str], list[SearchTrial]]:
    rows: list[SearchTrial] = []
    modes = ModeTuning(measure, TuneOptions(max_power_w=max_power_w), "sim:orin-agx", rows.append)
    return modes.run(measure(ARGUMENTS), ARGUMENTS), modes.notes, rows


def test_a_mode_that_keeps_the_power_limit_when_it_is_measured_again_is_chosen() -> None:
    chosen, _, rows = searched(Modes(), max_power_w=21.0)
    assert chosen is not None
    assert [row.role for row in rows][-4:] == ["repeat"] * 4


def test_a_mode_that_exceeds_the_power_limit_when_it_is_measured_again_is_not_chosen() -> None:
    chosen, notes, _ = searched(Modes(repeat_w=11.5), max_power_w=21.0)
    assert chosen is None
    assert "more than the 21 W allowed: the power mode is left as it is" in notes[-1]
    assert notes[-1].startswith("measured again, ")


def test_a_mode_that_fails_when_it_is_measured_again_is_not_chosen() -> None:
    chosen, notes, rows = searched(Modes(repeat_fails=True), max_power_w=21.0)
    assert chosen is None
    assert "could not be measured again (the board restarted): the power mode is left as it is" in notes[-1]
    assert rows[-1].state == "failed" and rows[-1].role == "repeat"
