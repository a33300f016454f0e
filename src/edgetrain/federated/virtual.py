"""For Flower's simulation engine: time and energy of each board from its profile, on a virtual clock.

The engine gives every simulated node a partition number and no board. `virtual_time_mod(boards)` assigns the boards in
order, trains as the client does, and reports what the board would have taken in the mode asked for: its own factor and
the spread between rounds included, which the planner does not see. The sum of `FederatedRound.training_s` is then the
virtual time of the experiment. Everything reported is `simulated`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetrain.errors import UsageError
from edgetrain.federated.assignment import ModeCost
from edgetrain.federated.messages import BoardIdentity, RecordValues, TrainingReport, TrainingRequest
from edgetrain.schema import Origin, PowerMode

MAX_SIGMA = 3.0


@dataclass(frozen=True, slots=True)
class VirtualBoard:
    """One board of a simulated federation: what was measured on its kind, and how it differs from that."""

    unit: str
    costs: tuple[ModeCost, ...]
    minibatches: int  # trained per round where the request names no number
    time_factor: float = 1.0
    energy_factor: float = 1.0
    spread: float = 0.0  # standard deviation of a round's time and energy, as a share
    board: str | None = None

    def identity(self) -> BoardIdentity:
        """Return which board this is."""
        return BoardIdentity(self.unit, "virtual", self.board)

    def train(self, request: TrainingRequest, seed: str) -> TrainingReport:
        """Return what training takes in the mode asked for; without one in the first mode of the profile."""
        cost = self._cost(request.mode)
        chance = random.Random(f"{self.unit}|{seed}")
        off_time, off_energy = (
            math.exp(self.spread * max(-MAX_SIGMA, min(MAX_SIGMA, chance.gauss(0, 1)))) for _ in range(2)
        )
        count = self.minibatches if request.minibatches is None else request.minibatches
        kind_s = cost.minibatch_s * count
        return TrainingReport(
            self.identity(),
            kind_s * self.time_factor * off_time,
            joules=cost.power_w * kind_s * self.energy_factor * off_energy,
            mode=request.mode,
            origin=Origin.SIMULATED,
        )

    def _cost(self, mode: PowerMode | None) -> ModeCost:
        if mode is None:
            return self.costs[0]
        for cost in self.costs:
            same = (cost.mode.cores, cost.mode.cpu_hz, cost.mode.gpu_hz, cost.mode.emc_hz)
            if same == (mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz):
                return cost
        raise UsageError(f"the profile of {self.unit} has no mode with {mode}; plan with the modes it was measured in")


def board_of(boards: Sequence[VirtualBoard], node_config: RecordValues) -> VirtualBoard:
    """Return the board of a simulated node: node number N is board N, beginning anew after the last."""
    number = node_config.get("partition-id", 0)
    return boards[int(number) % len(boards) if isinstance(number, (int, float, str)) else 0]


def virtual_time_mod(boards: Sequence[VirtualBoard]) -> Callable[..., object]:
    """Return a client mod for the simulation engine; `answer_identity(app, boards)` belongs to it."""
    from flwr.app import Context, Message

    from edgetrain.federated.mod import pop_request, with_report

    if not boards:
        raise UsageError("no boards: a simulated federation needs at least one profile")

    def mod(msg: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        if msg.metadata.message_type.partition(".")[0] != "train":
            return call_next(msg, context)
        request = pop_request(msg)
        board = board_of(boards, dict(context.node_config))
        report = board.train(request, f"{msg.metadata.group_id}|{msg.metadata.message_id}")
        return with_report(call_next(msg, context), report)

    return mod
