"""Places of the columns in a row of the minibatch stream, and the values of its `phase`."""

from __future__ import annotations

from typing import Any

from . import stream

(LOADER, GENERATION, EPOCH, BATCH, PHASE, ASKED, READY, COPIED, LAUNCHED, DONE, COPYING, SENT, WORKER, SAMPLES,
 QUEUED, CPU, THREAD, SITE, FORWARDS, FORWARDS_AFTER, BACKWARDS, STEPS, OTHER_STEPS, OPTIMIZER, REACHES_BACK,
 IDLE) = range(len(stream.MINIBATCHES))  # fmt: skip

# Of PHASE: not known; trained; gradients were off; the network was in evaluation mode, and was not or was trained.
UNKNOWN, TRAINED, NO_GRADIENTS, EVAL_MODE, TRAINED_IN_EVAL_MODE = range(5)


def row_without_batch(
    loader: int | None, generation: int | None, asked_us: int, ready_us: int, thread: int, site: int | None
) -> list[Any]:
    """Return a row in which no batch was delivered: the end of a pass, or (without a loader) no fetch at all."""
    return [
        loader, generation, None, None, UNKNOWN, asked_us, ready_us, None, None, None, None, None, None, None,
        None, None, thread, site, None, None, 0, 0, 0, None, None, None,
    ]  # fmt: skip
