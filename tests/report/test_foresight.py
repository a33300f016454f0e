"""What a person reads of a what-if and of a diagnosis."""

import re
from dataclasses import replace

import pytest

from edgetrain.analysis import find_verdict, summarize
from edgetrain.errors import UsageError
from edgetrain.prediction import LATER_EPOCHS, ChangeFacts, PipelinePredictor, WhatIfModel
from edgetrain.recommendation import Remedy, VerifiedRemedy, diagnose_run
from edgetrain.report.diagnosis import MEANING, show_diagnosis, spell_gain
from edgetrain.report.sweep import draw_sweep, swept_times, write_sweep
from edgetrain.report.whatif import show_whatif, with_bounds
from edgetrain.units import spell_gain_pct, spell_interval
from tests.prediction.pipeline.recorded import Training
from tests.report.printing import printed


@pytest.fixture(scope="module")
def model():
    run = Training(workers=0, cores=4).run()
    summary = summarize(run)
    return WhatIfModel(PipelinePredictor(run, summary), summary)


def test_a_what_if_shows_each_setting_with_its_interval_and_gain(model):
    text = printed(show_whatif(model.answer([model.row({"workers": 2})])))
    assert "as recorded" in text and "no change" in text
    assert "workers=2" in text
    assert "[lo, hi]: 90% interval" in text
    assert "assumed: hand-over" in text
    assert text.count("first, warm") >= 2 and "first, cold: the page cache does not hold the dataset" in text
    assert "docs/" not in text


def rows_of(text, setting):
    lines = text.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(setting))
    return lines[at : at + 3]


def test_a_gain_stands_beside_the_time_that_it_is_of(model):
    row, epochs = model.row({"workers": 2}), model.epochs
    first, later, whole = rows_of(printed(show_whatif(model.answer([row])), 200), "workers=2")
    assert with_bounds(row.total_s) in whole and f"all {epochs}" in whole and "%" in whole
    assert "%" not in first + later
    twice = replace(row, gain_of=LATER_EPOCHS, gain_pct=-5177.9)
    first, later, whole = rows_of(printed(show_whatif(model.answer([twice])), 200), "workers=2")
    assert "52.8 times as long" in later and "times" not in first + whole


def test_gains_are_spelled_without_large_percentages_or_a_negative_zero():
    assert spell_gain_pct(-0.04, 1) == "+0.0 %"
    assert spell_gain_pct(-98.9, 1) == "-98.9 %"
    assert spell_gain_pct(-5177.9) == "52.8 times as long"


def test_the_error_of_the_model_is_mentioned_where_it_matters(model):
    answer = model.answer([model.row({"workers": 2})])
    assert "correction:" not in printed(show_whatif(replace(answer, model_error_pct=-0.04)))
    shown = printed(show_whatif(replace(answer, model_error_pct=58.3)), 300)
    assert "the model alone makes the recorded later epochs 58.3 % too long; every prediction is corrected" in shown


@pytest.mark.parametrize("width", [80, 118])
def test_a_long_setting_makes_no_row_higher(model, width):
    row = replace(model.row({"workers": 2}), changes={"storage": "hdd", "ram": "2GiB", "dataset_scale": 1.0})
    first, later, whole = rows_of(printed(show_whatif(model.answer([row])), width), "storage=hdd")
    assert first.startswith("storage=hdd, ram=2GiB, ") and later.startswith("dataset_scale=1 ")
    assert whole.split()[0] == "all"


@pytest.mark.parametrize("width", [80, 118, 200])
def test_no_width_cuts_a_gain_or_an_interval(model, width):
    row = model.row({"workers": 4, "batch_size": 32, "prefetch": 8})
    text = printed(show_whatif(model.answer([row])), width)
    assert f"{row.gain_pct:+.1f} %" in text
    for epoch in (row.first, row.later):
        for estimate in (epoch.e2e_s, epoch.stall_s, epoch.compute_s):
            assert with_bounds(estimate) in text


