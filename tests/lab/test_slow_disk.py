"""A dataset on the slow disk is the same dataset, read at the medium's pace and cached by the kernel."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgetrain.errors import LabError
from edgetrain.lab import (
    MachineLimits,
    Mechanisms,
    MediumModel,
    cgroups,
    find_mechanisms,
    images,
    loop,
    resolve_limits,
    sessions,
)
from edgetrain.lab.memory import SETTLE_S
from edgetrain.lab.readers import read_files
from edgetrain.schema import Limits
from edgetrain.workload import cached_bytes

SLOW = MediumModel("slow", 0.02, 100e6)


def nothing_left(session):
    return (
        not session.folder.exists()
        and not sessions.mounts_under(session.folder)
        and not loop.backed_by(str(session.folder))
        and not sessions.servers_of(session.folder)
        and not [path for path in cgroups.ours() if session.id in path.name]
    )


def test_the_dataset_is_the_same_and_everything_is_gone_after(own_lab, files):
    with MachineLimits(storage=SLOW).applied() as lab:
        view = lab.dataset_path(files)
        for path in files.rglob("*.bin"):
            assert (view / path.relative_to(files)).read_bytes() == path.read_bytes()
        with pytest.raises(OSError):
            (view / "new").write_text("read-only")
        assert "slow disk" in lab.got.storage.by
    assert nothing_left(lab.session)


def test_cold_reads_take_the_mediums_time_and_warm_ones_do_not(own_lab, files):
    with MachineLimits(storage=SLOW).applied() as lab:
        view = lab.dataset_path(files)
        names = [str(path) for path in sorted(view.rglob("*.bin"))][::2]  # not one after the other on the disk
        cold = read_files([names])
        warm = read_files([names], drop=False)
    assert cold.quantile_s(0.5) == pytest.approx(SLOW.cost_s(100_000), rel=0.25)
    assert warm.quantile_s(0.5) < 0.005


def test_a_folder_is_served_where_there_is_no_loop_device(own_lab, files):
    no_loop = replace(find_mechanisms(), lacks={"loop": "no /dev/loop-control"})
    with MachineLimits(storage=SLOW).applied(mechanisms=no_loop) as lab:
        view = lab.dataset_path(files)
        names = sorted(path.relative_to(files) for path in files.rglob("*.bin"))
        assert sorted(path.relative_to(view) for path in view.rglob("*.bin")) == names
        first = view / names[0]
        assert first.read_bytes() == (files / names[0]).read_bytes()
        cold = read_files([[str(view / name) for name in names[1:15]]], drop=False)
        assert cold.quantile_s(0.5) == pytest.approx(SLOW.cost_s(100_000), rel=0.25)
        assert "slow folder" in lab.got.storage.by and lab.doubts
    assert nothing_left(lab.session)


WITHOUT_ROOT = {"root": "mounting needs root", "fuse": "no permission for /dev/fuse"}


def test_without_root_reads_wait_in_our_training_program(own_lab, files):
    no_root = Mechanisms(cgroups.Hierarchies(0, {}), WITHOUT_ROOT)
    with MachineLimits(storage=SLOW).applied(mechanisms=no_root) as lab:
        assert lab.dataset_path(files) == files
        assert json.loads(lab.environment()["EDGETRAIN_READ_QUEUE"])["folder"] == str(files)
        assert "user space" in lab.got.storage.by and "mounting needs root" in lab.doubts[0]
    assert nothing_left(lab.session)


def test_without_root_a_program_of_the_user_is_refused_rather_than_not_slowed_down(own_lab, files):
    no_root = Mechanisms(cgroups.Hierarchies(0, {}), WITHOUT_ROOT)
    limits = MachineLimits(storage=SLOW)
    with (
        pytest.raises(LabError, match="program of your own"),
        limits.applied(mechanisms=no_root, user_program=True) as lab,
    ):
        lab.dataset_path(files)
    assert nothing_left(lab.session)


def test_a_medium_faster_than_the_mechanism_is_refused_and_leaves_nothing(own_lab, files):
    light = MediumModel("light", 1e-7, 1e12)
    with pytest.raises(LabError, match="takes"), MachineLimits(storage=light).applied() as lab:
        lab.dataset_path(files)
    assert nothing_left(lab.session)


def test_an_empty_dataset_is_refused(own_lab, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="no files"), MachineLimits(storage=SLOW).applied() as lab:
        lab.dataset_path(tmp_path / "empty")


def test_the_page_cache_stays_within_its_limit(own_lab, files):
    with resolve_limits(Limits(page_cache="9MB")).applied(workers=1) as lab:
        for number in range(3):
            for path in files.rglob("*.bin"):
                path.with_suffix(f".{number}").write_bytes(os.urandom(200_000))
        os.sync()
        names = [str(path) for path in files.rglob("*.[012]")]
        read_files([names], lab.joined_files())
        time.sleep(SETTLE_S)
        read_files([names], lab.joined_files())
        kept = 0
        for name in names:
            with open(name, "rb") as file:
                kept += min(200_000, cached_bytes(file.fileno(), 200_000))
        assert kept <= 9_000_000 * 1.15
        assert kept >= 9_000_000 * 0.6
    assert not [path for path in cgroups.ours() if lab.session.id in path.name]


def test_a_command_runs_on_the_cores_asked_for(own_lab):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only")
    with resolve_limits(Limits(cores=1)).applied() as lab:
        done = subprocess.run(
            [*lab.command_prefix(), sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.strip() == "1"
    assert len(os.sched_getaffinity(0)) > 1


HOLDER = """
import sys, time
from pathlib import Path
from edgetrain.lab import MachineLimits, MediumModel
with MachineLimits(storage=MediumModel("slow", 0.02, 100e6), ram_bytes=20_000_000, cores=1).applied(workers=2) as lab:
    lab.dataset_path(Path(sys.argv[1]))
    print(lab.session.id, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_run_leaves_is_found_and_removed_at_the_next_start(own_lab, files):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(files)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    left = sessions.LabSession(holder.stdout.readline().strip(), Path())
    left = next(one for one in sessions.find_sessions() if one.id == left.id)
    assert not left.is_leftover()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert left.is_leftover() and sessions.mounts_under(left.folder)
    assert sessions.sweep() == [left.id]
    assert nothing_left(left)


def test_a_killed_server_leaves_nothing_that_lab_down_cannot_remove(own_lab, files):
    with MachineLimits(storage=SLOW).applied() as lab:
        view = lab.dataset_path(files)
        for pid in sessions.servers_of(lab.session.folder):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        with pytest.raises(OSError):
            for path in view.rglob("*.bin"):
                path.read_bytes()
    assert nothing_left(lab.session)


def test_taking_down_touches_only_what_is_ours(own_lab, tmp_path):
    mine = sessions.new()
    (mine.folder / "view").mkdir()
    (mine.folder / "somebody's file").write_text("keep me")
    stayed = sessions.take_down(mine)
    assert stayed and (mine.folder / "somebody's file").read_text() == "keep me"


def test_the_image_of_a_dataset_that_is_gone_is_forgotten(own_lab, files):
    kept = images.build_image(files)
    assert images.build_image(files) == kept and images.forget_images() == 0
    shutil.rmtree(files)
    assert images.forget_images() == 1 and not kept.exists()
