"""Runs are carried out for real: a child process trains, a sampler watches, and the record says what happened."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from edgetrain.device import open_device
from edgetrain.errors import StoreError, UsageError, WorkloadError
from edgetrain.inside.stream import MAGIC
from edgetrain.lab import limits_for
from edgetrain.record import FolderStore
from edgetrain.runner import Interrupted
from edgetrain.runner import execute as carry_out
from edgetrain.runner import manifest as facts
from edgetrain.runner.recording import Recording
from edgetrain.schema import Experiment, Loading, Origin, Workload

LENET = Experiment(Workload("lenet5", dataset_scale=0.01), Loading(workers=0, cache="cold"), epochs=2, minibatches=12)

OWN = """
import os, signal, torch
from torch import nn

class Numbers(torch.utils.data.Dataset):
    def __init__(self, fatal=None):
        self.fatal = fatal
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if index == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": torch.full((4,), float(index)), "y": torch.tensor(float(index))}

def step(network, minibatch):
    return nn.functional.mse_loss(network(minibatch["x"])[:, 0], minibatch["y"])

def make_workload():
    return {"network": nn.Linear(4, 1), "dataset": Numbers(), "step": step, "batch_size": 8,
            "optimizer": lambda parameters: torch.optim.Adam(parameters)}

def deadly():
    return {**make_workload(), "dataset": Numbers(fatal=40)}

class Slow(Numbers):
    def __getitem__(self, index):
        import time
        time.sleep(0.02)
        return super().__getitem__(index)

def slow():
    return {**make_workload(), "dataset": Slow()}

def broken():
    raise ValueError("the file of weights is not there")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return FolderStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def finished(store):
    seen = []
    name = execute(LENET, "auto", store, lambda stage, done, total: seen.append((stage, done, total)))
    return store.open(name), seen


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    experiment = Experiment(Workload("mine:make_workload"), Loading(workers=1), epochs=2)
    return lambda function="make_workload", **more: replace(
        experiment, workload=replace(experiment.workload, network=f"mine:{function}"), **more
    )


def execute(experiment, device, store, progress=None):
    """Carry out an experiment; return the id of its run."""
    done = carry_out(experiment, device, store, progress)
    assert done.status == 0
    return done.run


def test_a_finished_run_holds_every_minibatch_of_every_epoch(finished):
    run, seen = finished
    assert run.manifest.state == "finished" and not run.lost
    assert len(run.minibatches()["asked_us"]) == 24
    assert np.bincount(run.minibatches()["epoch"]).tolist() == [12, 12]
    assert (run.minibatches()["samples"] == 16).all()
    assert (run.minibatches()["asked_us"] <= run.minibatches()["ready_us"]).all()
    assert (run.minibatches()["ready_us"] <= run.minibatches()["done_us"]).all()
    assert len(run.manifest.losses) == 2
    assert {"dataset", "prepare", "cold"} <= {stage for stage, _, _ in seen}


def test_the_manifest_holds_what_later_packages_need(finished):
    run = finished[0]
    manifest, workload = run.manifest, run.manifest.workload
    assert manifest.origin is Origin.MEASURED
    assert (workload.parameters, workload.samples, workload.minibatches_per_epoch) == (61_706, 600, 12)
    assert workload.dataset_files == 2 and workload.dataset_bytes > 600 * 784
    assert workload.size_quantiles["1"] >= workload.size_quantiles["0.5"] > 0
    assert workload.filesystem
    assert manifest.compute.kind in ("cpu", "cuda")
    assert manifest.device.torch and manifest.device.kernel
    instants = run.minibatches()["asked_us"]
    assert manifest.clock.start.monotonic_us < instants.min()
    assert instants.max() < manifest.clock.end.monotonic_us
    assert run.sampler.cpu_s >= 0
    assert manifest.experiment == LENET


def test_a_cold_run_was_seen_to_be_cold_before_it_began(finished):
    check = finished[0].manifest.cache.cold_check
    if check.share_before is None:
        assert any(doubt.kind == "cache_not_checked" for doubt in finished[0].manifest.doubts)
    else:
        assert check.share_before <= 0.02
        assert check.method.startswith("posix_fadvise")


def test_the_same_seed_gives_the_same_losses_whatever_the_cache(finished, store):
    again = store.open(execute(replace(LENET, loading=Loading(workers=0)), "auto", store))
    assert again.manifest.losses == finished[0].manifest.losses


