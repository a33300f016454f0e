"""A campaign on simulated boards over Dask: killed processes, a killed campaign, a second one on the same boards."""

import json
import subprocess
import sys
import time

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from edgetrain.cli import main
from edgetrain.fleet import Fleet, FleetCampaign, local_inventory, read_inventory
from edgetrain.record import FolderStore
from edgetrain.runner import Placement, Plan
from tests.schemas import check_document
from tests.torture.fleet import disturb

SETTINGS = {"network": "lenet5", "epochs": 1, "minibatches": 8}
SCRIPT = """
import sys
from pathlib import Path
from edgetrain.fleet import Fleet, FleetCampaign, local_inventory
from edgetrain.record import FolderStore
from edgetrain.runner import Plan
name, folder, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
plan = Plan(name, {"network": "lenet5", "epochs": 1, "minibatches": 8}, repeats=repeats)
campaign = FleetCampaign(plan, Fleet(local_inventory(("nano",)), folder), FolderStore(folder / name))
ended = campaign.carry_out(lambda progress: print(progress.note or len(progress.done), flush=True))
assert ended.complete and not ended.failed, ended
"""


def wait_for(holds, seconds=20.0):
    until_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.05)


def start(*words):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *map(str, words)], stdout=subprocess.PIPE, text=True)


def test_every_planned_run_is_recorded_once_though_workers_and_the_scheduler_are_killed(tmp_path):
    found = disturb(tmp_path, boards=2, runs=8, workers=1, schedulers=1, seed=1)
    assert (found.worker_kills, found.scheduler_kills) == (1, 1)


def test_a_killed_campaign_leaves_no_process_and_started_again_it_is_completed(tmp_path):
    fleet = Fleet(local_inventory(("nano",)), tmp_path)
    process = start("killed", tmp_path, 3)
    wait_for(lambda: int(process.stdout.readline()) >= 1)
    process.kill()
    process.wait()
    wait_for(lambda: fleet.pids() == {})
    second = start("killed", tmp_path, 3)
    assert second.wait(60) == 0
    store = FolderStore(tmp_path / "killed")
    assert sorted(store.manifest(row.run).repeat or 0 for row in store.runs()) == [0, 1, 2]


def test_a_second_campaign_on_the_same_boards_waits_for_the_first(tmp_path):
    first = start("first", tmp_path, 2)
    wait_for(lambda: first.stdout.readline())
    second = start("second", tmp_path, 1)
    assert "is used by campaign first-" in second.stdout.readline()
    assert first.wait(60) == 0 and second.wait(60) == 0
    assert len(list(FolderStore(tmp_path / "first").runs())) == 2
    assert len(list(FolderStore(tmp_path / "second").runs())) == 1
    assert Fleet(local_inventory(("nano",)), tmp_path).pids() == {}


def test_a_fleet_that_was_asked_to_stay_up_outlives_a_campaign_in_which_every_unit_makes_every_run(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("EDGETRAIN_FLEET_HOME", str(tmp_path / "home"))
    inventory = tmp_path / "fleet.yaml"
    boards = "\n".join(f"  - {{name: nano-{at}, device: 'sim:nano?unit={at}'}}" for at in (1, 2))
    inventory.write_text(f"name: local\nport: 0\nboards:\n{boards}\n")
    fleet, store = Fleet(read_inventory(inventory)), FolderStore(tmp_path / "store")
    try:
        assert main(["fleet", "up", str(inventory), "--json"]) == 0
        status = json.loads(capfd.readouterr().out)
        check_document(["fleet", "up"], status)
        assert status["kept"] and all(row["running"] for row in status["rows"])
        plan = Plan("units", SETTINGS, place=Placement(every_unit=True))
        ended = FleetCampaign(plan, fleet, store).carry_out()
        assert {json.loads(key)[1] for key in ended.done} == {"nano-1", "nano-2"}
        assert len({store.manifest(row.run).device.serial for row in store.runs()}) == 2
        keys = list((tmp_path / "home" / "local" / "tls").glob("*.key"))
        assert keys and all(path.stat().st_mode & 0o777 == 0o600 for path in keys)
        assert set(fleet.pids()) == {"scheduler", "nano-1", "nano-2"}
    finally:
        assert main(["fleet", "down", str(inventory)]) == 0
    assert fleet.pids() == {}
    assert FleetCampaign(plan, fleet, store).carry_out().complete and fleet.pids() == {}
