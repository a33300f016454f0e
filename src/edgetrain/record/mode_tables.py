"""Campaigns that are one table: the measured power modes of one workload on one device, as columns.

    campaigns/<id>/campaign.json    device, workload, origin, where it is from, what was wrong in it
    campaigns/<id>/modes.csv        one row per mode: cores, cpu_hz, gpu_hz, emc_hz, …, time_s, power_w
    campaigns/<id>/left_out.csv     rows of the source that cannot be used, with the reason

`predict` and `recommend` load one by name (`--profiled CAMPAIGN`) or by the path of its folder.
"""

from __future__ import annotations

import csv
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetrain.documents import to_document
from edgetrain.errors import StoreError
from edgetrain.inside.stream import write_json
from edgetrain.record.manifest import DeviceFacts, ImportFacts, WorkloadFacts
from edgetrain.record.reader import read_facts
from edgetrain.record.store import FolderStore
from edgetrain.schema import SCHEMA, ModeMeasurement, Origin, PowerMode

MODE_COLUMNS = ("cores", "cpu_hz", "gpu_hz", "emc_hz")


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table of modes is about, where it comes from, and what was wrong in it."""

    schema: str = SCHEMA
    campaign: str | None = None  # its id
    kind: str = "table"
    rows: int | None = None
    state: str = "finished"
    origin: Origin = Origin.REPLAYED
    device: DeviceFacts = field(default_factory=DeviceFacts)
    workload: WorkloadFacts = field(default_factory=WorkloadFacts)
    imported: ImportFacts | None = None


@dataclass(frozen=True)
class CampaignTable:
    """One campaign's table of modes. Hertz, seconds, watts; NaN where a cell was empty."""

    id: str
    path: Path
    about: TableFacts
    columns: Mapping[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.columns["cores"])

    @property
    def modes_csv(self) -> Path:
        """The row file, which the predictors read as any other table of modes."""
        return self.path / "modes.csv"

    def measurements(self) -> list[ModeMeasurement]:
        """Return the rows that have both time and power, as measurements."""
        found = []
        for row in range(len(self)):
            cells = {name: float(column[row]) for name, column in self.columns.items()}
            if not (np.isfinite(cells.get("time_s", np.nan)) and np.isfinite(cells.get("power_w", np.nan))):
                continue
            mean = cells.get("time_mean_s", np.nan)
            clocks = (cells.get(name, np.nan) for name in ("gpu_hz", "emc_hz"))
            gpu_hz, emc_hz = (int(clock) if np.isfinite(clock) else None for clock in clocks)
            mode = PowerMode(int(cells["cores"]), int(cells["cpu_hz"]), gpu_hz, emc_hz)
            mean_s = mean if np.isfinite(mean) else None
            found.append(ModeMeasurement(mode, cells["time_s"], cells["power_w"], self.about.origin, mean_s))
        return found


def write_table(
    store: FolderStore,
    label: str,
    about: TableFacts,
    rows: Sequence[Mapping[str, float]],
    left_out: Sequence[tuple[int, str, Sequence[str]]] = (),
) -> CampaignTable:
    """Write a table as a campaign of the store; `left_out` holds (line, reason, cells)."""
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", label).strip("-.")[:48] or "table"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        path = store.campaigns / f"{stem}-{secrets.token_hex(2)}"
        path.mkdir(parents=True)
        with (path / "modes.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
        if left_out:
            with (path / "left_out.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["line", "reason", "cells"])
                writer.writerows([line, reason, *cells] for line, reason, cells in left_out)
        facts = replace(about, campaign=path.name, rows=len(rows))
        write_json(str(path / "campaign.json"), to_document(facts))
    except OSError as error:
        raise StoreError(
            f"cannot write to the store {store.path} ({error.strerror or error}); "
            "choose another with --store or EDGETRAIN_STORE"
        ) from error
    return read_table(store, path.name)


def _cell(value: float | None) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.0f}" if value == int(value) else repr(float(value))


def tables(store: FolderStore) -> list[TableFacts]:
    """Return what is known about every table in the store."""
    found = [read_facts(file, TableFacts, []) for file in sorted(store.campaigns.glob("*/campaign.json"))]
    return [about for about in found if about is not None and about.kind == "table"]


def read_table(store: FolderStore, name: str) -> CampaignTable:
    """Read a campaign's table by id, by the start of one, or by the path of its folder."""
    path = Path(name)
    if not (path / "modes.csv").is_file():
        known = sorted(file.parent.name for file in store.campaigns.glob("*/modes.csv"))
        hits = [each for each in known if each == name] or [each for each in known if each.startswith(name)]
        if len(hits) != 1:
            what = f"fits {len(hits)} campaigns" if hits else "is no campaign with a table of modes"
            listed = ", ".join((hits or known)[:6]) or "none yet; make one with: edgetrain import modes.csv"
            raise StoreError(f"{name!r} {what} in {store.path}; there are: {listed}")
        path = store.campaigns / hits[0]
    about = read_facts(path / "campaign.json", TableFacts, []) or TableFacts()
    try:
        with (path / "modes.csv").open(newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows], float)
    except (OSError, ValueError, csv.Error) as error:
        raise StoreError(f"{path / 'modes.csv'} cannot be read: {error}") from error
    table = table.reshape(len(rows), len(header))
    return CampaignTable(path.name, path, about, {column: table[:, place] for place, column in enumerate(header)})
