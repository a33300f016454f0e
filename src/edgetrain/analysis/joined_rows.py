"""The minibatches of a run beside what its workers recorded of them, as plain columns in seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.loop import TrainingLoop
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.services import join
from edgetrain.record import Table
from edgetrain.units import S_PER_US

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RecordedRows:
    """One row per training minibatch, in order. Seconds; NaN where nothing was recorded."""

    parts: Parts
    epoch: NDArray[np.int64]
    samples: Floats
    asked_s: Floats
    ready_s: Floats
    copying_s: Floats
    launched_s: Floats
    done_s: Floats
    loop_cpu_s: Floats  # of the loop's thread between asked and ready
    loop_queued_s: Floats
    worker: Floats
    began_s: Floats
    fetched_s: Floats
    pickled_s: Floats
    cpu_s: Floats
    helpers_s: Floats
    queued_s: Floats
    stolen_s: Floats
    collate_s: Floats
    ship_cpu_s: Floats
    read_bytes: Floats
    fetches: Ints  # how often a loader was asked for each; the step of a second optimizer begins without

    def __len__(self) -> int:
        return len(self.epoch)

    def since(self, epoch: int) -> RecordedRows:
        """Return the rows from an epoch on."""
        start = int(np.argmax(self.epoch == epoch))
        columns = {one.name: getattr(self, one.name)[start:] for one in fields(self) if one.name != "parts"}
        return RecordedRows(parts=self.parts.take(slice(start, None)), **columns)

    @property
    def fetch_s(self) -> Floats:
        """Duration of each fetch."""
        return self.fetched_s - self.began_s

    @property
    def blocked_s(self) -> Floats:
        """Of each fetch, the time in which it neither computed nor waited for a core; NaN where that is not known."""
        helpers_s = np.where(self.own, np.nan_to_num(self.helpers_s), 0.0)
        rest_s = self.fetch_s - self.cpu_s - helpers_s - np.nan_to_num(self.queued_s) - np.nan_to_num(self.stolen_s)
        return np.maximum(rest_s, 0.0)

    @property
    def own(self) -> Bools:
        """Whether the loop fetched by itself."""
        return np.isnan(self.worker)


def recorded_rows(loop: TrainingLoop) -> RecordedRows:
    """Join minibatches and fetches of one training process; of several fetches per minibatch, the first one."""
    minibatches, workers, parts = loop.process.minibatches, loop.process.workers, loop.parts
    rows = parts.rows
    place, known = join(minibatches, workers, rows) if len(rows) and len(workers) else (rows, None)

    def main(name: str, scale: float = 1.0) -> Floats:
        return _column(minibatches, name, rows, None, scale)

    def made(name: str, scale: float = 1.0) -> Floats:
        if known is None:
            return np.full(len(rows), np.nan)
        return _column(workers, name, place, known, scale)

    return RecordedRows(
        parts=parts,
        epoch=parts.epoch,
        samples=main("samples"),
        asked_s=main("asked_us", S_PER_US),
        ready_s=main("ready_us", S_PER_US),
        copying_s=main("copying_us", S_PER_US),
        launched_s=main("launched_us", S_PER_US),
        done_s=np.asarray(parts.done_us * S_PER_US, np.float64),
        loop_cpu_s=main("cpu_us", S_PER_US),
        loop_queued_s=main("queued_us", S_PER_US),
        worker=made("worker"),
        began_s=made("began_us", S_PER_US),
        fetched_s=made("fetched_us", S_PER_US),
        pickled_s=made("pickled_us", S_PER_US),
        cpu_s=made("cpu_us", S_PER_US),
        helpers_s=made("helpers_us", S_PER_US),
        queued_s=made("queued_us", S_PER_US),
        stolen_s=made("stolen_us", S_PER_US),
        collate_s=made("collate_us", S_PER_US),
        ship_cpu_s=made("feeder_cpu_us", S_PER_US),
        read_bytes=made("read_bytes"),
        fetches=_fetches(minibatches, parts),
    )


def _fetches(minibatches: Table, parts: Parts) -> Ints:
    """Return how often a loader was asked for each minibatch."""
    turn = np.arange(len(parts)) if parts.wait_turn is None else parts.wait_turn
    asked = minibatches["loader"][parts.wait_rows] >= 0 if len(parts) else np.zeros(0, bool)
    return np.asarray(np.bincount(turn[asked], minlength=len(parts)), np.int64)


def _column(table: Table, name: str, rows: NDArray[np.int64], known: Bools | None, scale: float) -> Floats:
    found = table.get(name)
    if found is None:
        return np.full(len(rows), np.nan)
    values = found[rows]
    seen = values >= 0 if known is None else (values >= 0) & known
    return np.where(seen, values * scale, np.nan)
