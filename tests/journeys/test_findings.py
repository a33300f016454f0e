"""From a campaign on a simulated board to the papers' findings in it."""

from __future__ import annotations

import json
import shutil

import pytest

import edgetrain as et
from edgetrain.api import reproduce
from edgetrain.cli import main
from edgetrain.documents import result_document
from edgetrain.record import FolderStore, Manifest
from tests.schemas import check_document

PLAN = """
name: loading
device: sim:xavier-nx
network: mobilenet_v3
storage: hdd
cache: cold
dataset_scale: 0.02
timing: sync
factors: {workers: [0, 1, 2]}
repeats: 3
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("findings")
    with pytest.MonkeyPatch.context() as patch:
        for name, place in (("STORE", "store"), ("SIM_HOME", "sim"), ("CAMPAIGN_LOCK", "")):
            patch.setenv(f"EDGETRAIN_{name}", str(folder / place))
        (folder / "plan.yaml").write_text(PLAN)
        assert main(["campaign", str(folder / "plan.yaml")]) == 0
        yield folder / "store"


def findings(capsys, *words):
    assert main(["findings", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_thirty_findings_are_judged_by_a_campaign(store, capsys):
    found = findings(capsys, "loading")
    assert found["schema"] and found["runs"] == 9 and found["campaigns"][0].startswith("loading-")
    letters = {
        paper: [one["letter"] for one in found["findings"] if one["paper"] == paper] for paper in ("hipc", "sigmetrics")
    }
    assert letters == {"hipc": list("ABCDEF"), "sigmetrics": [str(number) for number in range(1, 25)]}
    assert {one["origin"] for one in found["findings"]} == {"simulated"}
    by_letter = {one["letter"]: one for one in found["findings"]}
    assert by_letter["3"]["verdict"] == "holds"
    bound = by_letter["3"]["evidence"][0]["bounds"][0]
    assert bound["lo"] <= bound["value"] <= bound["hi"] and bound["least"] == 0
    assert (
        by_letter["1"]["verdict"] == "cannot say" and "not decidable on a simulated board" in by_letter["1"]["reason"]
    )


def test_one_paper_can_be_chosen_and_the_text_names_what_decides(store, capsys, tmp_path):
    page = tmp_path / "findings.md"
    assert main(["findings", "--paper", "sigmetrics", "--markdown", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "SIGMETRICS 2023, simulated runs: of 24 statements" in shown and "HiPC" not in shown
    assert "3  Pipelining always cuts the stall: holds" in shown
    assert "| 3 Pipelining always cuts the stall | **holds** |" in page.read_text()


def test_a_campaign_that_is_not_there_is_named(store, capsys):
    assert main(["findings", "nothing"]) == 2
    assert "no campaign 'nothing' is recorded" in capsys.readouterr().err


def test_an_empty_name_is_a_campaign_that_is_not_there(store, capsys):
    assert main(["findings", ""]) == 2
    assert "no campaign '' is recorded" in capsys.readouterr().err


def test_failed_runs_are_left_out_with_their_reason(store, capsys):
    failed = FolderStore(store).create(
        Manifest(state="failed", campaign="failing-0123abcd", reason="the command ended with status 3")
    )
    try:
        assert main(["findings", "failing"]) == 2
        assert "no run is left to judge (1 run: failed (the command ended with status 3))" in capsys.readouterr().err
        left_out = findings(capsys, "failing", "loading")["left_out"]
        assert left_out == [f"{failed.id}: failed (the command ended with status 3)"]
    finally:
        shutil.rmtree(FolderStore(store).locate(failed.id))


def test_the_help_shows_that_several_campaigns_are_accepted(capsys):
    assert main(["findings", "--help"]) == 0
    assert "[CAMPAIGN]..." in capsys.readouterr().out


def test_sigmetrics_is_reproduced_on_simulated_boards_beside_its_published_numbers(store, capsys, tmp_path):
    page = tmp_path / "page.md"
    words = ["reproduce", "sigmetrics", "--quick", "--section", "nx", "--markdown", str(page), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    check_document(words, found)
    assert found["origin"] == "simulated" and set(found["sections"]) == {"nx"} and found["failed_runs"] == 0
    verdicts = {(one["letter"], one["origin"]): one["verdict"] for one in found["findings"]}
    assert len(verdicts) == 48 and verdicts["3", "published"] == "holds"
    assert "| finding | published | simulated |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["findings", "loading"], lambda: et.findings("loading")),
        (["whatif", "--set", "workers=2"], lambda: et.whatif("last", {"workers": 2})),
        (
            ["reproduce", "sigmetrics", "--quick", "--section", "nx"],
            lambda: reproduce("sigmetrics", quick=True, sections=["nx"]),
        ),
    ],
)
def test_the_document_of_a_result_is_what_json_prints(store, capsys, words, call):
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    check_document(words, printed)
    assert json.loads(json.dumps(result_document(call()))) == printed and next(iter(printed)) == "schema"


def test_the_cost_of_sigmetrics_is_known_before(store, capsys):
    assert main(["reproduce", "sigmetrics", "--dry-run", "--json", "--repeats", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document(["reproduce", "--dry-run"], found)
    sections = found["sections"]
    assert [section["section"] for section in sections] == ["loading", "slow-gpu", "nx", "batch", "dvfs", "modes"]
    assert sections[0]["runs"] == 2 * 24 and all(section["new_bytes"] == 0 for section in sections)
