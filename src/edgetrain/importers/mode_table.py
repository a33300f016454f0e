"""Imports a CSV table of power modes as one campaign with one row file; unusable rows are kept beside it."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetrain.importers.base import Imported, Problems
from edgetrain.importers.mode_reader import ModeColumns, read_modes
from edgetrain.importers.mode_units import ANY_BOARD, PowerRange
from edgetrain.record import DeviceFacts, FolderStore, ImportFacts, TableFacts, WorkloadFacts, write_table

_HEAD_BYTES = 4096


def looks_like_table(path: Path) -> bool:
    """Return whether a file's first line names cores and clocks."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return False
    first = next((line for line in head.splitlines() if line.strip()), "")
    try:
        names = {name.strip().lower() for name in next(csv.reader([first]), [])}
    except csv.Error:
        return False
    return "cores" in names and any(re.fullmatch(r"cpu_[kmg]?hz", name) for name in names)


def import_table(
    path: Path, store: FolderStore, about: Mapping[str, str | None], power: PowerRange = ANY_BOARD
) -> Imported:
    """Read a table and write it as a campaign; `about` may name device and network."""
    problems = Problems()
    found = read_modes(path, power, "where given")
    for note in found.notes:
        problems.add(path.name, note)
    for column in found.unknown:
        problems.add(path.name, f"the column {column[:40]!r} is not one that is known here; kept where it is a number")
    for row in found.unusable:
        problems.add(path.name, f"a row was left out: {row.reason}", _where(row.line, row.detail))
    subject = _subject(path, about, problems)
    listed = tuple(problems.listed())
    facts = TableFacts(
        device=DeviceFacts(subject.device or "unknown"),
        workload=WorkloadFacts(subject.network, phase=subject.phase),
        imported=ImportFacts(str(path), problems=listed),
    )
    left_out = [(row.line, str(row), row.cells) for row in found.unusable]
    table = write_table(store, path.stem, facts, _rows(found), left_out)
    return Imported(str(path), "campaign", table.id, str(table.path), None, len(found), listed)


def _where(line: int, detail: str) -> str:
    return f"line {line}: {detail}" if detail else f"line {line}"


def _rows(found: ModeColumns) -> list[dict[str, float]]:
    """Return the rows with the cells that are known."""
    columns = {name: column.tolist() for name, column in found.columns.items()}
    return [
        {name: column[row] for name, column in columns.items() if column[row] == column[row]}
        for row in range(len(found))
    ]


@dataclass(frozen=True, slots=True)
class _Subject:
    device: str | None
    network: str | None
    phase: str


_DEVICE_WORDS = (
    ("orin_agx", "orin-agx"), ("orin_nano", "orin-nano"), ("orin_nx", "orin-nx"), ("thor", "thor"),
    ("xavier_agx", "xavier-agx"), ("agx_xavier", "xavier-agx"), ("xavier_nx", "xavier-nx"), ("nano", "nano"),
)  # fmt: skip
_NETWORK_WORDS = (
    ("mobnet", "mobilenet_v3"), ("mobilenet", "mobilenet_v3"), ("resnet", "resnet18"), ("lstm", "lstm"),
    ("lenet", "lenet5"), ("vgg", "vgg11"),
)  # fmt: skip


def _subject(path: Path, about: Mapping[str, str | None], problems: Problems) -> _Subject:
    """Return which device and network a table is about: as given, else by the file's name."""
    stem = path.stem.lower().replace("-", "_")
    device = about.get("device") or next((key for word, key in _DEVICE_WORDS if word in stem), None)
    network = about.get("network") or next((name for word, name in _NETWORK_WORDS if word in stem), None)
    for what, value, option in (("device", device, "--device"), ("network", network, "--network")):
        if value is None:
            problems.add(path.name, f"does not say which {what} it is about; name it with {option}")
    return _Subject(device, network, "infer" if "infer" in stem else "train")
