"""A CSV of repeated measurements on several units."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.analysis import read_unit_table, variability
from edgetrain.errors import UsageError


def test_rows_become_runs_and_rows_of_one_run_its_epochs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "unit,run,time_ms,energy_mj,software,hours,network\n"
        "a,1,100,500,36.4,0,lenet5\na,1,102,,36.4,0.5,lenet5\na,2,101,505,36.4,1,lenet5\nb,1,110,550,36.4,0,lenet5\n"
    )
    runs = read_unit_table(path)
    assert [(run.unit, len(run.epochs)) for run in runs] == [("a", 2), ("a", 1), ("b", 1)]
    assert runs[0].epochs[1].energy_j is None and runs[0].epochs[1].after_s == 1800.0
    (setting,) = variability(runs).settings
    assert setting.setting == {"network": "lenet5"} and setting.measures[0].units == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs the columns unit and time_ms"),
        ("unit,power\na,1\n", "needs the columns unit and time_ms"),
        ("unit,time_ms\n", "has no rows below"),
        ("unit,time_ms\na,fast\n", "line 2: time_ms must be a number above 0, not 'fast'"),
        ("unit,time_ms\na,1\nb,-3\n", "line 3"),
        ("unit,time_ms\na,nan\n", "line 2"),
        ("unit,time_ms\na\n", "line 2: it has another number of cells"),
        ("unit,time_ms\na,1,2\n", "line 2: it has another number of cells"),
        ("unit,time_ms\na,\n", "line 2: the time is missing"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_unit_table(path)
