"""Profiles training scripts of every shape and compares with their own stopwatches."""

import random

from tests.loops.shapes import SHAPES, run_shape

FULL = len(SHAPES)


def run(count: int = FULL, seed: int = 0) -> str:
    """Profile `count` of the shapes; every one must agree with its own stopwatch, at the second try at the latest."""
    drawn = SHAPES if count >= FULL else random.Random(seed).sample(SHAPES, count)
    missing = [shape.name for shape in drawn if shape.missing()]
    wrong, again = [], 0
    for shape in drawn:
        if shape.name in missing:
            continue
        outcome = run_shape(shape)
        if outcome.faults:
            again += 1
            outcome = run_shape(shape)
        if outcome.faults:
            wrong.append(f"{shape.name}: {'; '.join(outcome.faults)}")
    assert not wrong, "\n".join(wrong)
    left_out = f"; not installed here, so left out: {', '.join(missing)}" if missing else ""
    return (
        f"{len(drawn) - len(missing)} shapes of training loops: minibatches counted exactly, loop time and waiting "
        f"within 5 % (or 10 ms per epoch) of each script's own stopwatch, {again} of them at the second try{left_out}."
    )
