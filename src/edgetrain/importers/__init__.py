"""Turns other people's logs into runs and campaigns of the store, and lists what was wrong in them.

    import_path(path, store)    an edge-train-bench folder (or a tree of them), a tegrastats log, a CSV of modes
    read_modes(path)            a CSV of modes, as columns; the reader that `predict` and `recommend` use too

Everything imported is `replayed`. Nothing is dropped silently: each import lists its problems.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetrain.errors import BadTable, UsageError
from edgetrain.importers.base import Imported, parse_window, write_run
from edgetrain.importers.edge_train_bench import is_run_folder, read_folder
from edgetrain.importers.mode_reader import ModeColumns, ResultCells, UnusableRow, parse_modes, read_modes
from edgetrain.importers.mode_table import import_table, looks_like_table
from edgetrain.importers.mode_units import ANY_BOARD, PowerRange
from edgetrain.importers.tegrastats import is_log, read_log
from edgetrain.record import FolderStore

__all__ = [
    "ANY_BOARD",
    "Imported",
    "ModeColumns",
    "PowerRange",
    "ResultCells",
    "UnusableRow",
    "import_path",
    "parse_modes",
    "read_modes",
]

MAX_FOLDERS = 20_000  # below one path; more is somebody's home directory


def import_path(
    path: Path,
    store: FolderStore,
    window: str | None = None,
    interval_s: float | None = None,
    about: Mapping[str, str | None] | None = None,
    power: PowerRange = ANY_BOARD,
) -> Iterator[Imported]:
    """Import what lies at `path`, one run or campaign at a time; raise UsageError where nothing of it is known."""
    steady = parse_window(window)
    if not path.exists():
        raise UsageError(f"there is no {path}")
    if path.is_dir():
        folders = [folder for folder in _folders(path) if is_run_folder(folder)]
        if not folders:
            raise BadTable(
                f"{path} holds no folder with the logs of a run (…_fetch.csv, …_compute.csv, …_epoch_stats.csv); "
                "give the file itself for a tegrastats log or a CSV table of modes"
            )
        for folder in folders:
            draft = read_folder(folder)
            wanted = steady
            if steady is not None and len(folders) > 1 and steady.first >= len(draft.minibatches):
                # One short run must not end the import of a whole tree.
                draft.problems.add(
                    folder.name, f"ends before the window {window} begins; the steady state is detected instead"
                )
                wanted = None
            yield write_run(store, draft, wanted)
    elif looks_like_table(path):
        yield import_table(path, store, about or {}, power)
    elif is_log(path):
        if steady is not None:
            raise UsageError(
                f"{path} is a tegrastats log: it has no minibatches, so --window does not apply; leave it out"
            )
        yield write_run(store, read_log(path, interval_s), None)
    else:
        raise BadTable(
            f"{path} is neither a tegrastats log nor a CSV table of modes (its first line would name cores, cpu_khz, "
            "gpu_hz, emc_hz, time_ms, power_mw); for logs of edge-train-bench give the folder"
        )


def _folders(path: Path) -> Iterator[Path]:
    for count, (folder, inner, _) in enumerate(os.walk(path)):
        inner.sort()
        if count > MAX_FOLDERS:
            raise UsageError(f"{path} holds more than {MAX_FOLDERS} folders; give one nearer to the logs")
        yield Path(folder)
