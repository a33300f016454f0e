"""The mod and the strategy with Flower's own messages: run by `make test-flower` on every version that we support."""

import logging
from dataclasses import dataclass, field

import pytest

pytest.importorskip("flwr")

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.federated import (
    BoardIdentity,
    DeadlineAssigner,
    ModeCost,
    PollingGrid,
    PowerModeStrategy,
    TrainingReport,
    TrainingRequest,
    UnitProfile,
    VirtualBoard,
    answer_identity,
    power_mode_mod,
    virtual_time_mod,
)
from edgetrain.schema import Origin, PowerMode

FAST = ModeCost(PowerMode(4, 1_479_000_000, 921_600_000, 1_600_000_000), 0.1, 10.0)
SLOW = ModeCost(PowerMode(4, 921_600_000, 614_400_000, 1_600_000_000), 0.2, 4.0)
ARRAYS = ArrayRecord([np.zeros(3, np.float32)])


@pytest.fixture(autouse=True)
def task_identity():
    """Be a task, as a process is that Flower has started: later versions make no message without."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1


REQUEST, METRICS, FACTS = "edgetrain-request", "edgetrain", "edgetrain-facts"


def context_of(node_id=5, **node_config):
    return Context(run_id=1, node_id=node_id, node_config=node_config, state=RecordDict(), run_config={})


def client_reply(msg, examples=10, value=1.0):
    content = {
        "arrays": ArrayRecord([np.full(3, value, np.float32)]),
        "metrics": MetricRecord({"num-examples": examples}),
    }
    return Message(RecordDict(content), reply_to=msg)


def sent(content=None, node=5, kind="train"):
    """Return a message as it arrives: the SuperLink has given it an ID."""
    msg = Message(RecordDict(content or {}), dst_node_id=node, message_type=kind)
    msg.metadata.__dict__["_message_id"] = f"message-{node}"
    msg.metadata.__dict__["_src_node_id"] = 1
    msg.metadata.__dict__["_run_id"] = 1
    return msg


@dataclass
class Board:
    """A node of the hand-made grid: answers at once with what its board takes, or never, or with an error."""

    unit: str
    factor: float = 1.0
    error: int | None = None
    silent: bool = False
    anonymous: bool = False
    modes: list = field(default_factory=list)

    def answer(self, msg):
        if self.silent:
            return None
        if msg.metadata.message_type.startswith("query"):
            if self.anonymous:
                return Message(Error(2, "No query function registered"), reply_to=msg)
            identity = BoardIdentity(self.unit, "sim:nano", "nano", flower="1.30.0")
            return Message(RecordDict({"edgetrain-identity": ConfigRecord(identity.values())}), reply_to=msg)
        if self.error is not None:
            return Message(Error(self.error, "it did not work"), reply_to=msg)
        request = TrainingRequest.read(dict(msg.content[REQUEST]))
        self.modes.append(request.mode)
        cost = SLOW if request.mode == SLOW.mode else FAST
        seconds = cost.minibatch_s * 100 * self.factor
        reply = client_reply(msg)
        identity = BoardIdentity(self.unit, "sim:nano", "nano")
        report = TrainingReport(identity, seconds, 1.0, cost.power_w * seconds, 0.1, request.mode, Origin.SIMULATED)
        reply.content[METRICS], reply.content[FACTS] = MetricRecord(report.metrics()), ConfigRecord(report.facts())
        return reply


class HandMadeGrid:
    """Nodes that answer by hand on a clock that is turned by hand."""

    def __init__(self, boards):
        self.boards, self.now_s, self.messages, self.replies = boards, 0.0, [], {}

    def get_node_ids(self):
        return list(self.boards)

    def push_messages(self, messages):
        ids = []
        for msg in messages:
            ids.append(f"message-{len(self.messages)}")
            msg.metadata.__dict__["_message_id"] = ids[-1]
            msg.metadata.__dict__["_src_node_id"] = 1
            msg.metadata.__dict__["_run_id"] = 1
            self.messages.append(msg)
            reply = self.boards[msg.metadata.dst_node_id].answer(msg)
            if reply is not None:
                self.replies[ids[-1]] = reply
        return ids

    def pull_messages(self, ids):
        return [self.replies.pop(each) for each in ids if each in self.replies]

    def sleep(self, seconds):
        self.now_s += seconds


def start(boards, rounds=3, deadline_s=None, **more):
    grid = HandMadeGrid(boards)
    profiles = {board.unit: UnitProfile((FAST, SLOW), 100) for board in boards.values()}
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    strategy = PowerModeStrategy(
        inner,
        DeadlineAssigner(profiles, deadline_s),
        nodes=len(boards),
        now_s=lambda: grid.now_s,
        sleep=grid.sleep,
        **more,
    )
    result = strategy.start(grid, ARRAYS, num_rounds=rounds, timeout=1000.0)
    return strategy, grid, result


def rows(strategy, number):
    return {row.unit: row for row in strategy.rounds[number - 1].units}


# ---- strategy ------------------------------------------------------------------------------------------------------


def test_each_board_gets_its_own_mode_and_the_strategy_aggregates_the_rest():
    boards = {11: Board("a"), 12: Board("b")}
    grid = HandMadeGrid(boards)
    profiles = {"a": UnitProfile((FAST, SLOW), 100), "b": UnitProfile((FAST, SLOW), 40)}
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    strategy = PowerModeStrategy(inner, DeadlineAssigner(profiles), 2, now_s=lambda: grid.now_s, sleep=grid.sleep)
    result = strategy.start(grid, ARRAYS, num_rounds=1)
    assert boards[11].modes == [FAST.mode] and boards[12].modes == [SLOW.mode]
    assert result.arrays.to_numpy_ndarrays()[0].tolist() == [1.0, 1.0, 1.0]


def test_a_slow_unit_is_predicted_better_from_the_second_round_on():
    strategy, _, _ = start({11: Board("a", 1.2)}, rounds=4)
    errors = [abs(each.predicted_s / each.training_s - 1) for each in strategy.rounds]
    assert errors[0] == pytest.approx(1 - 1 / 1.2)
    assert all(error < 0.03 for error in errors[1:]) and errors[3] < errors[1]


def test_a_node_that_never_answers_costs_the_deadline_and_sits_out_the_next_round():
    boards = {11: Board("a"), 12: Board("b", silent=True)}
    boards[12].answer = lambda msg: Board("b").answer(msg) if msg.metadata.message_type.startswith("query") else None
    strategy, _, result = start(boards, rounds=3, overhead_s=5.0)
    assert rows(strategy, 1)["b"].state == "no answer" and "within 17.5 s" in rows(strategy, 1)["b"].reason
    assert rows(strategy, 2)["b"].state == "sat out"
    assert rows(strategy, 3)["b"].state == "no answer"
    assert strategy.rounds[0].wall_s == pytest.approx(17.5, abs=0.01)
    assert strategy.rounds[1].wall_s < 1.0
    assert all(rows(strategy, number)["a"].state == "trained" for number in (1, 2, 3))
    assert result.arrays is not None


def test_an_evaluation_neither_asks_a_board_that_hangs_nor_waits_without_limit():
    boards = {11: Board("a"), 12: Board("b"), 13: Board("c")}
    answers = {node: board.answer for node, board in boards.items()}
    metrics = {"metrics": MetricRecord({"num-examples": 10, "loss": 0.5})}
    boards[11].answer = lambda msg: (
        Message(RecordDict(metrics), reply_to=msg) if msg.metadata.message_type == "evaluate" else answers[11](msg)
    )
    boards[12].answer = lambda msg: answers[12](msg) if msg.metadata.message_type.startswith("query") else None
    boards[13].answer = lambda msg: None if msg.metadata.message_type == "evaluate" else answers[13](msg)
    grid = HandMadeGrid(boards)
    inner = FedAvg(min_train_nodes=1, min_evaluate_nodes=1, min_available_nodes=1)
    assigner = DeadlineAssigner({name: UnitProfile((FAST, SLOW), 100) for name in "abc"})
    strategy = PowerModeStrategy(inner, assigner, 3, overhead_s=5.0, now_s=lambda: grid.now_s, sleep=grid.sleep)
    result = strategy.start(grid, ARRAYS, num_rounds=2, timeout=3600.0)
    asked = [msg.metadata.dst_node_id for msg in grid.messages if msg.metadata.message_type == "evaluate"]
    assert sorted(asked) == [11, 11, 13, 13] and grid.now_s == pytest.approx(3 * 17.5, abs=0.1)
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.5


def test_a_report_that_cannot_be_read_does_not_end_the_run():
    board = Board("a")

    def answer(msg):
        reply = Board("a").answer(msg)
        if not msg.metadata.message_type.startswith("query"):
            reply.content[FACTS] = ConfigRecord({"unit": "a", "origin": "guessed"})
        return reply

    board.answer = answer
    strategy, _, result = start({11: board}, rounds=1)
    assert rows(strategy, 1)["a"].state == "trained" and "cannot be read" in rows(strategy, 1)["a"].reason
    assert result.arrays.to_numpy_ndarrays()[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("code, state", [(2, "failed"), (3, "expired"), (4, "expired"), (5, "unavailable")])
def test_errors_are_attributed_to_the_board_that_was_asked(code, state):
    strategy, _, _ = start({11: Board("a"), 12: Board("b", error=code)}, rounds=1)
    assert rows(strategy, 1)["b"].state == state and rows(strategy, 1)["b"].reason == "it did not work"
    assert rows(strategy, 1)["b"].predicted_s is not None
    assert rows(strategy, 1)["a"].state == "trained"


def test_a_round_in_which_all_fail_keeps_the_weights_and_goes_on():
    strategy, _, _ = start({11: Board("a", error=2)}, rounds=2)
    assert [each.training_s for each in strategy.rounds] == [None, None]
    assert [each.joules for each in strategy.rounds] == [None, None]


def test_a_board_that_does_not_say_who_it_is_has_no_mode_in_its_first_round_only():
    board = Board("a", anonymous=True)
    strategy, _, _ = start({11: board}, rounds=2)
    assert board.modes == [None, FAST.mode]
    assert rows(strategy, 1)["a"].predicted_s is None and rows(strategy, 2)["a"].predicted_s is not None


def test_a_board_that_comes_back_under_another_node_id_keeps_what_was_learned():
    strategy, grid, _ = start({11: Board("a", 1.2)}, rounds=1)
    grid.boards.clear()
    grid.boards[99] = Board("a", 1.2)
    strategy.start(grid, ARRAYS, num_rounds=1)
    assert rows(strategy, 2)["a"].time_factor == pytest.approx(1.2, rel=0.03)


def test_two_nodes_of_one_name_are_refused():
    with pytest.raises(UsageError, match="both call themselves 'a'; give each SuperNode a unit of its own"):
        start({11: Board("a"), 12: Board("a")}, rounds=1)


def test_a_message_outlives_its_deadline_so_that_late_replies_are_not_lost():
    _, grid, _ = start({11: Board("a")}, rounds=1, overhead_s=5.0)
    train = next(msg for msg in grid.messages if msg.metadata.message_type == "train")
    assert train.metadata.ttl > 17.5 + 30
    assert train.metadata.ttl < 200


def test_too_few_nodes_end_the_wait_with_a_reason():
    grid = HandMadeGrid({11: Board("a")})
    strategy = PowerModeStrategy(FedAvg(), DeadlineAssigner({}), 3, 20.0, now_s=lambda: grid.now_s, sleep=grid.sleep)
    with pytest.raises(EdgetrainError, match="1 of 3 nodes came online within 20 s"):
        strategy.start(grid, ARRAYS)


def test_a_version_that_does_not_fit_is_named_when_a_board_says_who_it_is(caplog):
    board = Board("nano-3")
    identity = BoardIdentity("nano-3", "sim:nano", "nano", flower="1.20.0")
    content = RecordDict({"edgetrain-identity": ConfigRecord(identity.values())})
    board.answer = lambda msg: (
        Message(content, reply_to=msg) if msg.metadata.message_type.startswith("query") else Board("nano-3").answer(msg)
    )
    with caplog.at_level(logging.WARNING, "edgetrain"):
        start({11: board}, rounds=1)
    assert "nano-3 has Flower 1.20.0" in caplog.text


def test_polling_keeps_the_limit_and_returns_what_has_come():
    grid = HandMadeGrid({11: Board("a"), 12: Board("b", silent=True)})
    polling = PollingGrid(grid, lambda: 12.0, now_s=lambda: grid.now_s, sleep=grid.sleep)
    questions = [Message(RecordDict(), dst_node_id=node, message_type="query.edgetrain_identity") for node in (11, 12)]
    replies = polling.send_and_receive(questions)
    assert [polling.node_of(reply) for reply in replies] == [11]
    assert grid.now_s == pytest.approx(12.0)


def test_messages_that_the_superlink_does_not_take_are_not_waited_for():
    grid = HandMadeGrid({11: Board("a")})
    grid.push_messages = lambda messages: []
    polling = PollingGrid(grid, lambda: 12.0, now_s=lambda: grid.now_s, sleep=grid.sleep)
    assert polling.send_and_receive([Message(RecordDict(), dst_node_id=11, message_type="train")]) == []
    assert polling.unsent == [11] and grid.now_s == 0.0


# ---- mod -----------------------------------------------------------------------------------------------------------


def test_the_mod_holds_the_mode_reports_and_hides_the_request_from_the_client(tmp_path):
    device = f"sim:nano@{tmp_path / 'board'}"
    held, seen = [], []
    app = ClientApp(mods=[power_mode_mod])

    @app.train()
    def train(msg, context):
        held.append(open_device(device).control().read())
        seen.extend(msg.content)
        return client_reply(msg)

    request = ConfigRecord(TrainingRequest(SLOW.mode, 2).values())
    msg = sent({"arrays": ARRAYS, "config": ConfigRecord({"lr": 0.1}), REQUEST: request})
    network = "resnet18_cifar_gn"
    reply = app(msg, context_of(unit="nano-3", device=device, store=str(tmp_path / "store"), network=network))
    assert held == [SLOW.mode] and sorted(seen) == ["arrays", "config"]
    report = TrainingReport.read(dict(reply.content[METRICS]), dict(reply.content[FACTS]))
    assert report.identity.unit == "nano-3" and report.mode == SLOW.mode
    assert report.joules is not None and report.training_s > 0.5
    assert open_device(device).control().held() is None


def test_messages_other_than_for_training_pass_unchanged():
    reply = power_mode_mod(sent(kind="evaluate"), context_of(), lambda msg, context: "as it was")
    assert reply == "as it was"


def test_a_client_app_answers_which_board_it_is(tmp_path):
    app = ClientApp()
    answer_identity(app)
    context = context_of(unit="nano-3", device=f"sim:nano@{tmp_path / 'board'}")
    reply = app(sent(kind="query.edgetrain_identity"), context)
    found = BoardIdentity.read(dict(reply.content["edgetrain-identity"]))
    assert (found.unit, found.board) == ("nano-3", "nano") and found.flower is not None


# ---- virtual time --------------------------------------------------------------------------------------------------


def test_a_virtual_board_reports_time_and_energy_of_its_profile_without_waiting():
    boards = [VirtualBoard("a", (FAST, SLOW), 100), VirtualBoard("b", (FAST, SLOW), 100, 1.1, 1.05)]
    mod = virtual_time_mod(boards)
    request = ConfigRecord(TrainingRequest(SLOW.mode, 50).values())
    context = context_of(**{"partition-id": 1, "num-partitions": 2})
    reply = mod(sent({"arrays": ARRAYS, REQUEST: request}), context, lambda msg, context: client_reply(msg))
    report = TrainingReport.read(dict(reply.content[METRICS]), dict(reply.content[FACTS]))
    assert report.identity.unit == "b" and report.origin is Origin.SIMULATED
    assert report.training_s == pytest.approx(50 * 0.2 * 1.1)
    assert report.joules == pytest.approx(4.0 * 50 * 0.2 * 1.05)
