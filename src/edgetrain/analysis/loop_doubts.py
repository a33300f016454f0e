"""Doubts about loops that could not be seen in full: no loader, a killed process, waiting that should not be hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from edgetrain.analysis.loop import TrainingLoop, hides_steps
from edgetrain.analysis.turns import OTHER_THREAD
from edgetrain.record import Run
from edgetrain.schema import Doubt
from edgetrain.units import spell_seconds

ROUNDING_S = 1e-6  # of sums; on a CPU nothing can cover a wait, however short


def loop_doubts(run: Run, loops: Sequence[TrainingLoop]) -> list[Doubt]:
    """Return what could not be seen of these loops, each once."""
    several = sum(bool(len(loop.parts)) for loop in loops) > 1
    found = []
    for loop in loops:
        where = f"process {loop.process.facts.pid}: " if several else ""
        found += [Doubt(doubt.kind, where + doubt.text) for doubt in _doubts(run, loop)]
    return list(dict.fromkeys(found))


def _doubts(run: Run, loop: TrainingLoop) -> Iterator[Doubt]:
    yield from loop.turns.doubts
    facts, parts = loop.process.facts, loop.parts
    if parts.fetched is not None and not any(doubt.kind == OTHER_THREAD for doubt in loop.turns.doubts):
        unseen = int(np.count_nonzero(~parts.fetched))
        yield Doubt(
            "no_loader",
            f"{unseen} of {len(parts)} minibatches are optimizer steps without a fetch from a torch DataLoader: how "
            "long the loop waited for data is not known, and compute_s includes it; wrap what the loop iterates in "
            "edgetrain.watch",
        )
    if facts.ended is False and run.manifest.state != "running":
        yield Doubt(
            "killed",
            "a training process ended without closing its record: its last seconds (5 at most) may be missing",
        )
    if len(parts) and hides_steps(facts) and all(one.optimizer_steps is None for one in loop.epochs):
        yield Doubt(
            "steps_not_seen",
            "no step of an optimizer was seen, and parts of the program were compiled by torch.compile: where they "
            "contain the step, optimizer_steps is not known",
        )
    on_cpu = facts.pid is not None and facts.gpu is None and not loop.turns.labelled
    hidden_s = sum(one.hidden_s for one in loop.epochs) if on_cpu else 0.0
    if hidden_s > ROUNDING_S:
        yield Doubt(
            "hidden_wait",
            f"{spell_seconds(hidden_s)} of waiting overlap with steps although the CPU computes them in the loop: "
            "the recorded order of events is inconsistent, and the stall is too small by that much",
        )
