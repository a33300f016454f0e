"""The job file, and order, copying and transforms of the training loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from edgetrain.runner.job import job_for, write_job
from edgetrain.schema import Experiment, Loading, Workload
from edgetrain.workload import RequestError, TrainingJob, transforms
from edgetrain.workload.job import read_job
from edgetrain.workload.loop import moved, train
from edgetrain.workload.own import make_own
from edgetrain.workload.training import ShuffledSampler


def test_a_job_file_gives_back_the_job_that_was_written(tmp_path):
    experiment = Experiment(Workload("lenet5"), Loading(workers=3, start_method="spawn"), epochs=4, seed=7)
    job = job_for(experiment, tmp_path, "/photos", generated=True)
    assert job.batch_size is None and (job.workers, job.start_method, job.epochs, job.seed) == (3, "spawn", 4, 7)
    assert read_job(str(write_job(job))) == job


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "schema"),
        ('{"schema": "edgetrain/job/9"}', "edgetrain/job/9"),
        ('{"schema": "edgetrain/job/1", "run": "/r"}', "incomplete"),
    ],
)
def test_a_wrong_job_file_is_refused_with_the_reason(tmp_path, text, reason):
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(RequestError, match=reason):
        read_job(str(tmp_path / "job.json"))


def test_every_epoch_has_a_fresh_order_that_follows_from_the_seed():
    def orders(seed):
        generator = torch.Generator()
        generator.manual_seed(seed)
        sampler = ShuffledSampler(50, 20, generator)
        return [list(sampler) for _ in range(3)]

    first, second, third = orders(7)
    assert first != second != third
    assert len(first) == len(set(first)) == 20
    assert orders(7) == [first, second, third]
    assert orders(8) != [first, second, third]


def test_the_copy_is_timed_by_itself_in_every_minibatch():
    """Otherwise freeing the previous minibatch, which unmaps its memory, would count as copying this one."""
    said = []
    watch = SimpleNamespace(
        epoch=lambda number: said.append("epoch"),
        copying=lambda: said.append("copying"),
        copied=lambda: said.append("copied"),
        launched=lambda: said.append("launched"),
        epoch_done=lambda number, loss: said.append("done"),
    )
    listener = SimpleNamespace(minibatches=0, epoch_began=lambda epoch: None, epoch_ended=lambda epoch, loss: None)
    training = SimpleNamespace(
        network=torch.nn.Linear(2, 2),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        loader=torch.utils.data.DataLoader(torch.randn(12, 2), batch_size=4),
        step=lambda network, minibatch: network(minibatch).sum(),
        samples=12,
    )
    job = TrainingJob(run="", network="mine:make", epochs=2, compute="cpu")
    train(job, training, watch, listener)
    assert said == 2 * ["epoch", *3 * ["copying", "copied", "launched"], "done"]


def test_a_crop_always_lies_inside_its_picture():
    torch.manual_seed(0)
    for width, height in ((800, 600), (600, 800), (10, 1000), (1000, 10), (1, 1)):
        for _ in range(200):
            left, top, right, bottom = transforms.crop_box(width, height)
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height


def test_cutout_blanks_at_most_its_square():
    torch.manual_seed(0)
    for _ in range(50):
        image = transforms.cutout_(torch.ones(3, 224, 224))
        blank = int((image[0] == 0).sum())
        assert 64 <= blank <= 256
        assert torch.equal(image[0], image[2])


def test_photographs_come_out_as_the_papers_feed_them():
    from PIL import Image

    torch.manual_seed(0)
    image = transforms.PhotographTransform(224)(Image.new("RGB", (800, 600), (255, 0, 127)))
    assert image.shape == (3, 224, 224) and image.dtype == torch.float32
    assert float(image[0].max()) == pytest.approx(1.0)
    assert float(image[1].min()) == pytest.approx(-1.0)
    assert abs(float(image[2].median())) < 0.01


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json:dumps", "cannot be called without arguments"),
        ("json:absent", "json has no function 'absent'"),
        ("nosuch.module:make", "there is no module 'nosuch.module'"),
        ("builtins:dict", "returned no 'network'"),
    ],
)
def test_an_own_function_that_cannot_be_used_is_refused_in_a_sentence(name, text):
    with pytest.raises(RequestError, match=text):
        make_own(name, None)


def test_an_own_function_that_wants_the_dataset_is_given_its_folder(tmp_path, monkeypatch):
    (tmp_path / "wanting.py").write_text(
        "def must(dataset):\n    return {'network': 1, 'dataset': dataset}\n"
        "def may(dataset='built in'):\n    return must(dataset)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_own("wanting:must", "/photos").dataset == "/photos"
    assert make_own("wanting:may", "/photos").dataset == "/photos"
    assert make_own("wanting:may", None).dataset == "built in"
    with pytest.raises(RequestError, match="--dataset"):
        make_own("wanting:must", None)


def test_moving_keeps_the_shape_of_any_minibatch():
    minibatch = {"x": torch.ones(2), "more": [torch.zeros(1), (torch.ones(3), "label")]}
    out = moved(minibatch, torch.device("cpu"), pinned=False)
    assert out["more"][1][1] == "label" and torch.equal(out["x"], minibatch["x"])
    assert isinstance(out["more"][1], tuple)
