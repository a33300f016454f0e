"""Cooling and warming are checked by residency, and said where they did not work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgetrain.runner import cache


def silent(done: int, total: int) -> None:
    pass


@pytest.fixture
def files(tmp_path):
    made = []
    for number in range(30):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(os.urandom(20_000))
        made.append(str(path))
    return made


def test_cold_after_warm_after_cold(files, tmp_path):
    # A file nobody may drop with stands in for a user without root.
    drop = tmp_path / "absent" / "drop_caches"
    for asked in ("cold", "warm", "cold"):
        found = cache.bring_cache_to(asked, files, silent, drop=drop)
        assert found.state.asked == asked
        # What cooling and warming left is recorded apart: a cold run must have been seen to be cold.
        check = found.state.cold_check if asked == "cold" else found.state.check
        assert (found.state.check is None) == (asked == "cold")
        if check.share_before is None:
            assert found.doubt is not None and found.doubt.kind == "cache_not_checked"
            continue
        assert found.doubt is None
        assert check.share_before == pytest.approx(1.0 if asked == "warm" else 0.0, abs=0.02)
    assert check.method == "posix_fadvise"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no memory filesystem to write to")
def test_files_that_cannot_be_cooled_are_a_doubt(tmp_path):
    path = Path(f"/dev/shm/edgetrain-test-{os.getpid()}")
    path.write_bytes(b"x" * 100_000)
    try:
        found = cache.bring_cache_to("cold", [str(path)], silent, drop=tmp_path / "absent" / "drop_caches")
    finally:
        path.unlink()
    assert found.doubt is not None
    assert found.doubt.kind in ("cache_not_cold", "cache_not_checked")


def test_keeping_touches_nothing_and_still_looks(files):
    cache.bring_cache_to("warm", files, silent)
    found = cache.bring_cache_to("keep", files, silent)
    assert found.doubt is None and found.state.check.method == "left as it was"
    assert found.state.check.share_before is None or found.state.check.share_before > 0.9


def test_a_reader_in_a_control_group_enters_it_before_it_reads(files, tmp_path):
    group = tmp_path / "own" / "cgroup.procs"
    group.parent.mkdir()
    assert "control group" in cache.make_warm(files, silent, join=str(tmp_path / "{worker}" / "cgroup.procs"))
    assert int(group.read_text()) > 0
