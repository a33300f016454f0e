"""What a board does for a campaign: an experiment is made once, attached to, found again, or failed with its reason."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from edgetrain.documents import from_document, to_document
from edgetrain.fleet.board_work import BoardOutcome, BoardRequest, carry_out, restore_board
from edgetrain.record import FolderStore
from edgetrain.runner import Plan


def request(folder, attempt=1, **more):
    plan = Plan("b", {"network": "lenet5", "epochs": 1, "minibatches": 8})
    planned = plan.runs(plan.id)[0]
    return BoardRequest(plan.id, planned.key, attempt, str(folder), "sim:nano?unit=2", planned.experiment, **more)


def carry(asked):
    return from_document(BoardOutcome, json.loads(carry_out(json.dumps(to_document(asked)))))


def runs(folder):
    return [row.run for row in FolderStore(folder / "store").runs()]


def test_an_experiment_is_made_once_however_often_it_is_asked_for_and_anew_only_where_its_record_is_damaged(tmp_path):
    first = carry(request(tmp_path))
    assert first.state == "done" and {file.name for file in first.files} >= {"manifest.json"}
    assert carry(request(tmp_path, 2)) == first and runs(tmp_path) == [first.run]
    again = carry(request(tmp_path, 3, damaged=(first.run,)))
    assert again.state == "done" and again.run != first.run and len(runs(tmp_path)) == 2
    assert restore_board(str(tmp_path), "sim:nano?unit=2") == "nothing was left changed"


def test_two_workers_that_are_asked_for_the_same_experiment_get_the_same_run(tmp_path):
    found = []
    threads = [threading.Thread(target=lambda at=at: found.append(carry(request(tmp_path, at)))) for at in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({outcome.run for outcome in found}) == 1 == len(runs(tmp_path))


def test_an_experiment_whose_process_is_killed_is_started_again_once_and_then_fails(tmp_path):
    asked = request(tmp_path)
    stop = threading.Event()

    def kill():
        while not stop.wait(0.02):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                    if b"edgetrain.fleet.experiment" in words and str(asked.home).encode() in words:
                        os.kill(int(path.parent.name), signal.SIGKILL)
                except (OSError, ProcessLookupError):
                    continue

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        outcome = carry(asked)
    finally:
        stop.set()
        killer.join()
    assert outcome.state == "failed" and "2 times" in outcome.reason
    assert carry(request(tmp_path, 2)).state == "done"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root to mount a small disk")
def test_a_full_disk_on_the_board_is_named(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        began_s = time.monotonic()
        with open(place / "filler", "wb") as filler:
            filler.write(bytes(180 << 10))
        outcome = carry(request(place))
        assert outcome.state == "failed" and ("No space left" in outcome.reason or "full" in outcome.reason), outcome
        assert time.monotonic() - began_s < 30
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)  # a process may still be ending there
