"""Figures for papers: vector files, the CSV beside each holds what is drawn, nothing is drawn of nothing."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from edgetrain import api
from edgetrain.analysis import summarize
from edgetrain.errors import UsageError
from edgetrain.record import FolderStore
from edgetrain.report.figures import (
    FigureKind,
    FigureRow,
    PaperFigure,
    SettingRun,
    campaign_figures,
    figure_csv,
    mode_figures,
    write_figures,
)
from tests.report.test_campaign_page import summaries
from tests.report.test_modes_page import cloud, table
from tests.summaries import make_epoch, make_summary


def test_a_campaign_has_stacked_bars_lines_violins_and_series_over_time(record) -> None:
    runs = []
    for workers in (1, 2):
        run = FolderStore(record.store).open(record(workers=workers, seed=workers, factors={"workers": workers}))
        runs.append(SettingRun(summarize(run), run))
    found = {figure.name: figure for figure in campaign_figures(runs)}
    assert {figure.kind for figure in found.values()} == set(FigureKind) - {FigureKind.SCATTER, FigureKind.INTERVALS}
    assert set(found) >= {"time-by-setting", "e2e-s-by-workers", "minibatches-by-setting", "power-over-time"}
    assert all("values are simulated" in figure.note for figure in found.values())
    energy = found["energy-by-setting"]
    assert all(row.low is not None and row.high is not None and row.low < row.high for row in energy.rows)


def test_the_parts_of_a_bar_add_up_to_the_mean_epoch() -> None:
    runs = summaries()
    stacked = campaign_figures([SettingRun(one) for one in runs])[0]
    total = sum(row.y for row in stacked.rows if row.x == "workers 1, storage hdd")
    assert total == pytest.approx(np.mean([10.0, 10.1]))


def test_the_csv_holds_what_is_drawn_and_no_empty_columns() -> None:
    rows = [FigureRow('a, "quoted"', 1.0, 2.5), FigureRow("b", "sd", 3.0)]
    figure = PaperFigure("f", FigureKind.LINES, "t", "x", "y", ("setting", "workers", "seconds"), rows)
    read = list(csv.reader(io.StringIO(figure_csv(figure))))
    assert read == [["setting", "workers", "seconds"], ['a, "quoted"', "1", "2.5"], ["b", "sd", "3"]]


def test_files_are_vectors_with_a_csv_and_captions_and_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [*campaign_figures([SettingRun(one) for one in summaries()]), *mode_figures(cloud(table()), "replayed")]
    for folder in ("a", "b"):
        files = write_figures(figures, tmp_path / folder)
    assert len(files) == 3 * len(figures) + 1
    for file in files:
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes(), file.name
    assert (tmp_path / "a" / "time-power.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (tmp_path / "a" / "time-by-setting.svg").read_bytes()
    assert "whiskers" in (tmp_path / "a" / "captions.txt").read_text()


def test_names_are_text_and_no_formula(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [
        make_summary(make_epoch(), make_epoch(1), run=f"r{workers}-{note}", factors={"workers": workers, "note": note})
        for workers in (0, 1)
        for note in (r"$\nothing$", "_b")
    ]
    files = write_figures(campaign_figures([SettingRun(one) for one in runs]), tmp_path, ("svg",))
    assert any(file.suffix == ".svg" for file in files)


def test_a_campaign_is_drawn_from_the_store(record, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for workers in (0, 1):
        record(workers=workers, seed=workers, campaign="grid-0123abcd", factors={"workers": workers})
    written = api.figures(["grid"], tmp_path / "out", record.store, ("svg",))
    assert "e2e-s-by-workers" in written.figures and (tmp_path / "out" / "e2e-s-by-workers.svg").is_file()
    with pytest.raises(UsageError, match="no format 'bmp'"):
        api.figures(["grid"], tmp_path, record.store, ("bmp",))
