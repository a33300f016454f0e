"""Finds out before training whether the samples of a dataset are random, without a trace in this process.

A child process makes some samples twice. What they open there (files, databases) is not open here, where workers would
inherit it and share its place in the file.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import warnings
from typing import Any

from .cached_values import dumps, same
from .randomness import OtherRandomness

SAMPLES = 8
WITHIN_S = 10.0  # then training begins without an answer; workers check the samples that they make


def random_sample(dataset: Any, within_s: float = WITHIN_S) -> int | None:
    """Return the index of a sample that is another each time it is made; None where none was found in time."""
    answer, question = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: this child ends by itself
            child = os.fork()
    except OSError:
        os.close(answer)
        os.close(question)
        return None
    if child == 0:
        try:
            _look(dataset, question)
        finally:
            os._exit(0)
    os.close(question)
    try:
        return _read(answer, time.monotonic() + within_s)
    finally:
        os.close(answer)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _read(answer: int, until_s: float) -> int | None:
    """Return the number that the child writes; None where it writes none."""
    ready, _, _ = select.select([answer], [], [], max(0.0, until_s - time.monotonic()))
    text = os.read(answer, 32) if ready else b""
    return int(text) if text else None


def _look(dataset: Any, question: int) -> None:
    """Make samples twice, in the child; what fails here fails in training too, with its own message."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # those of the parent are not here
    count = len(dataset)
    for index in sorted({place * count // SAMPLES for place in range(min(SAMPLES, count))}):
        once = dataset[index]
        with OtherRandomness():
            again = dataset[index]
        if dumps(once) != dumps(again) and not same(once, again):
            os.write(question, b"%d" % index)
            return
