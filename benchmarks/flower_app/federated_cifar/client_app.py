"""A client: trains on its own generated pictures; edgetrain's mod holds the power mode and records."""

from __future__ import annotations

import os
import time
import zlib

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from edgetrain.federated import answer_identity, power_mode_mod
from federated_cifar.task import BATCH, load_torch, train_with_numpy, train_with_torch

local_training = train_with_numpy
if os.environ.get("FEDERATED_CIFAR_WITH") == "torch":
    load_torch()
    local_training = train_with_torch

app = ClientApp(mods=[power_mode_mod])
answer_identity(app)


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train one pass over this unit's pictures."""
    unit = str(context.node_config["unit"])
    if unit == context.run_config["hang-unit"]:
        time.sleep(float(context.run_config["hang-s"]))
    minibatches = int(context.node_config["minibatches"])
    weights = [array.copy() for array in msg.content["arrays"].to_numpy_ndarrays()]
    loss = local_training(weights, zlib.crc32(unit.encode()), minibatches)
    metrics = MetricRecord({"loss": loss, "num-examples": minibatches * BATCH})
    return Message(RecordDict({"arrays": ArrayRecord(weights), "metrics": metrics}), reply_to=msg)
