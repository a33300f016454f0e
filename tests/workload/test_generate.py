"""Generated datasets have the real ones' shape, follow from their seed alone, and can be resumed."""

from __future__ import annotations

import io

import numpy as np
import pytest

from edgetrain.errors import UsageError, WorkloadError
from edgetrain.runner import dataset_recipe, generate_dataset
from edgetrain.workload import RequestError, TrainingError, datasets, drawing, entry, generate


def contents(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["lenet5", "vgg11", "lstm", "mobilenet_v3", "resnet18"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, name):
    known = entry(name)
    scale = 10 / known.samples
    made = [
        contents(generate.generate_dataset(tmp_path / folder, generate.recipe_for(known, scale, seed)))
        for folder, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert made[0] == made[1]
    assert made[0] != made[2]
    found = datasets.survey(tmp_path / "a", known)
    assert found.samples == 10
    assert len(datasets.open_dataset(found, lambda sample: sample)) == 10


def test_an_interrupted_generation_goes_on_where_it_was_and_ends_the_same(tmp_path):
    what = generate.DatasetRecipe("gld", 12, 5)
    whole = contents(generate.generate_dataset(tmp_path / "whole", what))
    root = generate.generate_dataset(tmp_path / "torn", what)
    kept = generate.picture_path(root, what, 1)
    for index in (0, 4, 7):
        generate.picture_path(root, what, index).unlink()
    generate.picture_path(root, what, 9).write_bytes(b"")  # as a power cut leaves it
    kept.with_name(kept.name + ".part-1").write_bytes(b"half")
    (root / generate.MARKER).unlink()
    before = kept.stat().st_mtime_ns
    seen = []
    generate.generate_dataset(root, what, lambda done, total: seen.append((done, total)))
    assert contents(root) == whole
    assert kept.stat().st_mtime_ns == before
    assert seen[0] == (8, 12) and seen[-1] == (12, 12)


def test_the_number_of_processes_does_not_change_the_result(tmp_path):
    what = generate.DatasetRecipe("folder", 9, 1)
    one = contents(generate.generate_dataset(tmp_path / "one", what, processes=1, in_one_process=4))
    three = contents(generate.generate_dataset(tmp_path / "three", what, processes=3, in_one_process=4))
    assert one == three


def test_pictures_have_the_size_distribution_of_the_papers_dataset():
    from PIL import Image

    files = [drawing.jpeg(0, index, (800, 600), 122_000) for index in range(60)]
    sizes = np.array([len(file) for file in files])
    assert 108_000 < sizes.mean() < 136_000
    assert 0.2 < np.log(sizes).std() < 0.5
    with Image.open(io.BytesIO(files[0])) as picture:
        assert picture.size == (800, 600) and picture.mode == "RGB"


def test_pictures_are_like_photographs_and_not_like_noise_or_flat_colour():
    from PIL import Image

    slopes = []
    for index in range(8):
        with Image.open(io.BytesIO(drawing.jpeg(0, index, (800, 600), 122_000))) as picture:
            grey = np.asarray(picture.convert("L"), np.float64)[:512, :512]
        spectrum = np.abs(np.fft.fft2(grey - grey.mean()))
        radius = np.hypot(*np.meshgrid(np.fft.fftfreq(512), np.fft.fftfreq(512)))
        band = (radius > 0.01) & (radius < 0.3)
        slopes.append(np.polyfit(np.log(radius[band]), np.log(spectrum[band] + 1e-9), 1)[0])
        assert grey.std() > 10
    # Photographs fall with about the inverse of the frequency; white noise has slope 0.
    assert -1.7 < np.mean(slopes) < -0.7


def test_a_scale_is_of_the_papers_sample_count():
    known = entry("mobilenet_v3")
    assert [generate.recipe_for(known, scale).samples for scale in (0.25, 1, 4)] == [5_770, 23_080, 92_320]
    for wrong in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(RequestError, match="scale"):
            generate.recipe_for(known, wrong)
        with pytest.raises(UsageError, match="scale"):
            dataset_recipe(known, wrong)


def test_too_little_space_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(TrainingError, match=r"needs 12.8 MB more .* has 0.0 MB left"):
        generate.generate_dataset(tmp_path / "data", generate.DatasetRecipe("gld", 100, 0), free=lambda folder: 5_000)


def test_the_runner_raises_the_errors_of_the_package(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkloadError, match="cannot write"):
        generate_dataset(tmp_path / "file" / "data", generate.DatasetRecipe("mnist", 10, 0))
