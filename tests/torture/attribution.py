"""Random loader pipelines on paper: the parts sum to the stall, none is negative, and removing a cause agrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetrain.analysis.attribution import attribute
from edgetrain.analysis.breakdown import break_down
from tests.analysis.pipelines import BatchCost, record

FULL = 3000
CAUSES = ("blocked", "preprocess", "contention", "handover")
PLANTED = {"blocked": "blocked", "preprocess": "cpu", "contention": "queued"}


@dataclass(frozen=True)
class Drawn:
    """One pipeline, drawn at random."""

    costs: Any  # [minibatch, (blocked, cpu, queued, pickling)], µs
    workers: int
    prefetch: int
    step_us: int
    gpu_us: int

    def stall(self, gone: str | None = None) -> tuple[float, dict[str, float]]:
        """Return the stall without one cause, and how it is attributed; checks the laws."""

        def cost(batch: int) -> BatchCost:
            one = BatchCost(*self.costs[batch].tolist(), receiving=50)
            return one if gone is None else one.without(gone)

        columns, worker_columns = record(cost, len(self.costs), self.workers, self.step_us, self.prefetch, self.gpu_us)
        parts = break_down(columns)
        said = attribute(columns, worker_columns, parts.rows, parts.stall_s)
        by_cause = np.stack([getattr(said, f"{cause}_s") for cause in CAUSES])
        assert np.allclose(by_cause.sum(axis=0), parts.stall_s, atol=1e-9), "parts do not sum to the stall"
        assert np.all(by_cause >= 0), "a part is negative"
        assert said.verdict
        return float(parts.stall_s[1:].sum()), dict(zip(CAUSES, by_cause[:, 1:].sum(axis=1).tolist(), strict=True))


def draw(random: np.random.Generator) -> Drawn:
    """Draw a pipeline: anything from steady to wildly uneven costs."""
    means = random.dirichlet(np.ones(4)) * float(random.uniform(2_000, 60_000))
    costs = random.gamma(float(random.uniform(0.5, 20)), 1.0, (int(random.integers(40, 200)), 4))
    return Drawn(
        costs=(costs / costs.mean(axis=0) * means).astype(int),
        workers=int(random.integers(0, 5)),
        prefetch=int(random.integers(1, 5)),
        step_us=int(random.integers(500, 20_000)),
        gpu_us=int(random.integers(500, 20_000)) if random.random() < 0.5 else 0,
    )


def run(count: int, seed: int) -> str:
    """Attribute `count` random pipelines; compare each cause's part with what vanishes when it is removed."""
    random = np.random.default_rng(seed)
    off: list[float] = []
    for _ in range(count):
        drawn = draw(random)
        whole_s, parts = drawn.stall()
        planted_s = sum(parts[cause] for cause in PLANTED)
        if whole_s < 0.05 or planted_s < 0.1 * whole_s:
            continue
        vanished = {cause: max(0.0, whole_s - drawn.stall(name)[0]) for cause, name in PLANTED.items()}
        if sum(vanished.values()) > 0:
            off += [abs(parts[cause] / planted_s - vanished[cause] / sum(vanished.values())) for cause in PLANTED]
    assert off, "no pipeline had a stall to explain"
    median, most = float(np.median(off)), float(np.quantile(off, 0.95))
    # Few pipelines have a ragged tail: one in which removal overlaps much can be among them.
    assert median < 0.06 and most < (0.25 if count >= 200 else 0.5), (
        f"far from what vanishes: median {median:.3f}, 95th percentile {most:.3f}"
    )
    return (
        f"Attribution: {count} random pipelines (0 to 4 workers, prefetch 1 to 4, half with an accelerator that runs "
        f"behind); parts summed to the stall in each and none was negative; a cause's share of the stall differs from "
        f"what removing the cause saves by {100 * median:.1f} percentage points (median; 95 %: below "
        f"{100 * most:.1f})."
    )
