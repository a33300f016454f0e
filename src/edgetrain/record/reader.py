"""Reads one run directory, however it was left; what could not be read is named in `Run.lost`."""

from __future__ import annotations

import re
import stat
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from edgetrain.documents import DocumentError, from_document, from_document_leniently, read_json
from edgetrain.errors import StoreError
from edgetrain.record.decoder import Stream, read_stream
from edgetrain.record.facts import Event, ProcessFacts, SamplerReport
from edgetrain.record.manifest import Manifest
from edgetrain.record.processes import join_processes, pid_in
from edgetrain.record.run import Run
from edgetrain.record.table import Table
from edgetrain.schema import SCHEMA, Origin

MANIFEST, SAMPLER = "manifest.json", "sampler.json"
MAX_JSON_BYTES = 64 << 20  # a larger JSON file was not written by edgetrain
UNKNOWN_ORIGIN = Origin.SIMULATED  # the weakest a run can have: nothing is called measured that may not have been
T = TypeVar("T")


def read_run(path: Path, light: bool = False) -> Run:
    """Read a run; `light` leaves telemetry out."""
    lost: list[str] = []
    manifest = read_manifest(path, lost)
    facts = _process_facts(path, lost)
    minibatches, workers = _by_process(path, "minibatches", lost), _by_process(path, "workers", lost)
    processes = join_processes(facts, minibatches, workers)
    probes = {} if light else _probes(path, lost)
    sampler = read_facts(path / SAMPLER, SamplerReport, lost)
    return Run(manifest.run or path.name, manifest, processes, probes, sampler, _events(path, lost), tuple(lost), path)


def read_manifest(path: Path, lost: list[str]) -> Manifest:
    """Read the manifest of a run directory; a field that cannot be read keeps its default and is named in `lost`."""
    document = _document(path / MANIFEST)
    if document is None:
        lost.append("the manifest is missing or damaged: settings are not known")
        return Manifest(run=path.name, origin=UNKNOWN_ORIGIN)
    if document.get("schema") not in (None, SCHEMA):
        lost.append(f"the manifest is of version {document['schema']!r}; this edgetrain reads {SCHEMA}")
    problems: list[str] = []
    manifest = from_document_leniently(Manifest, document, problems)
    lost += [f"manifest: {problem}" for problem in problems]
    if any(problem.startswith("origin ") for problem in problems):
        manifest = replace(manifest, origin=UNKNOWN_ORIGIN)
    return manifest


def _document(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where it is absent or damaged."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_JSON_BYTES:
            return None
        document = read_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def read_facts(path: Path, kind: type[T], lost: list[str]) -> T | None:
    """Read a JSON file of facts; None where it is absent or damaged, defaults for fields that cannot be read."""
    document = _document(path)
    if document is None:
        return None
    problems: list[str] = []
    facts = from_document_leniently(kind, document, problems)
    lost += [f"{path.name}: {problem}" for problem in problems]
    return facts


def _process_facts(path: Path, lost: list[str]) -> list[ProcessFacts]:
    """Return the facts of each training process, in the order they began."""

    def place(file: Path) -> int:
        number = re.fullmatch(r"inside-(\d+)", file.stem)
        return int(number[1]) if number else 0

    files = sorted([*path.glob("inside.json"), *path.glob("inside-*.json")], key=place)
    read = [read_facts(file, ProcessFacts, lost) for file in files]
    return [facts for facts in read if facts is not None]


def _by_process(path: Path, kind: str, lost: list[str]) -> defaultdict[int, list[Table]]:
    found: defaultdict[int, list[Table]] = defaultdict(list)
    for file in sorted(path.glob(f"{kind}-*.ets")):
        read = _stream(file, lost)
        if read is not None:
            pid = read.main_pid if read.main_pid is not None else pid_in(file.stem)
            found[pid].append(read.table)
    return found


def _probes(path: Path, lost: list[str]) -> dict[str, Table]:
    probes: dict[str, Table] = {}
    for file in sorted(path.glob("samples-*.ets")):
        read = _stream(file, lost)
        if read is not None and len(read.table):
            probes[file.stem.removeprefix("samples-")] = read.table
    return probes


def _stream(file: Path, lost: list[str]) -> Stream | None:
    try:
        stream = read_stream(file)
    except (StoreError, OSError, ValueError) as error:
        lost.append(str(error))
        return None
    if stream.skipped_bytes:
        lost.append(f"{file.name}: {stream.skipped_bytes} bytes could not be read")
    return stream


def _events(path: Path, lost: list[str]) -> tuple[Event, ...]:
    events: list[Event] = []
    for file in sorted(path.glob("events-*.jsonl")):
        try:
            lines = file.read_bytes().splitlines()
        except OSError as error:
            lost.append(f"{file.name}: {error.strerror}")
            continue
        broken = 0
        for line in lines:
            try:
                events.append(from_document(Event, read_json(line)))
            except (ValueError, DocumentError):
                broken += 1
        if broken:
            lost.append(f"{file.name}: {broken} damaged lines")
    return tuple(sorted(events, key=lambda event: event.at_us or 0))
