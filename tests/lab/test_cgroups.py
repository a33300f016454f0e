"""Both versions of control groups are found and written as the kernel wants them (a folder stands in for version 2)."""

from pathlib import Path

import pytest

from edgetrain.errors import LabError
from edgetrain.lab import MachineLimits, Mechanisms, cgroups
from edgetrain.lab.hold import Lab
from edgetrain.lab.memory import CacheLimit, read_group_memory, set_limit

OFFERED = "cpuset cpu io memory pids\n"


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """A folder that behaves like a cgroup2 mount: each new group has its files."""
    root = tmp_path / "cgroup"
    plain_mkdir = Path.mkdir

    def mkdir(self, *args, **kwargs):
        plain_mkdir(self, *args, **kwargs)
        if root in (self, *self.parents):
            (self / "cgroup.controllers").write_text(OFFERED)
            (self / "cgroup.subtree_control").write_text("")
            (self / "cgroup.procs").write_text("")
            for name in ("memory.max", "cpu.max", "cpu.weight", "cpuset.cpus", "io.max"):
                (self / name).write_text("")
            (self / "memory.current").write_text("1000000\n")
            (self / "memory.stat").write_text("anon 200000\nfile 700000\nshmem 100000\n")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    root.mkdir()
    return root


def two(root):
    return cgroups.Hierarchies(2, dict.fromkeys(("memory", "cpu", "cpuset", "blkio"), root))


def test_version_2_is_found_from_the_mounts(tmp_path, unified):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"25 1 0:22 / {unified} rw - cgroup2 cgroup2 rw\n")
    found = cgroups.find(mounts)
    assert found.version == 2 and all(found.has(name) for name in cgroups.CONTROLLERS)


def test_version_1_is_found_from_the_mounts(tmp_path):
    mounts = tmp_path / "mountinfo"
    lines = [
        f"2{n} 1 0:2{n} / {tmp_path}/{name} rw - cgroup cgroup rw,{name}" for n, name in enumerate(("cpu", "memory"))
    ]
    mounts.write_text("\n".join([*lines, f"30 1 0:30 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"]) + "\n")
    found = cgroups.find(mounts)
    assert found.version == 1 and set(found.roots) == {"cpu", "memory"}
    assert not found.has("cpuset")


def test_no_control_groups_at_all_is_not_an_error(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text("")
    assert cgroups.find(mounts).version == 0
    with pytest.raises(LabError, match="no 'memory'"):
        cgroups.Groups("x", cgroups.find(mounts)).folder("memory")


def test_version_2_keeps_processes_out_of_inner_groups(unified, monkeypatch, tmp_path):
    """Where a group has children with controllers, only the leaves may take processes."""
    monkeypatch.setenv("EDGETRAIN_LAB_STATE", str(tmp_path / "state"))
    limits = MachineLimits(ram_bytes=50_000_000, cores=1, cpu_share=0.5)
    mechanisms = Mechanisms(two(unified))
    with Lab(limits, 2, print, False, mechanisms, calibrate=lambda groups, share: (share, share)) as lab:
        top = unified / lab.groups.name
        assert lab.worker_group == str(top / "workers" / "{worker}" / "cgroup.procs")
        assert str(top / "main" / "cgroup.procs") in " ".join(lab.command_prefix())
        for worker in ("own", "0", "1"):
            folder = top / "workers" / worker
            assert folder.is_dir() and not any(one.is_dir() for one in folder.iterdir())
            assert (folder / "cpu.max").read_text().split() == ["10000", "20000"]
        assert (top / "cgroup.subtree_control").read_text().strip()
        assert int((top / "workers" / "memory.max").read_text()) >= 50_000_000
        assert (top / "cpuset.cpus").read_text().strip().isdigit()


def test_the_limit_is_the_cache_plus_everything_else(unified):
    folder = cgroups.Groups("x", two(unified)).folder("memory", "workers")
    used = read_group_memory(folder)
    assert (used.cache_bytes, used.other_bytes) == (600_000, 400_000)
    set_limit(folder, 1_000_001)
    assert int((folder / "memory.max").read_text()) == 999_424  # whole pages


def test_only_groups_of_our_name_are_removed(unified):
    mine = cgroups.Groups("abcd1234", two(unified)).folder("cpu")
    other = unified / "somebody"
    other.mkdir()
    for folder in (mine, other):
        for file in folder.iterdir():
            file.unlink()  # the kernel's files go with their group; a folder's do not
    assert cgroups.remove_groups([other, mine]) == []
    assert other.is_dir() and not mine.exists()
    assert cgroups.session_of(Path("edgetrain-lab-abcd1234-server")) == "abcd1234"


def test_a_cache_limit_has_slack_until_all_readers_have_started_and_their_memory_is_stable(unified):
    folder = cgroups.Groups("x", two(unified)).folder("memory", "workers")
    now_s = 100.0
    limit = CacheLimit(folder, 50_000_000, readers=2, now_s=lambda: now_s)

    def slack_mb(other_mb: int, *members: int) -> float:
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in members))
        (folder / "memory.current").write_text(str(other_mb * 1_000_000))
        (folder / "memory.stat").write_text(f"anon {other_mb * 1_000_000}\nfile 0\nshmem 0\n")
        limit.step()
        return int((folder / "memory.max").read_text()) / 1e6 - 50 - other_mb

    assert slack_mb(0) > 100
    assert slack_mb(30, 1) > 100
    now_s += 5
    assert slack_mb(30, 1) > 100  # the second has yet to come
    assert slack_mb(70, 1, 2) > 100
    now_s += 1
    assert abs(slack_mb(70, 1, 2)) < 1.1
    assert slack_mb(95, 1, 2) > 100  # grows again
    now_s += 1
    assert abs(slack_mb(95, 1)) < 1.1  # one has left: the others go on as they are
