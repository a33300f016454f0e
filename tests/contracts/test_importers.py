"""Every importer keeps the same promises: all is `replayed`, damage is listed, the source stays as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.documents import json_schema, to_document
from edgetrain.errors import EdgetrainError
from edgetrain.importers import Imported, import_path
from edgetrain.record import FolderStore, read_table
from edgetrain.schema import Origin
from tests.importers.test_import_tables import HEADER, ROWS
from tests.importers.test_import_tegrastats import stamped
from tests.torture.folders import write_folder


def write_bench(folder: Path) -> Path:
    place = folder / "mobnet" / "pm_4_883200_510000000_2133000000"
    write_folder(place, random.Random(1), stale=0)
    return place


def write_log(folder: Path) -> Path:
    path = folder / "tegrastats.log"
    path.write_text("\n".join(stamped(second) for second in range(30)) + "\n")
    return path


def write_modes(folder: Path) -> Path:
    path = folder / "orin_nano_resnet_train.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


# Each writes a source that its importer takes as it is, and names the file of it that is then damaged.
SOURCES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "edge-train-bench": (write_bench, "mn_nw4_pf2_epoch_stats.csv"),
    "tegrastats": (write_log, ""),
    "table of modes": (write_modes, ""),
}


@pytest.fixture(params=SOURCES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(case: str, tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return SOURCES[case][0](folder)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def files_of(source: Path) -> dict[Path, bytes]:
    paths = sorted(source.rglob("*")) if source.is_dir() else [source]
    return {path: path.read_bytes() for path in paths if path.is_file()}


def damage(case: str, source: Path) -> None:
    """Put a line that cannot be read into the middle of the source."""
    path = source / SOURCES[case][1] if SOURCES[case][1] else source
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"4,\xff\x00garbage,nonsense\n", *lines[2:]]))


def values_of(store: FolderStore, found: Imported) -> list[np.ndarray]:
    """Return everything that was read of the source, as columns."""
    if found.kind == "campaign":
        return list(read_table(store, found.id).columns.values())
    run = store.open(found.id)
    tables = [run.minibatches(), *run.probes.values()]
    return [table[name] for table in tables for name in table.names]


def test_it_is_replayed_names_its_source_and_has_no_problems(source: Path, store: FolderStore) -> None:
    (found,) = import_path(source, store)
    assert found.origin is Origin.REPLAYED and found.source == str(source) and found.problems == ()
    if found.kind == "campaign":
        assert read_table(store, found.id).about.origin is Origin.REPLAYED
    else:
        manifest = store.open(found.id).manifest
        assert (manifest.origin, manifest.state) == (Origin.REPLAYED, "finished")
        assert manifest.imported is not None and manifest.imported.source == str(source)
        assert summarize(store.open(found.id)).origin is Origin.REPLAYED


def test_the_source_is_read_and_never_changed(source: Path, store: FolderStore) -> None:
    before = files_of(source)
    list(import_path(source, store))
    assert files_of(source) == before


def test_the_same_source_gives_the_same_values_again(source: Path, tmp_path: Path) -> None:
    seen = []
    for name in ("one", "two"):
        store = FolderStore(tmp_path / name)
        (found,) = import_path(source, store)
        seen.append(values_of(store, found))
    assert len(seen[0]) == len(seen[1]) > 0
    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)


def test_damage_is_listed_and_the_rest_is_read(case: str, source: Path, store: FolderStore) -> None:
    (whole,) = import_path(source, store)
    damage(case, source)
    (found,) = import_path(source, store)
    assert found.problems and all(isinstance(problem, str) and problem for problem in found.problems)
    sizes = [max(len(column) for column in values_of(store, each)) for each in (whole, found)]
    assert sizes[1] >= sizes[0] - 2


def test_an_empty_source_is_refused_in_words_or_what_it_lacks_is_listed(source: Path, store: FolderStore) -> None:
    for path in files_of(source):
        path.write_bytes(b"")
    try:
        (found,) = import_path(source, store)
    except EdgetrainError as error:
        assert len(str(error)) > 20 and store.runs() == []
    else:  # a folder of a tree: the others must still be imported
        assert not found.minibatches and len(found.problems) > 2


def test_what_was_imported_is_a_document_with_a_schema(source: Path, store: FolderStore) -> None:
    (found,) = import_path(source, store)
    document = to_document(found)
    assert set(document) <= set(json_schema(Imported)["$defs"]["Imported"]["properties"])
    assert document["origin"] == "replayed"