def test_your_own_workload_trains_with_its_own_step_optimiser_and_batch_size(own, store):
    loading = Loading(workers=1, prefetch=3, persistent=False)
    run = store.open(execute(own(timing="sync", loading=loading), "auto", store))
    assert run.manifest.workload.batch_size == 8
    assert len(run.minibatches()["asked_us"]) == 16
    (loader,) = run.main.facts.loaders
    assert loader.dataset_class == "Numbers"
    assert (loader.prefetch_factor, loader.persistent_workers) == (3, False)
    assert run.main.facts.timing == "sync"
    assert (run.minibatches()["worker"] == 0).all()


def test_a_paced_step_takes_its_time_computes_nothing_and_is_called_emulated(store):
    paced = replace(LENET, compute="paced", compute_ms=20.0, epochs=1, loading=Loading(workers=1, start_method="spawn"))
    run = store.open(execute(replace(paced, baseload_s=0.3), "auto", store))
    assert run.manifest.origin is Origin.EMULATED
    step_us = run.minibatches()["done_us"] - run.minibatches()["ready_us"]
    assert (step_us >= 20_000).all() and np.median(step_us) < 40_000
    assert run.manifest.losses == (None,)
    assert run.main.facts.loaders[0].start_method == "spawn"
    assert run.manifest.workload.parameters == 61_706
    kinds = [doubt.kind for doubt in run.manifest.doubts]
    assert (run.manifest.baseload is None) == (run.manifest.power is None) == ("no_baseload" in kinds)


def test_half_written_pictures_are_counted_and_named_and_the_run_goes_on(store, tmp_path):
    from PIL import Image

    for number in range(10):
        path = tmp_path / "data" / "train" / "a" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((64, 48), 50).save(path)
    for number in (3, 7):
        path = tmp_path / "data" / "train" / "a" / f"{number}.jpg"
        path.write_bytes(path.read_bytes()[:200])
    experiment = Experiment(
        Workload("resnet18", dataset=str(tmp_path / "data"), batch_size=5),
        Loading(workers=3),
        epochs=1,
        compute="paced",
        compute_ms=1.0,
    )
    run = store.open(execute(experiment, "auto", store))
    doubts = {doubt.kind: doubt.text for doubt in run.manifest.doubts}
    assert doubts["bad_files"].startswith("2 files could not be decoded")
    assert "3.jpg" in doubts["bad_files"] and "7.jpg" in doubts["bad_files"]
    if len(os.sched_getaffinity(0)) < 3:
        assert "3 loader workers" in doubts["workers_exceed_cores"]


def test_a_dataset_of_nothing_but_torn_pictures_fails_in_a_sentence(store, tmp_path):
    for number in range(8):
        path = tmp_path / "data" / "a" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not a picture")
    experiment = Experiment(
        Workload("resnet", dataset=str(tmp_path / "data"), batch_size=4),
        Loading(workers=1),
        compute="paced",
        compute_ms=1.0,
    )
    with pytest.raises(UsageError, match="no workload is called 'resnet'"):
        execute(experiment, "auto", store)
    experiment = replace(experiment, workload=replace(experiment.workload, network="mobilenet"))
    with pytest.raises(WorkloadError, match=r"^8 pictures in a row cannot be decoded"):
        execute(experiment, "auto", store)
    manifest = store.manifest("last")
    assert manifest.state == "failed" and manifest.workload.network == "mobilenet_v3"
    assert manifest.doubts[-1].text.startswith("8 files could not be decoded")


def test_a_killed_loader_worker_fails_the_run_and_the_record_names_it(own, store):
    with pytest.raises(WorkloadError, match="loader worker died") as raised:
        execute(own("deadly"), "auto", store)
    manifest = store.manifest("last")
    assert (manifest.run, manifest.state) == (raised.value.run, "failed")
    assert "loader worker died" in manifest.reason
    assert any(event.kind == "worker_died" for event in store.open("last").events)


def trainings(store):
    """Return the process ids of trainings under way whose first minibatches are on disk."""
    found = []
    for stream in store.runs_folder.glob("*/minibatches-*.ets"):
        pid = int(stream.stem.partition("-")[2])
        if Path(f"/proc/{pid}").exists() and MAGIC in stream.read_bytes():
            found.append(pid)
    return found


