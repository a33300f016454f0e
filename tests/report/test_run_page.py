"""The page of one run: everything that was recorded, small whatever its length, and honest about what is missing."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from edgetrain.analysis import MachineReadings, StallCauses, find_loops, slowest, summarize
from edgetrain.record import ArrayTable, DeviceFacts, Event, FolderStore, WorkloadFacts
from edgetrain.report.page import PageRemedy, PageVerdict, run_page
from edgetrain.report.page.packed import pack, plots_json, unpack
from edgetrain.report.page.timeline import timeline
from edgetrain.schema import Doubt
from tests.report.printing import HOSTILE
from tests.report.test_page import Page, outside
from tests.summaries import make_epoch


@pytest.fixture
def run(record):
    return FolderStore(record.store).open(record(epochs=3, minibatches=40))


def page_of(run, **more) -> str:
    return run_page(run, summarize(run), **more)


def test_a_run_has_a_verdict_its_parts_its_timeline_and_its_provenance(run) -> None:
    text = page_of(run)
    for heading in ("Where the time went", "Where the joules went", "Timeline", "Distributions", "Provenance"):
        assert heading in text
    assert "this training" in text and "pre-processing" in text
    assert "total: the whole board at its input" in text
    assert "energy of all epochs" in text and re.search(r"[\d.,]+ ± [\d.]+ J", text)
    page = Page(text)
    assert outside(page) == [] and page.tags.count("svg") > 8
    assert page.row("1")[1] == "40"


def test_every_picture_is_drawn_without_a_script_too_and_says_what_it_shows(run) -> None:
    text = page_of(run)
    charts = re.findall(r'<svg class="chart"[^>]*aria-label="([^"]+)"', text)
    assert len(charts) == len(re.findall(r'<figure class="plot"', text)) >= 5
    assert all(len(label) > 15 for label in charts)
    assert "nan" not in " ".join(re.findall(r' d="([^"]*)"', text))


def test_every_picture_says_its_origin(run) -> None:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page_of(run))
    assert len(captions) >= 5 and all("simulated" in caption for caption in captions)


def test_more_series_than_colours_are_told_apart_by_a_dash(run) -> None:
    rails = run.samples("rails")
    cores = {f"cpu{core}_share": np.full(len(rails), core / 12) for core in range(12)}
    many = replace(run, probes={"cpu": ArrayTable({"at_us": rails["at_us"], **cores})})
    (plot,) = [one for one in timeline(many, summarize(many), slowest(find_loops(many)).parts) if one.id == "cpu"]
    assert len({(one.colour, one.dashed) for one in plot.series}) == len(plot.series) == 12
    text = page_of(many)
    assert 'class="line s-0 dashed"' in text and '<i class="s-0 dashed">' in text and '"dashed":true' in text


def test_every_process_of_a_training_is_in_a_table(run) -> None:
    second = replace(run.main, facts=replace(run.main.facts, pid=77, rank=1))
    text = page_of(replace(run, processes=(replace(run.main, facts=replace(run.main.facts, pid=76, rank=0)), second)))
    page = Page(text)
    assert page.row("77")[1:3] == ["1", "120"] and page.row("76")[1] == "0"
    assert "2 processes trained together" in text and "Training processes" not in page_of(run)


def test_a_run_without_power_says_why_there_is_no_energy(record) -> None:
    found = FolderStore(record.store).open(record(power_w=None))
    text = page_of(found)
    assert "Energy was not measured" in text and "power: not measured" in text
    assert "plot-power" not in text and not re.search(r"\bNone\b", re.sub(r"<script.*?</script>", "", text, flags=re.S))


def test_one_epoch_is_enough_and_none_is_said(record) -> None:
    one = FolderStore(record.store).open(record(epochs=1, minibatches=3))
    assert "end to end, 1 epoch" in page_of(one)
    none = replace(one, processes=())
    text = page_of(none)
    assert "No minibatch was recorded" in text


def test_a_thousand_epochs_share_bars_and_the_slowest_stays_in_the_table(run) -> None:
    epochs = tuple(make_epoch(number, 99.0 if number == 500 else 10.0) for number in range(1000))
    text = run_page(run, replace(summarize(run), epochs=epochs))
    assert text.count('class="barrow"') < 120 and "A bar is the mean of up to" in text
    assert Page(text).row("500")[2] == "99 s" and "900 epochs" in text
    assert len(text) < 1_100_000


def test_the_marks_of_many_epochs_are_in_the_page_once(run) -> None:
    epochs = [make_epoch(number, 0.01) for number in range(5_000)]
    plots = timeline(run, replace(summarize(run), epochs=tuple(epochs)), slowest(find_loops(run)).parts)
    documents = json.loads(plots_json(plots))
    assert len(documents) > 1 and len(documents[0]["marks"]) == 5_000
    assert {one["marks"] for one in documents[1:]} == {documents[0]["id"]}


def test_a_long_trace_keeps_its_extremes(run) -> None:
    summary = summarize(run)
    plots = timeline(run, summary, slowest(find_loops(run)).parts, budget_bytes=4_000)
    for plot in plots:
        for series in plot.series:
            assert len(series.y) <= 240
    power = next(plot for plot in plots if plot.id == "power").series[0]
    whole = run.samples("rails")["total_w"]
    at = (run.samples("rails")["at_us"] - summary.epochs[0].begin_us) * 1e-6
    assert power.high is None or power.high[0] <= whole[at <= summary.epochs[-1].end_us].max() + 1e-9


def test_packed_columns_come_back_and_keep_what_is_missing() -> None:
    values = np.array([1.0, np.nan, -3.5, 1e6])
    back = unpack(pack(values))
    assert np.isnan(back[1]) and back[0] == pytest.approx(1.0, abs=20) and back[3] == 1e6
    assert np.isnan(unpack(pack(np.array([np.nan, np.nan])))).all()


def test_names_in_a_run_cannot_become_part_of_the_page(run) -> None:
    name = HOSTILE + "</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"
    hostile = replace(
        run,
        manifest=replace(run.manifest, workload=WorkloadFacts(network=name), command=(name,)),
        events=(*run.events, Event("throttle", name, at_us=1_000_500_000)),
        lost=(name,),
    )
    summary = summarize(hostile)
    summary = replace(summary, doubts=(Doubt("x", name),), device=DeviceFacts(model=name), reason=name)
    text = run_page(hostile, summary, title=name)
    page = Page(text)
    assert outside(page) == [] and "img" not in page.tags and page.tags.count("script") == 2
    assert "onload=alert" not in re.sub(r"&lt;svg onload=alert", "", text).replace("\\u003csvg onload=alert", "")
    assert "</script><img" not in plots_json(timeline(hostile, summary, slowest(find_loops(hostile)).parts))


def test_what_diagnose_says_stands_on_top_with_its_remedies(run) -> None:
    remedy = PageRemedy("workers=2", "20 s (18 to 23 s)", "31 %", "one more core")
    verdict = PageVerdict("Storage limits this training.", ("reads wait 70 % of the time",), (remedy,))
    text = page_of(run, verdict=verdict)
    assert text.index("Storage limits this training.") < text.index("Where the time went")
    assert Page(text).row("workers=2") == ["workers=2", "20 s (18 to 23 s)", "31 %", "one more core"]
    assert "Remedies cannot be predicted: too short" in page_of(
        run, verdict=PageVerdict("Unknown.", remedies_reason="too short")
    )


def test_what_the_machine_did_is_a_table(run) -> None:
    epochs = tuple(
        replace(epoch, machine=MachineReadings(cpu_share=0.5, gpu_share=0.9, reads_per_s=120.0, gpu_hz=1.3e9))
        for epoch in summarize(run).epochs
    )
    text = run_page(run, replace(summarize(run), epochs=epochs))
    assert "What the machine did in each epoch" in text and "<td>1300</td>" in text and "<td>120</td>" in text


def test_causes_of_the_stall_are_parts_of_the_bar(run) -> None:
    causes = StallCauses(3.0, 1.0, 0.0, 0.5)
    epochs = (make_epoch(0, 10.0, 4.5, stall_by=causes),)
    text = run_page(run, replace(summarize(run), epochs=epochs))
    for part in ("epoch 0: blocked 3 s", "epoch 0: pre-processing 1 s", "epoch 0: hand-over 500 ms"):
        assert part in text
    assert "epoch 0: contention" not in text
