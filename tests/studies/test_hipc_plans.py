"""The reproduction's campaigns are the paper's experiments, and the light pictures have the papers' sizes."""

import io
import json

import pytest

from edgetrain.analysis.findings import Verdict
from edgetrain.api.reproducing import reproduce_preview
from edgetrain.cli import main
from edgetrain.errors import UsageError
from edgetrain.studies import STUDIES, CarriedOut, plan_study, reproduce, sections_of
from edgetrain.studies.pictures import LightPictures, padded

JUDGED = ("workers", "sizes", "ram")


@pytest.fixture
def sections(tmp_path):
    def make(quick, names=JUDGED):
        return {section.name: section for section in plan_study("hipc", tmp_path, quick, names).sections}

    return make


def test_the_full_grid_is_the_papers(sections):
    runs = sections(False)["workers"].plan.runs()
    seen = {(run.factors["preset"], run.factors["storage"], run.factors["workers"]) for run in runs}
    assert len(seen) == len(runs) == 24
    scales = {float(run.factors["dataset_scale"]) for run in sections(False)["sizes"].plan.runs()}
    assert scales == {0.25, 1.0, 4.0}


@pytest.mark.parametrize("quick", [True, False])
def test_epochs_have_sixty_minibatches_and_workers_persist(sections, quick, tmp_path):
    for section in sections(quick, sections_of("hipc")).values():
        counts = {str(dataset.folder(tmp_path)): dataset.count for dataset in section.datasets}
        for run in section.plan.runs():
            workload = run.experiment.workload
            assert run.experiment.loading.persistent and run.experiment.loading.cache == "cold"
            images = counts[workload.dataset] if workload.dataset else 23_080 / run.experiment.shrink
            if section.name != "batch":
                assert images / (workload.batch_size or 16) >= 59.9


def test_ram_experiments_read_at_least_300_megabytes_and_both_fit_and_do_not(sections):
    section = sections(False)["ram"]
    assert section.dataset_bytes >= 300e6
    limits = [int(run.factors["page_cache"].removesuffix("MB")) * 1e6 for run in section.plan.runs()]
    assert min(limits) < section.dataset_bytes < max(limits)


@pytest.mark.parametrize(
    ("names", "letters"),
    [(("workers",), "ABCD"), (("ram",), "D"), (("sizes",), "EF"), (("batch", "networks"), ""), (JUDGED, "ABCDEF")],
)
def test_findings_of_sections_not_asked_for_are_not_judged(tmp_path, names, letters):
    plan = plan_study("hipc", tmp_path, True, names)
    report = reproduce(plan, lambda section: CarriedOut((), failed=1, took_s=2.0))
    assert "".join(finding.letter for finding in report.findings) == letters
    assert all(finding.verdict is Verdict.CANNOT_SAY for finding in report.findings)  # no run was made
    assert report.failed_runs == len(names) and report.took_s == 2.0 * len(names)
    assert not list(tmp_path.iterdir())


def test_an_unknown_study_or_section_is_refused_with_the_known_ones(tmp_path):
    assert STUDIES == ("hipc", "sigmetrics")
    with pytest.raises(UsageError, match="hipc"):
        plan_study("another", tmp_path)
    with pytest.raises(UsageError, match="workers, sizes, ram, batch, networks"):
        plan_study("hipc", tmp_path, sections=["nothing"])


@pytest.mark.parametrize("quick", [True, False])
def test_a_dry_run_writes_nothing_and_knows_the_cost(tmp_path, monkeypatch, capsys, quick):
    monkeypatch.setenv("EDGETRAIN_LAB_STATE", str(tmp_path / "state"))
    command = ["reproduce", "hipc", "--dry-run", "--store", str(tmp_path / "store"), "--json"]
    assert main([*command, *(["--quick"] if quick else [])]) == 0
    found = {section["section"]: section for section in json.loads(capsys.readouterr().out)["sections"]}
    assert list(found) == list(JUDGED)
    assert all(section["left_s"] > 10 and section["done"] == 0 for section in found.values())
    assert found["ram"]["new_bytes"] == 2560 * 122_000
    assert not list(tmp_path.iterdir())


def test_a_dataset_that_two_sections_share_is_counted_once(tmp_path):
    costs = reproduce_preview("hipc", sections=["ram", "networks"], store=tmp_path)
    assert [cost.new_bytes for cost in costs] == [2560 * 122_000, 0]


def test_padding_keeps_the_picture_and_gives_the_size():
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.new("RGB", (40, 30), (200, 10, 30)).save(buffer, "JPEG")
    small = buffer.getvalue()
    large = padded(small, 200_000, b"x" * 200_000)
    assert len(large) == 200_000

    def pixels(picture):
        return image.open(io.BytesIO(picture)).convert("RGB").tobytes()

    assert pixels(large) == pixels(small)


def test_light_pictures_are_made_once_in_the_papers_layout(tmp_path):
    pytest.importorskip("PIL.Image")
    dataset = LightPictures(60, 200, 150)
    assert not dataset.is_made(tmp_path)
    folder = dataset.make(tmp_path)
    made = {path.name: path.stat().st_mtime_ns for path in (folder / "images").iterdir()}
    assert len(made) == 60
    assert dataset.make(tmp_path) == folder and dataset.is_made(tmp_path)
    assert made == {path.name: path.stat().st_mtime_ns for path in (folder / "images").iterdir()}
    sizes = [path.stat().st_size for path in (folder / "images").iterdir()]
    assert 90_000 < sum(sizes) / len(sizes) < 150_000
    from edgetrain.workload import entry, survey

    assert survey(str(folder), entry("mobilenet_v3")).samples == 60
