"""What a person reads of a what-if and of a diagnosis."""

import pytest
from rich.console import Console

from edgetrain.analysis import find_verdict, summarize
from edgetrain.errors import UsageError
from edgetrain.prediction import ChangeFacts, PipelinePredictor, WhatIfModel
from edgetrain.recommendation import diagnose_run
from edgetrain.report.diagnosis import MEANING, show_diagnosis
from edgetrain.report.whatif import draw_sweep, show_whatif, write_sweep
from tests.prediction.pipeline.recorded import Training


@pytest.fixture(scope="module")
def model():
    run = Training(workers=0, cores=4).run()
    summary = summarize(run)
    return WhatIfModel(PipelinePredictor(run, summary), summary)


def text_of(shown):
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(shown)
    return console.export_text()


def test_a_what_if_shows_each_setting_with_its_interval_and_gain(model):
    text = text_of(show_whatif(model.answer([model.row({"workers": 2})])))
    assert "as recorded" in text
    assert "workers=2" in text
    assert "90% of the cases" in text
    assert "assumed: hand-over" in text


def test_a_sweep_is_drawn_with_one_label_per_value(model, tmp_path):
    answer = model.answer([model.row({"workers": workers}) for workers in (0, 1, 2)], "workers")
    drawing = draw_sweep(answer)
    assert drawing.startswith("<svg")
    assert drawing.count("<circle") == 6
    write_sweep(answer, tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").read_text() == drawing


def test_a_single_answer_cannot_be_drawn(model, tmp_path):
    with pytest.raises(UsageError, match="--sweep"):
        write_sweep(model.answer([model.row({"workers": 1})]), tmp_path / "x.svg")


def test_a_diagnosis_shows_verdict_evidence_and_remedies(model):
    run = Training(workers=0, cores=4).run()
    summary = summarize(run)
    found = diagnose_run(find_verdict(run, summary), summary, model, None, ChangeFacts())
    text = text_of(show_diagnosis(found))
    assert "pre-processing: the loader's CPU work" in text
    assert "num_workers" in text
    assert "per sample" in text


def test_every_verdict_has_a_meaning():
    from edgetrain.analysis import diagnosis

    verdicts = {value for name, value in vars(diagnosis).items() if name.isupper() and isinstance(value, str)}
    assert verdicts <= set(MEANING)
