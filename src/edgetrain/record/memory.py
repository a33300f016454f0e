"""A store in memory: for demonstrations, for measuring on simulated boards, and for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from edgetrain.errors import StoreError
from edgetrain.inside.stream import now_us
from edgetrain.record.facts import Event, ProcessFacts, SamplerReport
from edgetrain.record.index import RunRow
from edgetrain.record.manifest import Manifest
from edgetrain.record.processes import join_processes, pid_in
from edgetrain.record.run import Run
from edgetrain.record.store import ColumnSpecs, live_runner, match_id, new_id
from edgetrain.record.table import ArrayTable, Table


@dataclass
class MemoryRows:
    """Rows of one stream."""

    columns: ColumnSpecs
    rows: list[tuple[float | int | None, ...]] = field(default_factory=list)
    failed: str | None = None

    def add(self, row: tuple[float | int | None, ...]) -> None:
        self.rows.append(row)

    def flush(self) -> None:
        """Nothing to write out."""

    def close(self) -> None:
        """Nothing to give back."""

    def table(self) -> Table:
        return ArrayTable.from_rows(self.columns, self.rows)


class MemoryWriter:
    """Writes one run of a MemoryStore."""

    def __init__(self, id: str, manifest: Manifest) -> None:
        self.id = id
        self.manifest = replace(manifest, run=id)
        self.streams: dict[str, MemoryRows] = {}
        self.events: list[Event] = []
        self.processes: dict[int, ProcessFacts] = {}
        self.sampler: SamplerReport | None = None

    def write_manifest(self, manifest: Manifest) -> None:
        self.manifest = replace(manifest, run=self.id)

    def write_process(self, facts: ProcessFacts, place: int = 0) -> None:
        self.processes[place] = facts

    def write_sampler(self, report: SamplerReport) -> None:
        self.sampler = report

    def stream(self, name: str, kind: str, columns: ColumnSpecs) -> MemoryRows:
        return self.streams.setdefault(name, MemoryRows(tuple(columns)))

    def event(self, kind: str, text: str, at_us: int | None = None, doubt: str | None = None) -> None:
        self.events.append(Event(kind, text, now_us() if at_us is None else at_us, doubt=doubt))

    def run(self, light: bool) -> Run:
        """Return the run as it is now."""

        def of(kind: str) -> dict[int, list[Table]]:
            found: dict[int, list[Table]] = {}
            for name in sorted(self.streams):
                if name.startswith(f"{kind}-"):
                    found.setdefault(pid_in(name), []).append(self.streams[name].table())
            return found

        facts = [self.processes[place] for place in sorted(self.processes)]
        processes = join_processes(facts, of("minibatches"), of("workers"))
        probes = {
            name.removeprefix("samples-"): rows.table()
            for name, rows in self.streams.items()
            if name.startswith("samples-") and rows.rows and not light
        }
        events = tuple(sorted(self.events, key=lambda event: event.at_us or 0))
        return Run(self.id, self.manifest, processes, probes, self.sampler, events)


class MemoryStore:
    """Keeps runs in memory; the same promises as a folder, without the files."""

    def __init__(self) -> None:
        self._writers: dict[str, MemoryWriter] = {}

    def create(self, manifest: Manifest) -> MemoryWriter:
        """Begin a run with a fresh id."""
        while (id := new_id(manifest)) in self._writers:
            continue
        self._writers[id] = MemoryWriter(id, manifest)
        return self._writers[id]

    def find(self, name: str) -> str:
        """Return the id of a run named by id, by the start or end of one, or as `last`."""
        return match_id(name, list(self._writers), "the store in memory")

    def open(self, name: str, light: bool = False) -> Run:
        """Read a run; `light` leaves out telemetry."""
        return self._writers[self.find(name)].run(light)

    def runs(self) -> list[RunRow]:
        """Return one row per run, oldest first."""
        return [RunRow.of(id, writer.manifest) for id, writer in self._writers.items()]

    def remove(self, name: str) -> str:
        """Delete a run; return its id."""
        id = self.find(name)
        if (runner := live_runner(self._writers[id].manifest)) is not None:
            raise StoreError(f"{id} is being recorded by process {runner.pid}; stop it first")
        del self._writers[id]
        return id