def test_a_value_and_its_bounds_are_in_one_unit():
    assert spell_interval(0.153, 0.0947, 0.212) == "153 [94.7, 212] ms"
    assert spell_interval(0.9, 0.5, 1.25) == "900 [500, 1,250] ms"
    assert spell_interval(12.7, 10.6, 15.2) == "12.7 [10.6, 15.2] s"
    assert spell_interval(0.0, 0.0, 0.002) == "0 [0, 2] ms"
    assert spell_interval(200.0, 95.0, 4000.0) == "3 min 20 s [95 s, 1 h 06 min]"


def test_a_sweep_is_drawn_with_one_label_per_value(model, tmp_path):
    answer = model.answer([model.row({"workers": workers}) for workers in (0, 1, 2)], "workers")
    drawing = draw_sweep(answer)
    assert drawing.startswith("<svg")
    assert drawing.count("<circle") == 6
    write_sweep(answer, tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").read_text() == drawing


def test_a_sweep_shows_all_epochs_or_the_first_where_later_ones_do_not_differ(model):
    rows = [model.row({"workers": workers}) for workers in (0, 2)]
    answer = model.answer(rows, "workers")
    assert [each.value for each in swept_times(answer).e2e_s] == [row.total_s.value for row in rows]
    same = replace(answer, settings=tuple(replace(row, later=rows[0].later) for row in rows))
    assert [each.value for each in swept_times(same).e2e_s] == [row.first.e2e_s.value for row in rows]
    assert "the first epoch (later ones do not differ)" in draw_sweep(same)
    assert "the first epoch (later ones do not differ)" in printed(show_whatif(same))


def test_a_drawing_has_round_ticks_room_for_labels_and_a_word_on_its_bars(model):
    row = model.row({"workers": 1})
    many = model.answer([replace(row, changes={"workers": workers}) for workers in range(41)], "workers")
    drawing = draw_sweep(many)
    assert ">0<" in drawing and ">40<" in drawing and ">39<" not in drawing
    assert "vertical bars: 90% intervals" in drawing
    ticks = re.findall(r'text-anchor="end">([\d.]+) m?s<', drawing)
    assert ticks and all(len(tick.replace(".", "").strip("0")) == 1 for tick in ticks)
    xs = re.findall(r'<circle cx="([\d.]+)"', drawing)
    assert len(set(xs)) == 82  # no two bars lie on each other
    names = [f"12/2201/1300/{clock}" for clock in range(3100, 3109)]
    modes = model.answer([replace(row, changes={"power_mode": name}) for name in names], "power_mode")
    assert draw_sweep(modes).count("rotate(") == 9 and "polyline" not in draw_sweep(modes)


def test_a_sweep_has_a_bar_per_value(model):
    text = printed(show_whatif(model.answer([model.row({"workers": workers}) for workers in (0, 2)], "workers")))
    bars = [line for line in text.splitlines() if "█" in line or "▒" in line][1:]
    assert [line.split()[0] for line in bars] == ["0", "2"]
    assert bars[0].count("█") > bars[1].count("█") and "s" in bars[0].split()[-1]


def test_a_drawing_is_svg_by_its_name(model, tmp_path):
    answer = model.answer([model.row({"workers": workers}) for workers in (0, 2)], "workers")
    with pytest.raises(UsageError, match=r"drawn as SVG: write -o .*sweep\.svg"):
        write_sweep(answer, tmp_path / "sweep.png")
    assert not list(tmp_path.iterdir())


def test_a_single_answer_cannot_be_drawn(model, tmp_path):
    with pytest.raises(UsageError, match="--sweep"):
        write_sweep(model.answer([model.row({"workers": 1})]), tmp_path / "x.svg")


def test_a_diagnosis_shows_verdict_evidence_and_remedies(model):
    run = Training(workers=0, cores=4).run()
    summary = summarize(run)
    found = diagnose_run(find_verdict(run, summary), summary, model, None, ChangeFacts())
    text = printed(show_diagnosis(found))
    assert "pre-processing: the loop waits for the loader's CPU work" in text
    assert "num_workers" in text
    assert "per sample" in text


def test_what_one_epoch_cannot_show_is_said_in_both():
    run = Training(workers=0, cores=4, epochs=1).run()
    summary = summarize(run)
    model = WhatIfModel(PipelinePredictor(run, summary), summary)
    found = diagnose_run(find_verdict(run, summary), summary, model, None, ChangeFacts())
    shown = printed(show_diagnosis(found))
    assert "note: one epoch only" in shown and "assumed: hand-over from workers" in shown
    shown = printed(show_whatif(model.answer([model.row({"workers": 2})])))
    assert "note: one epoch only" in shown


def found_of(run, **more):
    summary = summarize(run)
    return replace(diagnose_run(find_verdict(run, summary), summary, None, "no model", ChangeFacts()), **more)


def test_an_unknown_verdict_is_shown_with_its_reason():
    shown = printed(show_diagnosis(found_of(Training(epochs=1, minibatches=8).run())))
    assert "unknown: only 8 of the at least 16 minibatches that a verdict needs were recorded" in shown


def test_an_assumed_gain_is_shown_as_its_interval():
    assumed = Remedy("one thread", 75.0, 40.0, 110.0, 25.0, "", predicted=False)
    found = found_of(Training().run(), remedies=(assumed,), remedies_reason=None, recorded_s=100.0)
    assert spell_gain(assumed, found) == "-10 to +60 %: assumed"
    assert "assumed" in printed(show_diagnosis(found))
    assert spell_gain(replace(assumed, predicted=True), found) == "+25 %"


def test_what_was_tried_is_shown_per_run_or_per_minibatch():
    again = VerifiedRemedy("num_workers=2", "r", 10.0, 9.0, 11.0, 10.5, 20.0)
    shown = printed(show_diagnosis(found_of(Training().run(), verified=again)), 300)
    assert "tried num_workers=2, time per run: predicted 10 [9, 11] s, measured 10.5 s, inside" in shown
    trials = VerifiedRemedy("num_workers=2", "r", 0.01, 0.009, 0.011, 0.02, 20.0, "steady minibatch", 15.0, 25.0, 0.025)
    shown = printed(show_diagnosis(found_of(Training().run(), verified=trials)), 300)
    assert "time per steady minibatch: predicted" in shown
    assert "measured 20 ms (25 ms without it), outside the interval; gain +20 %, 90 % interval +15 to +25 %" in shown


def test_on_a_machine_that_is_slower_now_gains_are_compared():
    tried = VerifiedRemedy(
        "num_workers=4", "r", 0.0328, 0.0225, 0.048, 0.0568, 41.0, "steady minibatch", 35.0, 47.0, 0.0962, 0.045
    )
    assert tried.held and tried.slowdown == pytest.approx(2.14, abs=0.01)
    shown = printed(show_diagnosis(found_of(Training().run(), verified=tried)), 500)
    assert "without it the run was recorded at 45 ms, so the machine is 2.1 times slower now than then" in shown
    assert "predicted +27 % (90 % interval -7 to +50 %), measured +41 %, 90 % interval +35 to +47 %" in shown
    assert "the measured gain is inside the predicted interval" in shown
    assert not replace(tried, measured_s=0.11).held
    as_before = replace(tried, before_s=0.05)
    assert as_before.slowdown == 1.0 and not as_before.held
    assert "2 times faster" in printed(
        show_diagnosis(found_of(Training().run(), verified=replace(tried, before_s=0.0225))), 500
    )


def test_every_verdict_has_a_meaning():
    from edgetrain.analysis import diagnosis

    verdicts = {value for name, value in vars(diagnosis).items() if name.isupper() and isinstance(value, str)}
    assert verdicts <= set(MEANING)
