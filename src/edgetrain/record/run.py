"""A run as it is read back: what was observed, as tables and typed facts; everything else is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgetrain.record.facts import Event, ProcessFacts, SamplerReport
from edgetrain.record.manifest import Manifest
from edgetrain.record.table import ArrayTable, Table

TRAINED_PHASES = (1, 4)  # of the column `phase`: a backward pass or step was seen, in training or evaluation mode


@dataclass(frozen=True)
class Process:
    """One training process of a run: what it knew of itself, and its minibatches."""

    facts: ProcessFacts = field(default_factory=ProcessFacts)
    minibatches: Table = field(default_factory=ArrayTable)
    workers: Table = field(default_factory=ArrayTable)  # of its loader workers, one row per minibatch

    @property
    def trained(self) -> bool:
        """Whether a backward pass or an optimizer step was recorded; a record without phases has training only."""
        rows = self.minibatches
        return bool(len(rows)) and ("phase" not in rows or bool(np.isin(rows.once("phase"), TRAINED_PHASES).any()))


@dataclass(frozen=True)
class Run:
    """One execution of an experiment, with all it recorded.

    Instants are int64 microseconds on the run's monotonic clock (`*_us`); an instant that was not observed is -1, a
    reading that was not taken is NaN. `lost` names what could not be read back.
    """

    id: str
    manifest: Manifest
    processes: tuple[Process, ...] = ()
    probes: Mapping[str, Table] = field(default_factory=dict)  # samples, by the probe's name
    sampler: SamplerReport | None = None
    events: tuple[Event, ...] = ()
    lost: tuple[str, ...] = ()
    path: Path | None = None  # None: the run is in memory only

    @property
    def training(self) -> tuple[Process, ...]:
        """The processes that trained: not those that only iterated a loader, for statistics or to fill a cache.

        All of them where none is known to have trained.
        """
        if len(self.processes) < 2:
            return self.processes
        return tuple(process for process in self.processes if process.trained) or self.processes

    @property
    def main(self) -> Process:
        """The training process with the most minibatches; of several equal ones the first."""
        return max(self.training, key=lambda process: len(process.minibatches), default=Process())

    def minibatches(self) -> Table:
        """Return one row per batch that a loader of the main process delivered; columns as in docs/format.md.

        `run.main.minibatches` has the rows without one too: ends of passes, and steps of loops without a loader.
        """
        rows = self.main.minibatches
        if "batch" not in rows:
            return rows
        delivered = rows["batch"] >= 0
        return rows if delivered.all() else rows.take(delivered)

    def workers(self) -> Table:
        """Return one row per minibatch made by a loader worker of the main process."""
        return self.main.workers

    def samples(self, probe: str) -> Table:
        """Return the telemetry of one probe; a table without columns where it recorded nothing."""
        return self.probes.get(probe) or ArrayTable()
