"""A strategy around any other: one message per board with its power mode, and corrections learned from the replies.

    strategy = PowerModeStrategy(FedAvg(min_available_nodes=3), DeadlineAssigner(profiles))
    strategy.start(grid, arrays, num_rounds=5)
    strategy.rounds                                     predicted against observed, per round and board

The strategy inside samples nodes and aggregates; it never sees our records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.federated.assignment import AssignedRound, FederatedUnit, ModeAssigner, UnitAssignment
from edgetrain.federated.correction import RoundCorrection
from edgetrain.federated.grid import PollingGrid
from edgetrain.federated.messages import (
    FACTS,
    IDENTITY,
    METRICS,
    REQUEST,
    BoardIdentity,
    TrainingReport,
    TrainingRequest,
    flower_version,
)
from edgetrain.federated.rounds import (
    EXPIRED,
    FAILED,
    NO_ANSWER,
    SAT_OUT,
    TRAINED,
    UNAVAILABLE,
    FederatedRound,
    UnitRound,
)
from edgetrain.flower_versions import version_problem
from edgetrain.schema import PowerMode

# Flower took 1.6 to 9.5 s per message on 2 shared cores; a board also sets its mode and starts its recorder.
OVERHEAD_S = 20.0
LATE_SHARE = 0.25  # training may take this much longer than the deadline before a board is given up for the round
TTL_MARGIN_S = 60.0  # beyond that limit a message is stale: a node that hung through the round need not run it
IDENTITY_S = 60.0  # for the boards to say which they are
NODES_S = 300.0  # for the nodes to come online
EXPIRED_CODES, UNAVAILABLE_CODE = (3, 4), 5  # of Flower's ErrorCode
QUERY = f"{MessageType.QUERY}.edgetrain_identity"
logger = logging.getLogger(__name__)


class PowerModeStrategy(Strategy):
    """Gives each board its power mode per round, keeps the deadline, and learns each unit's factors.

    `nodes` is how many to wait for before the first round, at most `nodes_s`: Flower itself waits without limit.
    `evaluate_s` limits the evaluation after each round; left out, the limit of the round's training holds for it too.
    """

    def __init__(
        self,
        strategy: Strategy,
        assigner: ModeAssigner,
        nodes: int = 1,
        nodes_s: float = NODES_S,
        overhead_s: float = OVERHEAD_S,
        late_share: float = LATE_SHARE,
        evaluate_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self.strategy, self._assigner = strategy, assigner
        self._nodes, self._nodes_s = nodes, nodes_s
        self._overhead_s, self._late_share, self._evaluate_s = overhead_s, late_share, evaluate_s
        self._now_s, self._sleep = now_s, sleep
        self._grid: PollingGrid | None = None
        self._identities: dict[int, BoardIdentity] = {}  # by node ID
        self._asked: set[int] = set()  # nodes that were asked who they are
        self._time: dict[str, RoundCorrection] = {}  # by unit
        self._energy: dict[str, RoundCorrection] = {}
        self._silent: set[str] = set()  # did not answer in the last round
        self._resting: set[str] = set()  # sit this round out because of that
        self._plan = AssignedRound(())
        self._sat_out: tuple[str, ...] = ()
        self._limit_s: float | None = None
        self.rounds: list[FederatedRound] = []

    def summary(self) -> None:
        """Log what this strategy does."""
        logger.info("power modes by %s, deadlines by polling", type(self._assigner).__name__)
        self.strategy.summary()

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *arguments: object, **more: object) -> Result:
        """Wait for the nodes, then run the rounds with replies polled for by our own deadline."""
        self._grid = PollingGrid(grid, lambda: self._limit_s, now_s=self._now_s, sleep=self._sleep)
        self.wait_for_nodes(self._grid)
        return super().start(self._grid, initial_arrays, *arguments, **more)

    def wait_for_nodes(self, grid: Grid) -> None:
        """Return when enough nodes are online; EdgetrainError after the limit."""
        until_s = self._now_s() + self._nodes_s
        while (found := len(list(grid.get_node_ids()))) < self._nodes:
            if self._now_s() >= until_s:
                raise EdgetrainError(
                    f"{found} of {self._nodes} nodes came online within {self._nodes_s:g} s; check that each SuperNode "
                    f"runs and fits this SuperLink's Flower {flower_version()}: one of another transport (gRPC up to "
                    "1.39, HTTP from 1.40 on) retries for ever without giving a reason"
                )
            self._sleep(1.0)

    # ---- training ------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return one message per board, with its mode."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._identify([message.metadata.dst_node_id for message in messages], self._polling(grid))
        names = {node: identity.unit for node, identity in self._identities.items()}
        here = [names[node] for node in (each.metadata.dst_node_id for each in messages) if node in names]
        # A board that hangs works on the last message still: it would miss this round too, and hold up the others.
        silent = {name for name in here if name in self._silent}
        if len(silent) == len(messages):
            silent = set()
        units = [
            self._unit(each) for each in self._identities.values() if each.unit in here and each.unit not in silent
        ]
        self._plan = self._assigner.assign(server_round, units)
        self._sat_out = tuple(name for name in here if self._plan.of(name) is None)
        self._silent, self._resting = set(), silent
        limit_s = self._round_limit_s(self._plan.deadline_s)
        found = []
        for message in messages:
            name = names.get(message.metadata.dst_node_id)
            if name is None or name not in self._sat_out:
                found.append(self._with_request(message, None if name is None else self._plan.of(name), limit_s))
        self._limit_s = limit_s
        return found

    def _unit(self, identity: BoardIdentity) -> FederatedUnit:
        none = RoundCorrection()
        return FederatedUnit(identity, self._time.get(identity.unit, none), self._energy.get(identity.unit, none))

    def _round_limit_s(self, deadline_s: float | None) -> float | None:
        return None if deadline_s is None else deadline_s * (1 + self._late_share) + self._overhead_s

    def _with_request(self, message: Message, assignment: UnitAssignment | None, limit_s: float | None) -> Message:
        """Return a message with what this board is to do; the strategy's own share one content between them."""
        request = TrainingRequest()
        if assignment is not None:
            request = TrainingRequest(assignment.mode, assignment.minibatches)
        content = RecordDict(dict(message.content))
        content[REQUEST] = ConfigRecord(request.values())
        about = message.metadata
        return Message(
            content,
            dst_node_id=about.dst_node_id,
            message_type=about.message_type,
            group_id=about.group_id,
            ttl=about.ttl if limit_s is None else min(about.ttl, limit_s + TTL_MARGIN_S),
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take our records out of the replies, learn from them, and let the strategy aggregate the rest."""
        answers, self._limit_s = list(replies), None
        grid = self._grid
        rows: dict[str, UnitRound] = {}
        for reply in answers:
            node = grid.node_of(reply) if grid is not None else None
            row = self._row_of(reply, reply.metadata.src_node_id if node is None else node)
            rows[row.unit] = row
        for each in self._plan.assignments:
            if each.unit not in rows:
                limit_s = self._round_limit_s(self._plan.deadline_s)
                within = "" if limit_s is None else f" within {limit_s:.1f} s"
                rows[each.unit] = self._planned_row(each.unit, NO_ANSWER, f"no reply{within}")
        for name in self._sat_out:
            rows.setdefault(name, UnitRound(name, SAT_OUT, "left out of this round"))
        self._silent |= {row.unit for row in rows.values() if row.state in (NO_ANSWER, EXPIRED, UNAVAILABLE)}
        wall_s = grid.wall_s if grid is not None else 0.0
        done = FederatedRound(server_round, self._plan.deadline_s, wall_s, tuple(rows[name] for name in sorted(rows)))
        self.rounds.append(done)
        _log_round(done)
        return self.strategy.aggregate_train(server_round, answers)

    def _row_of(self, reply: Message, node: int) -> UnitRound:
        identity = self._identities.get(node)
        if reply.has_error():
            name = identity.unit if identity else f"node-{node}"
            return self._planned_row(name, _state_of(reply.error.code), str(reply.error.reason))
        if METRICS not in reply.content or FACTS not in reply.content:
            name = identity.unit if identity else f"node-{node}"
            reason = "its ClientApp has no power_mode_mod: neither time nor energy is known"
            return self._planned_row(name, TRAINED, reason)
        metrics, facts = dict(reply.content.pop(METRICS)), dict(reply.content.pop(FACTS))
        try:
            report = TrainingReport.read(metrics, facts)
        except (EdgetrainError, ValueError) as error:  # the weights are good all the same
            name = identity.unit if identity else f"node-{node}"
            return self._planned_row(name, TRAINED, f"its report cannot be read: {error}")
        self._meet(node, report.identity)
        return self._learn(report)

    def _planned_row(self, unit: str, state: str, reason: str | None) -> UnitRound:
        asked = self._plan.of(unit)
        if asked is None:
            return UnitRound(unit, state, reason)
        factor = self._time.get(unit, RoundCorrection()).factor(asked.mode)
        return UnitRound(unit, state, reason, asked.mode, asked.predicted_s, asked.predicted_j, time_factor=factor)

    def _learn(self, report: TrainingReport) -> UnitRound:
        """Keep what one board took; only a training in the mode asked for says anything about the unit's factors."""
        unit, asked = report.identity.unit, self._plan.of(report.identity.unit)
        times = self._time.get(unit, RoundCorrection())
        energies = self._energy.get(unit, RoundCorrection())
        if asked is not None and _same_clocks(asked.mode, report.mode):
            if asked.kind_s is not None:
                self._time[unit] = times.observe(asked.mode, asked.kind_s, report.training_s)
            if asked.kind_j is not None and report.joules is not None:
                self._energy[unit] = energies.observe(asked.mode, asked.kind_j, report.joules)
        return UnitRound(
            unit,
            TRAINED,
            None,
            report.mode,
            asked.predicted_s if asked else None,
            asked.predicted_j if asked else None,
            report.training_s,
            report.joules,
            report.setup_s,
            times.factor(asked.mode if asked else None),
            report.run,
            report.origin,
            report.doubts,
        )

    # ---- who is who ----------------------------------------------------------------------------------------------

    def _identify(self, nodes: Sequence[int], grid: PollingGrid) -> None:
        """Ask nodes that are new which boards they are; one that does not answer says so in its first reply."""
        fresh = [node for node in nodes if node not in self._identities and node not in self._asked]
        if not fresh:
            return
        self._asked |= set(fresh)
        questions = [Message(RecordDict(), dst_node_id=node, message_type=QUERY, ttl=IDENTITY_S) for node in fresh]
        self._limit_s = IDENTITY_S
        met: dict[str, int] = {}
        for reply in grid.send_and_receive(questions):
            node = grid.node_of(reply)
            if reply.has_error() or IDENTITY not in reply.content or node is None:
                logger.warning("node %s did not say which board it is: its first round has no power mode", node)
                continue
            identity = BoardIdentity.read(dict(reply.content[IDENTITY]))
            if identity.unit in met:
                raise UsageError(
                    f"nodes {met[identity.unit]} and {node} both call themselves {identity.unit!r}; give each "
                    "SuperNode a unit of its own in its node config"
                )
            met[identity.unit] = node
            self._meet(node, identity)

    def _meet(self, node: int, identity: BoardIdentity) -> None:
        """Note which board a node is; a board that came back under a new node ID keeps what was learned about it."""
        for other in [each for each, known in self._identities.items() if known.unit == identity.unit and each != node]:
            # The SuperLink lists a node that was killed for about a minute beside its successor.
            logger.info("%s is node %d now, before it was node %d", identity.unit, node, other)
            del self._identities[other]
        if node not in self._identities:
            problem = version_problem(flower_version(), identity.flower, identity.unit)
            if problem:
                logger.warning("%s", problem)
        self._identities[node] = identity

    def _polling(self, grid: Grid) -> PollingGrid:
        """Return the polling grid: the one that `start` made, or one around what a test or another wrapper passes."""
        if isinstance(grid, PollingGrid):
            self._grid = grid
        elif self._grid is None:
            self._grid = PollingGrid(grid, lambda: self._limit_s, now_s=self._now_s, sleep=self._sleep)
        return self._grid

    # ---- evaluation: the strategy's own ------------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the strategy's own messages, but for boards that did not answer the training: they work on it still.

        Replies are waited for as long as for those of the training, or `evaluate_s`.
        """
        names = {node: identity.unit for node, identity in self._identities.items()}
        messages = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        busy = self._silent | self._resting
        asked = [message for message in messages if names.get(message.metadata.dst_node_id) not in busy]
        self._limit_s = self._round_limit_s(self._plan.deadline_s) if self._evaluate_s is None else self._evaluate_s
        return asked

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the strategy's own result."""
        self._limit_s = None
        return self.strategy.aggregate_evaluate(server_round, replies)


def _same_clocks(asked: PowerMode | None, held: PowerMode | None) -> bool:
    """Return whether two modes are the same, whatever they are called."""
    return asked == held if asked is None or held is None else replace(asked, name=None) == replace(held, name=None)


def _state_of(code: int) -> str:
    if code in EXPIRED_CODES:
        return EXPIRED
    return UNAVAILABLE if code == UNAVAILABLE_CODE else FAILED


def _log_round(done: FederatedRound) -> None:
    said = [f"{row.unit} {row.state}" + (f" ({row.reason})" if row.reason else "") for row in done.units]
    logger.info(
        "round %d: predicted %s, trained %s: %s",
        done.number,
        _spell(done.predicted_s),
        _spell(done.training_s),
        "; ".join(said),
    )


def _spell(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:.1f} s"
