"""What another power mode would change in a recorded training: the predictor of power modes asked from one run."""

from __future__ import annotations

import math
from functools import cached_property

from edgetrain.analysis import Summary
from edgetrain.api.measure import read_power_mode
from edgetrain.api.prediction import predict
from edgetrain.api.profiled import ProfiledSource
from edgetrain.api.records import StoreLike
from edgetrain.device import load_catalogue
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.prediction import ModeEffect, ModePredictor
from edgetrain.recommendation import measurements_from
from edgetrain.record import DeviceFacts
from edgetrain.schema import Board, ModeSpace, PowerMode, StockMode

PRIOR = "orin"
LEVEL_90 = 3.29  # standard deviations between the ends of a 90 % interval


class ModeEffects:
    """Effects of power modes on one recorded training. The predictor of modes is fitted once, which takes a second.

    `profiled` are measured modes of the same network; without them the run's own mode and the prior have to do.
    """

    def __init__(self, summary: Summary, profiled: ProfiledSource | None = None, store: StoreLike = None) -> None:
        self._summary, self._profiled, self._store = summary, profiled, store
        self._found: dict[str, ModeEffect] = {}

    @cached_property
    def predictor(self) -> ModePredictor:
        """What predicts modes, fitted at first use."""
        return _predictor(self._summary, self._profiled, self._store)

    def fit(self) -> None:
        """Fit the predictor before the first question; raises where the run names no mode or measured no power."""
        _held(self._summary)
        _ = self.predictor

    def of(self, mode: str) -> ModeEffect:
        """Return the effect of a power mode, by its stock name or as cores/CPU/GPU/memory clocks in MHz."""
        if mode not in self._found:
            held = _held(self._summary)
            wanted: PowerMode | str = mode
            if mode not in self.predictor.stock:
                wanted = _mode_of_board(mode, self._summary.device)
            self._found[mode] = _effect(self.predictor, held, wanted, mode)
        return self._found[mode]


def fastest_mode(
    summary: Summary, profiled: ProfiledSource | None = None, store: StoreLike = None
) -> ModeEffect | None:
    """Return the effect of the board's fastest stock mode; None where the run has it, or has no power modes."""
    try:
        held, predictor = _held(summary), _predictor(summary, profiled, store)
    except EdgetrainError:
        return None
    effects = {name: _effect(predictor, held, name, name) for name in predictor.stock}
    if not effects:
        return None
    name = min(effects, key=lambda each: effects[each].step_time)
    return effects[name] if effects[name].step_time < 1.0 else None


def _held(summary: Summary) -> PowerMode:
    held = summary.power_mode.held if summary.power_mode else None
    if held is None:
        raise UsageError(
            f"{summary.run} does not say in which power mode it ran, so another mode cannot be compared with it; "
            "record it on a board with power modes"
        )
    return held


def _mode_of_board(text: str, device: DeviceFacts) -> PowerMode:
    """Read a mode by the clocks of the board that a run was recorded on, which need not be the machine at hand."""
    board = load_catalogue().find(device.name) if device.name else None
    space = None if board is None else catalogued_modes(board)
    if space is not None:
        return space.find_mode(text)
    name = f"sim:{device.name}" if device.kind == "simulated" else "auto"
    found = read_power_mode(text, name)
    assert found is not None  # of a text it is a mode
    return found


def catalogued_modes(board: Board) -> ModeSpace | None:
    """Return the clocks and stock modes that are published of a board; None where its CPU clocks are not."""
    if board.cpu is None:
        return None
    stock = [
        StockMode(each.id, each.name, held, default=each.id == board.stock_default)
        for each in board.stock_modes
        if (held := each.held_on(board)) is not None
    ]
    gpu_hz, emc_hz = ((table.values_hz if table is not None else ()) for table in (board.gpu, board.emc))
    return ModeSpace(tuple(range(1, board.cores + 1)), board.cpu.values_hz, gpu_hz, emc_hz, tuple(stock))


def _predictor(summary: Summary, profiled: ProfiledSource | None, store: StoreLike) -> ModePredictor:
    if profiled is None:
        measured = measurements_from([summary])
        if not measured:
            raise UsageError(f"{summary.run} measured no power, which predicting power modes needs")
        # The fit takes two measurements. The same one twice adds nothing to it; the prior supplies the rest.
        profiled = [*measured, *measured]
    return predict(profiled, board=summary.device.name, prior=PRIOR, store=store)


def _effect(predictor: ModePredictor, held: PowerMode, wanted: PowerMode | str, name: str) -> ModeEffect:
    before, after = predictor.at(held), predictor.at(wanted)
    time = after.time_s
    return ModeEffect(
        step_time=time.value / before.time_s.value,
        cpu_speed=after.mode.cpu_hz / held.cpu_hz,
        cores=after.mode.cores,
        power=after.power_w.value / before.power_w.value,
        deviation=math.log(time.hi / time.lo) / LEVEL_90 if time.lo > 0 else 0.0,
        note=f"power mode {name}",
    )
