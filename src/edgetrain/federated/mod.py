"""The client mod: `ClientApp(mods=[power_mode_mod])` holds the mode that the server asks for, records, and reports.

`answer_identity(app)` lets the server find out which board a node is before the first round; without it the server
learns that from the first reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from edgetrain.federated.board import NodeSettings, train_on_board
from edgetrain.federated.messages import FACTS, IDENTITY, METRICS, REQUEST, TrainingReport, TrainingRequest
from edgetrain.federated.virtual import VirtualBoard, board_of

IDENTITY_ACTION = "edgetrain_identity"
NextCall = Callable[[Message, Context], Message]


def power_mode_mod(msg: Message, context: Context, call_next: NextCall) -> Message:
    """Train in the mode that the message names, recorded; the reply carries seconds and joules.

    Messages other than for training pass unchanged. An error of the training is Flower's to report.
    """
    if msg.metadata.message_type.partition(".")[0] != "train":
        return call_next(msg, context)
    request = pop_request(msg)
    node = NodeSettings.read(dict(context.node_config))
    trained = train_on_board(node, context.node_id, request, lambda: call_next(msg, context))
    return with_report(trained.result, trained.report)


def pop_request(msg: Message) -> TrainingRequest:
    """Take what the server asks for out of a message, so that the client sees its own records only."""
    if REQUEST not in msg.content:
        return TrainingRequest()
    return TrainingRequest.read(dict(msg.content.pop(REQUEST)))


def with_report(reply: Message, report: TrainingReport) -> Message:
    """Return the reply with the report, where it carries anything."""
    if reply.has_content():
        reply.content[METRICS] = MetricRecord(report.metrics())
        reply.content[FACTS] = ConfigRecord(report.facts())
    return reply


def answer_identity(app: ClientApp, boards: Sequence[VirtualBoard] = ()) -> None:
    """Let a client app answer which board it runs on; `boards` are those of a simulated federation."""

    def identity(msg: Message, context: Context) -> Message:
        if boards:
            found = board_of(boards, dict(context.node_config)).identity()
        else:
            found = NodeSettings.read(dict(context.node_config)).identity(context.node_id)
        return Message(content=RecordDict({IDENTITY: ConfigRecord(found.values())}), reply_to=msg)

    app.query(IDENTITY_ACTION)(identity)
