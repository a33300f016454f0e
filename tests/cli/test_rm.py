"""`edgetrain rm` and `edgetrain prune`: what is deleted, what stays, and that nothing goes unasked."""

from __future__ import annotations

import io
import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from edgetrain.cli import main
from edgetrain.record import FolderStore, Manifest, RunnerFacts, WorkloadFacts


class Typed(io.StringIO):
    """A terminal at which somebody typed this."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # not a terminal
    return FolderStore(tmp_path / "store")


def make(store: FolderStore, days: float = 0.0, **manifest: Any) -> str:
    """Make a run that started some days ago; return its id."""
    started = datetime.now(timezone.utc) - timedelta(days=days)
    known = {"state": "finished", "workload": WorkloadFacts(network="lenet5"), "started_wall": started.isoformat()}
    return store.create(Manifest(**(known | manifest))).id


def ids(store: FolderStore) -> list[str]:
    return [row.run for row in store.runs()]


def pruned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["prune", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_rm_deletes_the_runs_it_is_given_and_no_others(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = (make(store) for _ in range(3))
    assert main(["rm", first, third[-4:], first]) == 0
    assert ids(store) == [second] and not (store.runs_folder / first).exists()
    caught = capsys.readouterr()
    assert caught.out == "" and caught.err.count("deleted") == 2


def test_rm_deletes_nothing_where_one_of_the_names_is_wrong(
    store: FolderStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(store)
    assert main(["rm", run, "nosuch"]) == 1
    assert ids(store) == [run] and "nosuch" in capsys.readouterr().err


def test_rm_shows_what_it_would_delete(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(store)
    assert main(["rm", "last", "--dry-run"]) == 0
    assert ids(store) == [run] and f"would delete {run}" in capsys.readouterr().err


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_rm_refuses_a_run_that_is_being_recorded(
    store: FolderStore, capsys: pytest.CaptureFixture[str], dry: list[str]
) -> None:
    run = make(store, state="running", runner=RunnerFacts(os.getpid()))
    assert main(["rm", run, *dry]) == 1
    assert ids(store) == [run] and f"process {os.getpid()}" in capsys.readouterr().err


def test_rm_refuses_a_folder_outside_the_store(
    store: FolderStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(store)
    other = FolderStore(tmp_path / "other")
    run = make(other)
    assert main(["rm", str(other.locate(run))]) == 2
    (store.runs_folder / "link").symlink_to(other.locate(run))
    assert main(["rm", "link"]) == 2
    assert ids(other) == [run] and capsys.readouterr().err.count("not a run of the store") == 2


def test_prune_needs_a_condition(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(store)
    assert main(["prune", "--yes"]) == 2
    assert ids(store) == [run] and "--older-than" in capsys.readouterr().err


def test_prune_refuses_a_state_that_no_run_has(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "--store", str(store.path), "--state", "fail", "--yes"]) == 2
    assert "finished, failed, interrupted" in capsys.readouterr().err


def test_prune_deletes_the_runs_that_fit_every_condition(
    store: FolderStore, capsys: pytest.CaptureFixture[str]
) -> None:
    old_failed, old = make(store, 40, state="failed"), make(store, 40)
    new_failed = make(store, 1, state="failed")
    found = pruned(capsys, "--older-than", "30d", "--state", "failed", "--yes")
    assert (found["runs"], found["dry_run"], found["schema"]) == ([old_failed], False, "edgetrain/1")
    assert found["freed_bytes"] > 0
    assert ids(store) == [old, new_failed]


@pytest.mark.parametrize(
    ("older_than", "left"), [("2w", 2), ("14d", 2), ("100h", 1), ("0.5d", 1), ("60min", 1), ("9s", 0)]
)
def test_an_age_is_written_with_its_unit(
    store: FolderStore, capsys: pytest.CaptureFixture[str], older_than: str, left: int
) -> None:
    make(store, 5)
    make(store, 10 / 86400)
    pruned(capsys, "--older-than", older_than, "--yes")
    assert len(ids(store)) == left


@pytest.mark.parametrize("older_than", ["soon", "3", "-1d", "1y", "nan d", ""])
def test_an_age_that_cannot_be_read_deletes_nothing(
    store: FolderStore, capsys: pytest.CaptureFixture[str], older_than: str
) -> None:
    make(store, 400)
    assert main(["prune", "--older-than", older_than, "--yes"]) == 2
    assert len(ids(store)) == 1 and "30d" in capsys.readouterr().err


def test_a_run_without_a_start_is_as_old_as_its_id_says(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    make(store, started_wall=None)
    damaged = make(store)
    (store.locate(damaged) / "manifest.json").write_text("{")
    os.rename(store.locate(damaged), store.runs_folder / "20200101-000000-old-abcd")
    (store.runs_folder / "no date at all").mkdir()
    found = pruned(capsys, "--older-than", "1d", "--yes")
    assert found["runs"] == ["20200101-000000-old-abcd"]


@pytest.mark.parametrize(("keep", "left"), [(0, 0), (1, 1), (3, 3), (5, 3)])
def test_prune_keeps_the_newest(store: FolderStore, capsys: pytest.CaptureFixture[str], keep: int, left: int) -> None:
    runs = [make(store, state="failed") for _ in range(3)]
    found = pruned(capsys, "--state", "failed", "--keep", str(keep), "--yes")
    assert ids(store) == runs[3 - left :] and found["runs"] == runs[: 3 - left]


def test_prune_finds_a_campaign_by_its_id_and_by_its_plans_name(
    store: FolderStore, capsys: pytest.CaptureFixture[str]
) -> None:
    make(store, campaign="grid-0123abcd")
    again, other = make(store, campaign="grid-0123abcd-2"), make(store, campaign="grid-two-0123abcd")
    assert len(pruned(capsys, "--campaign", "grid-0123abcd", "--yes")["runs"]) == 1
    assert pruned(capsys, "--campaign", "grid", "--yes")["runs"] == [again]
    assert ids(store) == [other]


def test_a_dry_run_shows_the_same_runs_and_deletes_none(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make(store, 3), make(store, 2), make(store, state="running", days=2, runner=RunnerFacts(os.getpid()))]
    dry = pruned(capsys, "--older-than", "1d", "--dry-run")
    assert (dry["dry_run"], dry["runs"], dry["being_recorded"]) == (True, runs[:2], runs[2:])
    assert ids(store) == runs
    done = pruned(capsys, "--older-than", "1d", "--yes")
    assert {**done, "dry_run": True} == dry
    assert ids(store) == runs[2:]


def test_without_a_terminal_nothing_is_deleted_unasked(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(store, 3)
    assert main(["prune", "--older-than", "1d"]) == 2
    caught = capsys.readouterr()
    assert ids(store) == [run] and "--yes" in caught.err and caught.out == ""


@pytest.mark.parametrize(("answer", "status", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1)])
def test_at_a_terminal_it_asks_first(
    store: FolderStore,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: int,
    left: int,
) -> None:
    make(store, 3)
    monkeypatch.setattr(sys, "stdin", Typed(answer))
    assert main(["prune", "--older-than", "1d"]) == status
    assert len(ids(store)) == left
    assert ("nothing was deleted" in capsys.readouterr().err) == (left == 1)


def test_nothing_to_delete_is_no_error(store: FolderStore, capsys: pytest.CaptureFixture[str]) -> None:
    make(store)
    assert main(["prune", "--state", "failed"]) == 0
    caught = capsys.readouterr()
    assert caught.out == "" and "0 runs deleted" in caught.err
