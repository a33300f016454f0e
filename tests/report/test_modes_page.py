"""The page of power modes: every mode, the frontier, limits, and how wrong predictions of a known table are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetrain.prediction import ModeTable, Predictions, bounds
from edgetrain.report.page import HeldOut, ModeCloud, ModesContent, modes_page
from edgetrain.report.page.mode_plots import MAX_CLOUD, scatter
from edgetrain.schema import Origin
from tests.report.test_page import Page, outside


def table(count: int = 60) -> ModeTable:
    clock = np.linspace(3e8, 1.3e9, count)
    time_s, power_w = 5e7 / clock, 8 + 3e-8 * clock
    cores = np.full(count, 4.0)
    return ModeTable(cores, np.full(count, 1.5e9), clock, np.full(count, np.nan), time_s=time_s, power_w=power_w)


def cloud(modes: ModeTable, **more) -> ModeCloud:
    assert modes.time_s is not None and modes.power_w is not None
    return ModeCloud(modes, modes.time_s, modes.power_w, modes.time_s * modes.power_w, **more)


def predictions(modes: ModeTable, off: float = 1.0) -> Predictions:
    assert modes.time_s is not None and modes.power_w is not None
    spread = np.full(len(modes), 0.03)
    inside = np.zeros(len(modes), bool)
    return Predictions(off * modes.time_s, None, modes.power_w, spread, spread, 0.0, 30.0, inside)


def test_every_mode_the_frontier_and_stock_modes_are_shown() -> None:
    content = ModesContent("t", "orin-agx", Origin.REPLAYED, cloud(table(), stock={"MAXN": 59, "<b>15W</b>": 3}))
    text = modes_page(content)
    assert "Time against power: 60 modes" in text and "The frontier, as a table" in text
    assert "MAXN: 4 cores at 1500 MHz, GPU 1300 MHz" in text and "&lt;b&gt;15W&lt;/b&gt;" in text
    assert "of least energy" in text and "power × mean time" in text
    assert outside(Page(text)) == []


def test_the_best_mode_within_a_limit_is_the_fastest_that_keeps_it() -> None:
    limited = cloud(table(), max_power_w=20.0)
    best = limited.best_row
    assert best is not None and limited.power_w[best] <= 20 < limited.power_w[best + 1]
    text = modes_page(ModesContent("t", "b", Origin.REPLAYED, limited))
    assert "Within 20 W the fastest mode is" in text and "limit 20 W" in text
    none = modes_page(ModesContent("t", "b", Origin.REPLAYED, cloud(table(), max_power_w=1.0)))
    assert "No mode keeps the limit of 1 W." in none


def test_a_predicted_mode_keeps_a_limit_only_with_its_whole_interval() -> None:
    modes = table()
    found = predictions(modes)
    limited = replace(ModeCloud.of_predictions(modes, found, {}), max_power_w=20.0)
    best = limited.best_row
    high = bounds(found.power_w, found.power_log_sd, found.dof)[1]
    assert best is not None and high[best] <= 20 < high[best + 1] and limited.power_w[best + 1] < 20
    text = modes_page(ModesContent("t", "b", Origin.PREDICTED, limited))
    assert "predicted; it keeps the limit with its whole interval." in text


def test_predicted_modes_have_intervals_and_measured_ones_stand_beside_them() -> None:
    modes = table()
    predicted = ModeCloud.of_predictions(modes, predictions(modes), {"MAXN": 59})
    text = modes_page(ModesContent("t", "b", Origin.PREDICTED, predicted, modes.take([0, 30, 59]), Origin.REPLAYED))
    assert "profiled modes (replayed)" in text and "whiskers are 90 % intervals" in text
    assert "(36.6 ms to 40.5 ms)" in text


def test_predictions_of_a_known_table_are_judged() -> None:
    modes = table()
    good, bad = HeldOut(modes, predictions(modes, 1.01), 10), HeldOut(modes, predictions(modes, 1.5), 10)
    assert good.coverage("time") == 1.0 and bad.coverage("time") == 0.0
    assert abs(good.error("time") - 0.01) < 1e-9 and good.error("power") == 0
    text = modes_page(ModesContent("t", "b", Origin.REPLAYED, cloud(modes), held_out=bad))
    assert "mean error 50.0%, 0% of the truths lie within the 90 % interval" in text


def test_more_modes_than_a_screen_shows_are_thinned_with_their_extremes() -> None:
    modes = table(30_000)
    drawn = scatter(cloud(modes), "power", None, "replayed")
    assert len(drawn.series[0].x) <= MAX_CLOUD + 6 and "of 30,000 modes are drawn" in drawn.note
    assert modes.time_s is not None and drawn.series[0].x.max() == modes.time_s.max()
