"""The reproduction's campaigns are what the paper did, and the light pictures are what they say."""

import io

import pytest

from edgetrain.analysis.findings import CANNOT_SAY
from edgetrain.cli.reproduce import _judge
from edgetrain.runner import reproduce
from edgetrain.runner.reproduce_data import light_pictures, padded

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def sections(tmp_path, monkeypatch):
    # The pictures themselves have their own test; here only their number matters.
    monkeypatch.setattr(reproduce, "light_pictures", lambda root, count, *size, progress=None: tmp_path / str(count))

    def make(quick, names=reproduce.SECTIONS):
        return {one.name: one for one in reproduce.hipc(tmp_path, quick, names)}

    return make


def test_the_full_grid_is_the_papers(sections):
    runs = sections(False)["workers"].plan.runs()
    seen = {(run.factors["preset"], run.factors["storage"], run.factors["workers"]) for run in runs}
    assert len(seen) == len(runs) == 24
    scales = {float(run.factors["dataset_scale"]) for run in sections(False)["sizes"].plan.runs()}
    assert scales == {0.25, 1.0, 4.0}


@pytest.mark.parametrize("quick", [True, False])
def test_epochs_have_sixty_minibatches_and_workers_persist(sections, quick):
    for section in sections(quick, reproduce.SECTIONS + reproduce.MORE).values():
        for run in section.plan.runs():
            workload = run.experiment.workload
            assert run.experiment.loading.persistent and run.experiment.loading.cache == "cold"
            images = int(workload.dataset.rsplit("/", 1)[1]) if workload.dataset else 23_080 / run.experiment.shrink
            if section.name != "batch":
                assert images / workload.batch_size >= 59.9


def test_ram_experiments_read_at_least_300_megabytes_and_both_fit_and_do_not(sections):
    section = sections(False)["ram"]
    assert section.dataset_bytes >= 300e6
    held = [int(run.factors["page_cache"].removesuffix("MB")) * 1e6 for run in section.plan.runs()]
    assert min(held) < section.dataset_bytes < max(held)


@pytest.mark.parametrize(
    ("names", "letters"),
    [
        (("workers",), "ABCD"),
        (("ram",), "D"),
        (("sizes",), "EF"),
        (("batch", "networks"), ""),
        (reproduce.SECTIONS, "ABCDEF"),
    ],
)
def test_findings_of_sections_not_asked_for_are_not_judged(sections, names, letters):
    asked = list(sections(True, names).values())
    findings = _judge(asked, {one.name: [] for one in asked})
    assert "".join(one.letter for one in findings) == letters
    assert all(one.verdict == CANNOT_SAY for one in findings)  # no run was made


def test_padding_keeps_the_picture_and_gives_the_size():
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 10, 30)).save(buffer, "JPEG")
    small = buffer.getvalue()
    large = padded(small, 200_000, b"x" * 200_000)
    assert len(large) == 200_000
    assert (
        Image.open(io.BytesIO(large)).convert("RGB").tobytes() == Image.open(io.BytesIO(small)).convert("RGB").tobytes()
    )


def test_light_pictures_are_made_once_in_the_papers_layout(tmp_path):
    folder = light_pictures(tmp_path, 60, 200, 150)
    made = {path.name: path.stat().st_mtime_ns for path in (folder / "images").iterdir()}
    assert len(made) == 60
    assert light_pictures(tmp_path, 60, 200, 150) == folder
    assert made == {path.name: path.stat().st_mtime_ns for path in (folder / "images").iterdir()}
    sizes = [path.stat().st_size for path in (folder / "images").iterdir()]
    assert 90_000 < sum(sizes) / len(sizes) < 150_000
    from edgetrain.workload.catalog import entry
    from edgetrain.workload.datasets import survey

    assert survey(str(folder), entry("mobilenet_v3")).samples == 60