def once_training(store, then):
    """Do something, from another thread, once a training has begun to record."""

    def wait():
        for _ in range(600):
            time.sleep(0.05)
            found = trainings(store)
            if found:
                then(found[0])
                return

    threading.Thread(target=wait, daemon=True).start()


def test_a_killed_training_process_leaves_what_it_had_recorded(own, store):
    once_training(store, lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(WorkloadError, match="ended by SIGKILL"):
        execute(own("slow", epochs=100), "auto", store)
    run = store.open("last")
    assert run.manifest.state == "failed"
    assert len(run.minibatches()["asked_us"]) > 0


def test_a_signal_closes_the_record_and_ends_every_process_and_a_second_one_changes_nothing(own, store):
    def impatient(pid):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    once_training(store, impatient)
    with pytest.raises(Interrupted) as raised:
        execute(own("slow", epochs=100), "auto", store)
    run = store.open(raised.value.run)
    assert raised.value.signal == signal.SIGTERM
    assert run.manifest.state == "interrupted" and "SIGTERM" in run.manifest.reason
    assert len(run.minibatches()["asked_us"]) > 0 and not run.lost
    assert trainings(store) == []


def test_a_mistake_in_your_workload_is_a_sentence_and_a_failed_record(own, store):
    with pytest.raises(WorkloadError, match="ValueError: the file of weights is not there"):
        execute(own("broken"), "auto", store)
    assert store.manifest("last").state == "failed"
    assert "Traceback" in (store.locate("last") / "training.log").read_text()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (replace(LENET, workload=Workload("lenet5", dataset="/nowhere")), "there is no dataset at /nowhere"),
        (replace(LENET, workload=replace(LENET.workload, batch_size=601)), "600 samples, fewer than one minibatch"),
        (replace(LENET, workload=Workload("alexnet")), "no workload is called 'alexnet'"),
        (replace(LENET, compute="paced"), "--compute-ms"),
        (replace(LENET, compute="tpu"), "--compute is 'tpu'; it is one of auto"),
        (replace(LENET, loading=Loading(workers=-1)), "--workers is -1; the minimum is 0"),
        (replace(LENET, loading=Loading(cache="icy")), "--cache is 'icy'; it is one of cold"),
        (replace(LENET, epochs=0), "--epochs is 0; the minimum is 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(finished, store, wrong, text):
    before = len(store.runs())
    with pytest.raises(UsageError, match=text):
        execute(wrong, "auto", store)
    assert len(store.runs()) == before


def test_what_cannot_be_meant_is_refused_on_a_simulated_board_too(store):
    before = len(store.runs())
    for wrong in (Loading(workers=-1), Loading(cache="icy"), Loading(prefetch=0)):
        with pytest.raises(UsageError, match=r"the minimum is|it is one of"):
            execute(replace(LENET, loading=wrong), "sim:orin-agx", store)
    assert len(store.runs()) == before


def test_a_store_that_cannot_be_written_is_named_before_training(finished, store):
    dataset = str(next(store.data.iterdir()))
    elsewhere = replace(LENET, workload=Workload("lenet5", dataset=dataset))
    with pytest.raises(StoreError, match="--store"):
        execute(elsewhere, "auto", FolderStore("/proc/edgetrain"))


class NeverStarted:
    """A trainee that must not be started."""

    def start(self, prefix, environment, dataset):
        raise AssertionError("training was started")

    def stop(self):
        raise AssertionError("training was started")


def test_a_store_without_space_for_a_record_is_named_before_training(store):
    device = open_device("host")
    manifest = facts.first_manifest(LENET, device, ("edgetrain",))
    writer = store.create(manifest)
    recording = Recording(
        LENET, device, "host", writer, manifest, lambda *seen: None, NeverStarted(), min_free_bytes=1 << 60
    )
    with pytest.raises(StoreError, match="free some space") as raised:
        recording.carry_out(limits_for(LENET), None, ())
    assert raised.value.run == writer.id
    assert store.manifest(writer.id).state == "failed" and "free some space" in store.manifest(writer.id).reason


def test_a_kill_for_want_of_memory_is_distinguished_from_other_kills():
    assert "ran out of memory" in facts.out_of_memory(3, 4)
    for before, after in ((3, 3), (None, 4), (3, None)):
        assert facts.out_of_memory(before, after) is None
    assert facts.oom_kills() is None or facts.oom_kills() >= 0


def test_other_systems_than_linux_are_refused(store, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="measured on Linux"):
        execute(LENET, "auto", store)
