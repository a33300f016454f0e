"""What stands in a terminal is whole, however narrow the terminal is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from edgetrain.analysis import digest
from edgetrain.report.text import list_runs, show_run
from edgetrain.store import Store


def printed(renderable, width):
    out = io.StringIO()
    # A height too: without it rich takes any terminal called dumb for 80 columns.
    Console(file=out, width=width, height=25, force_terminal=True, color_system=None, highlight=False).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_number_of_a_run_is_cut(record, width):
    run = record(epochs=2, minibatches=40)
    document = digest(Store(record.store).open(run)).document()
    text = printed(show_run(document), width)
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    rows = [line.split() for line in text.splitlines() if line.split()[:2] in (["0", "40"], ["1", "40"])]
    assert [row[0] for row in rows] == ["0", "1"]
    for word in ("energy", "medium", "compute", "wait"):
        assert word in text


@pytest.mark.parametrize("width", [80, 160])
def test_ids_are_listed_whole(record, width):
    runs = [record(workload={"network": "n" * 32}, campaign="c" * 60), record()]
    text = printed(list_runs(Store(record.store).list()), width)
    assert all(run in text for run in runs)


def test_a_run_of_many_epochs_fits_a_screen_and_says_what_is_left_out(record):
    document = digest(Store(record.store).open(record(epochs=60, minibatches=4))).document()
    text = printed(show_run(document), 120)
    assert "48 epochs between these are left out" in text and len(text.splitlines()) < 50
    assert [line.split()[1] for line in text.splitlines() if line.startswith("epoch ") and "stalled" in line] == [
        *map(str, range(8)),
        *map(str, range(56, 60)),
    ]
