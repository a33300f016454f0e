"""Readers read the real formats, and say what is wrong with files that are not."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct

import numpy as np
import pytest

from edgetrain.workload import RequestError, datasets, entry
from edgetrain.workload.datasets import mnist


def raw(sample):
    return sample


def write_idx(root, images, labels, ending=""):
    pack = gzip.compress if ending else bytes
    head = struct.pack(">IIII", 0x0803, len(images), *images.shape[1:])
    (root / ("train-images-idx3-ubyte" + ending)).write_bytes(pack(head + images.tobytes()))
    (root / ("train-labels-idx1-ubyte" + ending)).write_bytes(
        pack(struct.pack(">II", 0x0801, len(labels)) + labels.tobytes())
    )


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist_gives_back_what_its_files_hold(tmp_path, ending):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 28, 28)).astype(np.uint8)
    labels = rng.integers(0, 10, 20).astype(np.uint8)
    write_idx(tmp_path, images, labels, ending)
    reader = datasets.open_dataset(datasets.survey(tmp_path, entry("lenet5")), raw)
    assert len(reader) == 20
    for index in range(20):
        image, label = reader[index]
        assert (image[0] == images[index]).all() and label == labels[index]


def test_a_reader_survives_being_sent_to_a_spawned_worker(tmp_path):
    images = np.arange(2 * 784, dtype=np.uint32).astype(np.uint8).reshape(2, 28, 28)
    write_idx(tmp_path, images, np.array([3, 4], np.uint8))
    reader = mnist.MnistDigits(datasets.survey(tmp_path, entry("lenet5")), raw)
    copy = pickle.loads(pickle.dumps(reader))
    assert (copy[1][0] == reader[1][0]).all() and copy[1][1] == 4


def test_an_idx_file_that_is_too_short_is_refused_before_training(tmp_path):
    write_idx(tmp_path, np.zeros((20, 28, 28), np.uint8), np.zeros(20, np.uint8))
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(RequestError, match="shorter than the 20 images"):
        datasets.survey(tmp_path, entry("lenet5"))


def cifar_batches(root, python, count=30, key=str):
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (count, 3072)).astype(np.uint8)
    labels = rng.integers(0, 10, count)
    half = count // 2
    for number, part in enumerate((slice(0, half), slice(half, count)), start=1):
        if python:
            batch = {key("data"): images[part], key("labels"): labels[part].tolist(), "filenames": ["a"]}
            (root / f"data_batch_{number}").write_bytes(pickle.dumps(batch, protocol=2))
        else:
            rows = np.concatenate([labels[part].astype(np.uint8)[:, None], images[part]], axis=1)
            (root / f"data_batch_{number}.bin").write_bytes(rows.tobytes())
    return images.reshape(-1, 3, 32, 32), labels


@pytest.mark.parametrize(("python", "key"), [(True, str), (True, str.encode), (False, None)])
def test_cifar_gives_back_what_its_batches_hold_in_both_published_formats(tmp_path, python, key):
    images, labels = cifar_batches(tmp_path, python, key=key)
    reader = datasets.open_dataset(datasets.survey(tmp_path, entry("vgg11")), raw)
    assert len(reader) == len(labels)
    for index in (0, 14, 15, 29):
        image, label = reader[index]
        assert (image == images[index]).all() and label == labels[index]


class Evil:
    def __reduce__(self):
        return os.system, ("touch pwned",)


@pytest.mark.parametrize("content", [Evil(), {"data": np.array([print], dtype=object), "labels": [1]}])
def test_a_pickle_that_names_anything_but_arrays_is_refused_and_runs_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(RequestError, match="not genuine"):
        datasets.survey(tmp_path, entry("vgg11"))
    assert not (tmp_path / "pwned").exists()


def test_a_torn_pickle_is_a_message_wherever_it_is_torn(tmp_path):
    cifar_batches(tmp_path, python=True, count=4)
    (tmp_path / "data_batch_2").unlink()
    path = tmp_path / "data_batch_1"
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(RequestError, match="data_batch_1"):
            datasets.survey(tmp_path, entry("vgg11"))


def picture(path, colour=(10, 200, 30)):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), colour).save(path)


def test_image_folders_give_one_class_a_folder(tmp_path):
    for name in ("cat", "ant"):
        for number in range(3):
            picture(tmp_path / "train" / name / f"{number}.jpg")
    found = datasets.survey(tmp_path, entry("resnet18"))
    assert (found.samples, found.classes) == (6, 2)
    reader = datasets.open_dataset(found, raw)
    assert [reader[index][1] for index in range(6)] == [0, 0, 0, 1, 1, 1]
    assert reader[0][0].size == (40, 30)


@pytest.mark.parametrize("network", ["mobilenet_v3", "resnet18"])
@pytest.mark.parametrize("where", ["images/{}.jpg", "{}.jpg", "train/a/b/c/{}.jpg"])
def test_landmarks_are_found_in_each_published_layout_and_missing_ones_are_named(tmp_path, where, network):
    (tmp_path / "mini_gld_train_split.csv").write_text("user_id,image_id,class\n7,abcd,5\n7,abce,0\n8,gone,2\n")
    picture(tmp_path / where.format("abcd"))
    picture(tmp_path / where.format("abce"))
    found = datasets.survey(tmp_path, entry(network))
    assert (found.samples, found.classes, found.missing) == (2, 6, ("gone",))
    assert [label for _, label in datasets.open_dataset(found, raw)] == [5, 0]


def test_a_half_written_picture_is_named_once_and_its_neighbour_used(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_RUN", str(tmp_path))
    for number in range(4):
        picture(tmp_path / "data" / "a" / f"{number}.jpg", (number * 60, 0, 0))
    torn = tmp_path / "data" / "a" / "1.jpg"
    torn.write_bytes(torn.read_bytes()[:300])
    reader = datasets.open_dataset(datasets.survey(tmp_path / "data", entry("resnet18")), raw)
    assert reader[1][0].tobytes() == reader[2][0].tobytes()
    assert reader[1][1] == 0
    (events,) = tmp_path.glob("events-files-*.jsonl")
    (line,) = [json.loads(line) for line in events.read_text().splitlines()]
    assert line["kind"] == "bad_file" and line["file"] == str(torn)


def test_token_windows_overlap_by_their_targets_alone(tmp_path):
    tokens = np.arange(57 * 5 + 1) % 999
    (tmp_path / "train.bin").write_bytes(tokens.astype("<u2").tobytes())
    found = datasets.survey(tmp_path, entry("lstm"))
    assert (found.samples, found.classes) == (5, int(tokens.max()) + 1)
    reader = datasets.open_dataset(found, raw)
    inputs, targets = zip(*[reader[index] for index in range(5)], strict=True)
    assert (np.concatenate(inputs) == tokens[:-1]).all()
    assert (np.concatenate(targets) == tokens[1:]).all()


@pytest.mark.parametrize("name", ["lenet5", "mobilenet_v3", "resnet18", "vgg11", "lstm"])
def test_a_folder_without_the_dataset_is_refused_with_what_was_expected(tmp_path, name):
    with pytest.raises(RequestError, match="expected"):
        datasets.survey(tmp_path, entry(name))
    with pytest.raises(RequestError, match="there is no dataset"):
        datasets.survey(tmp_path / "nowhere", entry(name))
