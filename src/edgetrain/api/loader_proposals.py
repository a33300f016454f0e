"""Worker counts worth a trial first, as the pipeline model predicts them from the record of one trial."""

from __future__ import annotations

from collections.abc import Sequence

from edgetrain.api.what_if import whatif
from edgetrain.record import Run
from edgetrain.schema import LoaderArguments, LoaderMeasurement

AS_GOOD = 0.02  # fewer workers are proposed where they are predicted this close to the best
WORTH = 0.02  # a predicted gain below this is not worth a trial


def propose_workers(run: Run, start: LoaderMeasurement, most: int) -> Sequence[LoaderArguments]:
    """Return the arguments with the best predicted number of workers; nothing where none is predicted to be better."""
    answer = whatif(run, sweep=("workers", list(range(most + 1))))
    times = {int(row.changes["workers"] or 0): row.later.e2e_s.value for row in answer.settings}
    least_s = min(times.values())
    best = min(workers for workers, time_s in times.items() if time_s <= least_s * (1 + AS_GOOD))
    now = start.arguments
    if best == now.workers or times[best] > answer.base.later.e2e_s.value * (1 - WORTH):
        return ()
    if best == 0:
        return (LoaderArguments(0, None, now.pin_memory, False),)
    persistent = now.persistent if now.workers else start.passes > 0 and not start.made_anew
    return (LoaderArguments(best, now.prefetch or 2, now.pin_memory, persistent),)
