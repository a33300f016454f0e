"""One federated round as it was planned and as it went: what the strategy keeps, and its JSON document."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema import Origin, PowerMode

TRAINED = "trained"
NO_ANSWER = "no answer"  # nothing came before the deadline
FAILED = "failed"  # the training raised an error on the board
EXPIRED = "expired"  # the message or its reply outlived its ttl
UNAVAILABLE = "unavailable"  # the SuperLink has lost the node
SAT_OUT = "sat out"  # was not asked: it did not answer in the round before, or the plan leaves it out


@dataclass(frozen=True, slots=True)
class UnitRound:
    """One board in one round. Predictions are as the plan used them, the unit's correction included."""

    unit: str
    state: str
    reason: str | None = None
    mode: PowerMode | None = None
    predicted_s: float | None = None
    predicted_j: float | None = None
    training_s: float | None = None
    joules: float | None = None
    setup_s: float | None = None
    time_factor: float = 1.0  # the unit's correction in this mode before this round
    run: str | None = None
    origin: Origin | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FederatedRound:
    """One round: what was predicted, what was observed, and what Flower itself took."""

    number: int
    deadline_s: float | None
    wall_s: float  # from the first message sent to the last reply received
    units: tuple[UnitRound, ...]

    @property
    def predicted_s(self) -> float | None:
        """When the last of the boards that trained was expected to finish its training."""
        return max((row.predicted_s for row in self._trained() if row.predicted_s is not None), default=None)

    @property
    def training_s(self) -> float | None:
        """When it did: the longest training by the boards' own clocks."""
        return max((row.training_s for row in self._trained() if row.training_s is not None), default=None)

    @property
    def joules(self) -> float | None:
        """The energy of all boards that trained; None where one of them does not know its own."""
        known = [row.joules for row in self._trained()]
        return None if None in known or not known else sum(joules for joules in known if joules is not None)

    @property
    def flower_s(self) -> float | None:
        """What the round took beyond the slowest board's training and its setup: messages, polling, processes."""
        busy = [(row.training_s or 0.0) + (row.setup_s or 0.0) for row in self._trained()]
        return max(0.0, self.wall_s - max(busy)) if busy else None

    def _trained(self) -> list[UnitRound]:
        return [row for row in self.units if row.state == TRAINED]
