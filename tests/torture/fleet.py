"""Kills workers and the scheduler while a campaign runs on simulated boards: every run is recorded exactly once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edgetrain.device import open_simulated
from edgetrain.fleet import SCHEDULER, Fleet, FleetCampaign, local_inventory
from edgetrain.fleet.board_work import device_there, list_record
from edgetrain.record import FolderStore
from edgetrain.runner import Plan
from edgetrain.schema import FleetProgress

FULL = 400
BOARDS, WORKER_KILLS, SCHEDULER_KILLS = 20, 10, 2
KIND = "orin-nano"
MODES = ("15W", "7W")
WORKERS = (0, 1)
MINIBATCHES = 8


@dataclass(frozen=True)
class Disturbed:
    """What became of a campaign whose processes were killed."""

    boards: int
    planned: int
    worker_kills: int
    scheduler_kills: int
    asked_again: int  # submissions beyond one per run
    took_s: float

    def __str__(self) -> str:
        kills = f"{self.worker_kills} kills of workers and {self.scheduler_kills} of the scheduler"
        return (
            f"{self.planned} runs on {self.boards} simulated boards in {self.took_s:.0f} s, {kills}: every planned run "
            f"recorded exactly once, every record equal to the board's own, {self.asked_again} experiments asked for "
            "again; all boards back in their original state, no process left"
        )


class Killer:
    """Kills processes of a fleet at random instants of a campaign."""

    def __init__(self, fleet: Fleet, names: list[str], planned: int, chance: random.Random) -> None:
        self.fleet, self.chance = fleet, chance
        at = sorted(chance.sample(range(1, max(2, int(planned * 0.9))), len(names)))
        self.left = list(zip(at, names, strict=True))
        self.killed: Counter[str] = Counter()
        self.latest: FleetProgress | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Killer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def __call__(self, progress: FleetProgress) -> None:
        self.latest = progress

    def _run(self) -> None:
        while self.left and not self.stop.wait(0.02):
            at, name = self.left[0]
            if self.latest is None or len(self.latest.done) < at or not self.latest.now:
                continue
            time.sleep(self.chance.uniform(0, 0.5))
            if self._kill(name):
                self.left.pop(0)

    def _kill(self, name: str) -> bool:
        now = sorted(self.latest.now) if self.latest else []
        chosen = SCHEDULER if name == SCHEDULER else (self.chance.choice(now) if now else None)
        ids = self.fleet.pids().get(chosen) if chosen else None
        if ids is None or ids.command is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(ids.command, signal.SIGKILL)
            self.killed[name] += 1
            return True
        return False


def disturb(folder: Path, boards: int, runs: int, workers: int, schedulers: int, seed: int) -> Disturbed:
    """Carry a campaign out while processes are killed, and check everything that it promises."""
    fleet = Fleet(local_inventory((KIND,) * boards), folder / "home")
    devices = {one.name: device_there(fleet.folder_of(one), one.device) for one in fleet.inventory.boards}
    before = {name: settings_of(device) for name, device in devices.items()}
    settings = len(MODES) * len(WORKERS)
    plan = Plan(
        "disturbed",
        {"network": "lenet5", "epochs": 1, "minibatches": MINIBATCHES},
        {"power_mode": list(MODES), "workers": list(WORKERS)},
        repeats=runs // settings,
        order="random",
    )
    space = open_simulated(next(iter(devices.values())).removeprefix("sim:")).modes()
    assert space is not None
    store = FolderStore(folder / "store")
    campaign = FleetCampaign(plan, fleet, store, space.find_mode)
    assert len(campaign.jobs) == runs
    chance = random.Random(seed)
    names = ["worker"] * workers + [SCHEDULER] * schedulers
    chance.shuffle(names)
    began_s = time.monotonic()
    with Killer(fleet, names, runs, chance) as killer:
        ended = campaign.carry_out(killer)
    took_s = time.monotonic() - began_s
    assert not killer.left, f"{len(killer.left)} of {len(names)} kills came too late"
    assert ended.complete and not ended.failed and not ended.not_restored, ended
    check_records(campaign, fleet, store)
    assert {name: settings_of(device) for name, device in devices.items()} == before
    assert fleet.pids() == {}
    entries = campaign.journal.read()
    asked_again = sum(1 for entry in entries if entry.kind == "begun") - runs
    return Disturbed(boards, runs, killer.killed["worker"], killer.killed[SCHEDULER], asked_again, took_s)


def settings_of(device: str) -> tuple[object, object]:
    """Return what is set on a simulated board, as its files show it now."""
    board = open_simulated(device.removeprefix("sim:"))
    return board.state(), board.active_stock()


def check_records(campaign: FleetCampaign, fleet: Fleet, store: FolderStore) -> None:
    """Check that every planned run has exactly one record, equal to the one on its board, and that it can be read."""
    rows = list(store.runs())
    manifests = {row.run: store.manifest(row.run) for row in rows}
    assert {one.state for one in manifests.values()} == {"finished"}
    assert Counter((one.position, one.repeat) for one in manifests.values()) == Counter(
        (job.planned.position, job.planned.repeat) for job in campaign.jobs
    )
    assert sorted(campaign.known.done.values()) == sorted(manifests)
    on_board = {
        path.name: path
        for one in fleet.inventory.boards
        for path in (Path(fleet.folder_of(one)) / "store" / "runs").glob("*")
    }
    for run in manifests:
        assert list_record(store.runs_folder / run) == list_record(on_board[run])
        assert len(store.open(run).minibatches()) == MINIBATCHES


def run(count: int, seed: int) -> str:
    """Run the full count of experiments, or a share of it with a share of the boards and kills."""
    share = count / FULL
    boards, workers = max(2, round(BOARDS * share)), max(2, round(WORKER_KILLS * share))
    schedulers = max(1, round(SCHEDULER_KILLS * share))
    step = len(MODES) * len(WORKERS)
    with tempfile.TemporaryDirectory(prefix="edgetrain-fleet-") as folder:
        return str(disturb(Path(folder), boards, max(step, count // step * step), workers, schedulers, seed))
