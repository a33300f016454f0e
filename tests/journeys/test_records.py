"""From records to what people read: ls, show, compare, export and report, by their documented commands."""

import json
from html.parser import HTMLParser

import pytest

from edgetrain.cli import main


@pytest.fixture
def edgetrain(record, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGETRAIN_STORE", str(record.store))
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        status = main(list(arguments))
        caught = capsys.readouterr()
        return status, caught.out, caught.err

    return call


def test_an_empty_store_says_how_to_begin(edgetrain):
    status, out, err = edgetrain("ls")
    assert (status, out) == (0, "")
    assert "edgetrain run" in err
    status, _, err = edgetrain("show")
    assert status == 1
    assert "edgetrain run" in err


def test_runs_are_listed_and_the_last_is_shown(edgetrain, record):
    first, second = record(seed=1), record(seed=2)
    listed = json.loads(edgetrain("ls", "--json")[1])["runs"]
    assert {row["run"] for row in listed} == {first, second}
    status, out, _ = edgetrain("show", "last")
    assert status == 0
    assert second in out and "fetch" in out and "stalled" in out


def test_show_gives_the_same_document_by_id_prefix_and_path(edgetrain, record):
    run = record()
    documents = [
        json.loads(edgetrain("show", name, "--json")[1]) for name in (run, "last", str(record.store / "runs" / run))
    ]
    assert documents[0] == documents[1] == documents[2]


def test_a_run_nobody_made_is_named_in_the_message(edgetrain, record):
    record()
    status, out, err = edgetrain("show", "nosuch")
    assert (status, out) == (1, "")
    assert "nosuch" in err and "edgetrain ls" in err


def test_a_name_that_fits_several_runs_names_them_and_its_end_is_enough(edgetrain, record):
    first, second = record(seed=1), record(seed=2)
    status, _, err = edgetrain("show", first[:4])
    assert status == 1
    assert first in err and second in err and "…" not in err
    assert json.loads(edgetrain("show", first[-4:], "--json")[1])["run"] == first
    assert edgetrain("show", "")[0] == 2


def test_a_store_that_is_no_folder_is_not_called_empty(edgetrain, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (("ls",), ("show",), ("report",)):
        status, out, err = edgetrain(*arguments, "--store", str(tmp_path / "file"))
        assert (status, out) == (1, "")
        assert "cannot read the store" in err


def test_a_filter_that_nothing_fits_does_not_call_the_store_empty(edgetrain, record):
    record()
    status, _, err = edgetrain("ls", "--network", "vgg11")
    assert status == 0 and "no runs of network vgg11" in err


def test_a_run_is_not_compared_with_itself_nor_with_an_empty_one(edgetrain, record):
    run, empty = record(), record(epochs=0, power_w=None)
    status, out, err = edgetrain("compare", run, "--", "last", run)
    assert (status, out) == (2, "") and "both sides" in err
    status, out, err = edgetrain("compare", run, empty)
    assert (status, out) == (2, "") and empty in err
    assert edgetrain("export", empty, "--csv")[0] == 1


def test_a_loop_that_never_waited_is_not_infinitely_better(edgetrain, record):
    runs = [record(seed=seed, epochs=1, minibatches=1) for seed in range(2)]
    found = json.loads(edgetrain("compare", *runs, "--json")[1])
    (stall,) = [row for row in found["warm"] if row["metric"] == "fetch_stall"]
    assert stall["words"] == "none on either side" and stall["change"] == 0


def test_compare_takes_its_sides_around_two_dashes(edgetrain, record):
    slow = [record(seed=seed, compute_us=60_000) for seed in range(3)]
    fast = [record(seed=seed + 10) for seed in range(3)]
    found = json.loads(edgetrain("compare", *slow, "--", *fast, "--json")[1])
    assert found["different"] is True
    assert found["a"] == slow
    status, out, _ = edgetrain("compare", slow[0], fast[0])
    assert status == 0 and "end to end" in out and " ms " in out and " J " in out and " W " in out
    assert "needs" in out


def test_compare_without_a_side_is_wrong_usage(edgetrain, record):
    runs = [record(seed=seed) for seed in range(3)]
    status, _, err = edgetrain("compare", *runs)
    assert status == 2
    assert "--" in err


@pytest.mark.parametrize("form", ["csv", "parquet", "trace"])
def test_exports_hold_every_minibatch(edgetrain, record, tmp_path, form):
    record(epochs=2, minibatches=40)
    target = tmp_path / f"out.{form}"
    status, _, err = edgetrain("export", "last", f"--{form}", "-o", str(target))
    assert status == 0 and str(target) in err.replace("\n", "")
    if form == "csv":
        assert len(target.read_text().splitlines()) == 81
    elif form == "parquet":
        duckdb = pytest.importorskip("duckdb")
        assert duckdb.sql(f"select count(*) from '{target}'").fetchall() == [(80,)]
    else:
        events = json.loads(target.read_text())["traceEvents"]
        assert sum(event["name"] == "fetch stall" for event in events) == 80
        assert any(event["ph"] == "C" and event["name"] == "power: total [W]" for event in events)


def test_export_without_a_format_is_wrong_usage(edgetrain, record):
    record()
    assert edgetrain("export", "last")[0] == 2


def test_the_report_is_one_page_that_fetches_nothing(edgetrain, record, tmp_path):
    runs = [record(seed=1), record(seed=2, workers=2), record(seed=3, state="running")]
    assert edgetrain("report", *runs, "-o", "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text()

    class Links(HTMLParser):
        def __init__(self):
            super().__init__()
            self.found = []

        def handle_starttag(self, tag, attributes):
            self.found += [value for name, value in attributes if name in ("src", "href") and value]

    page = Links()
    page.feed(text)
    assert [link for link in page.found if not link.startswith(("#", "data:,"))] == []
    assert text.count('class="barchart"') == 2
    assert "the run has no recorded end" in text


def test_runs_of_one_setting_are_distinguished_on_the_page_and_their_doubt_is_said_once(edgetrain, record, tmp_path):
    doubt = {"kind": "other_load", "text": "other processes used half of the cores"}
    runs = [record(seed=seed, doubts=[doubt]) for seed in range(2)]
    assert edgetrain("report", *runs, "-o", "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text()
    assert text.count(doubt["text"]) == 1 and "every run" in text
    assert all(f"run {run[-4:]}" in text for run in runs)


def test_ids_are_listed_whole_however_long_the_other_columns(edgetrain, record):
    run = record(campaign="a-campaign-with-a-name-that-alone-fills-most-of-the-line", workload={"network": "n" * 40})
    out = edgetrain("ls")[1]
    assert run in out and "fills-most-of-the-line" in out
