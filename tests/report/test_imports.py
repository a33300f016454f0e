"""What was imported, for people: one line each, what was wrong in it, and what to do next."""

from __future__ import annotations

from edgetrain.importers import Imported
from edgetrain.report.imports import MAX_PROBLEMS, show_imports
from tests.report.printing import HOSTILE, assert_plain, printed


def imported(source: str = "/logs/pm_4", kind: str = "run", minibatches: int | None = 40, *problems: str) -> Imported:
    return Imported(source, kind, f"{kind}-id", None, minibatches, 120, problems)


def test_each_import_is_a_line_with_its_counts() -> None:
    text = printed(show_imports([imported(), imported("/logs/t.log", "run", None, "no stamps")]))
    lines = [line.split() for line in text.splitlines()]
    assert ["pm_4", "run", "run-id", "40", "120", "0"] in lines
    assert ["t.log", "run", "run-id", "–", "120", "1"] in lines
    assert "origin: replayed" in text and "next: edgetrain show run-id" in text
    assert "what was wrong in t.log" in text and "  no stamps" in text and "wrong in pm_4" not in text
    assert_plain(text)


def test_a_table_of_modes_leads_on_to_prediction() -> None:
    text = printed(show_imports([imported("/a/modes.csv", "campaign", None)]))
    assert "next: edgetrain predict table --profiled campaign-id" in text


def test_many_problems_are_cut_and_counted() -> None:
    problems = [f"problem {number}" for number in range(MAX_PROBLEMS + 3)]
    text = printed(show_imports([imported("/a", "run", 1, *problems)]))
    assert f"problem {MAX_PROBLEMS - 1}\n" in text and f"problem {MAX_PROBLEMS}\n" not in text
    assert "and 3 more; --json lists all" in text


def test_nothing_imported_is_an_empty_table() -> None:
    assert_plain(printed(show_imports([])))


def test_names_in_logs_are_plain_text() -> None:
    name = HOSTILE.replace("/", "|")  # of the file; a slash would begin another
    text = printed(show_imports([imported(f"/logs/{name}", "run", 1, HOSTILE)]), 400)
    assert_plain(text)
    assert text.count("[bold]x[|bold]") == 2 and text.count("[bold]x[/bold]") == 1
