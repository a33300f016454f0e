"""Carries out a plan on a fleet: the campaign's journal is authoritative, Dask sends the experiments to the boards.

Each experiment is entered as `begun` (attempt, board), then submitted. The future is only a hint: the board's outcome
and the checked record decide. When a worker or the scheduler is lost, the board is asked again under the next attempt;
it returns what is finished, or attaches to what still runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from edgetrain.errors import EdgetrainError, FleetError, UsageError
from edgetrain.fleet.dispatch import Dispatch
from edgetrain.fleet.inventory import FleetBoard
from edgetrain.fleet.jobs import FleetJob
from edgetrain.fleet.link import FleetLink
from edgetrain.fleet.processes import Fleet
from edgetrain.record import FolderStore
from edgetrain.runner import CampaignEntry, CampaignJournal, Plan, cost_of
from edgetrain.schema import CampaignPreview, FleetBoardProgress, FleetProgress, PlannedRow, PowerMode

Announce = Callable[[FleetProgress], None]


@dataclass
class Known:
    """The journal, summed up."""

    done: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    begun_on: dict[str, str] = field(default_factory=dict)  # open experiments: the board that has them
    took_s: dict[str, float] = field(default_factory=dict)
    damaged: dict[str, tuple[str, ...]] = field(default_factory=dict)  # runs whose records had wrong checksums
    done_on: dict[str, int] = field(default_factory=dict)  # board: how many
    failed_on: dict[str, int] = field(default_factory=dict)


class FleetCampaign:
    """Carries a plan out on the boards of a fleet; started again, it resumes."""

    def __init__(
        self,
        plan: Plan,
        fleet: Fleet,
        store: FolderStore,
        read_mode: Callable[[str], PowerMode] | None = None,
        tag: str = "",
    ) -> None:
        self.plan, self.fleet, self.store = plan, fleet, store
        self.id = plan.id + tag
        self.boards = fleet.inventory.fitting(plan.place)
        _check_plan(plan, self.boards)
        self.jobs = list_jobs(plan, self.id, self.boards, read_mode)
        self.journal = CampaignJournal(store.campaigns / self.id / "journal.jsonl")
        self.known = Known()
        self.not_restored: dict[str, str] = {}

    def read_journal(self) -> FleetProgress:
        """Read the journal; changes nothing."""
        known = self.known = Known()
        keys = {job.key for job in self.jobs}
        for entry in self.journal.read():
            key = entry.key
            if key is None or key not in keys:
                continue
            if entry.kind == "begun":
                known.attempts[key] = entry.attempt or known.attempts.get(key, 0) + 1
                if entry.board is not None:
                    known.begun_on[key] = entry.board
            elif entry.kind == "done" and entry.run is not None:
                self._note_done(key, entry.run, entry.board, entry.took_s)
            elif entry.kind == "failed":
                self._note_failed(key, entry.reason or "unknown reason", entry.board)
            elif entry.kind == "lost":
                known.begun_on.pop(key, None)
            elif entry.kind == "damaged" and entry.run is not None:
                known.damaged[key] = (*known.damaged.get(key, ()), entry.run)
        return self.progress()

    def progress(self, boards: tuple[FleetBoardProgress, ...] = (), note: str | None = None) -> FleetProgress:
        """Return how far it is."""
        known = self.known
        now = {one.name: one.key for one in boards if one.key is not None}
        left_s = None
        if known.took_s:
            mean_s = sum(known.took_s.values()) / len(known.took_s)
            left_s = mean_s * (len(self.jobs) - len(known.done)) / len(self.boards)
        return FleetProgress(
            self.id, len(self.jobs), dict(known.done), dict(known.failed), now, boards, dict(self.not_restored), left_s,
            note,
        )  # fmt: skip

    def preview(self) -> CampaignPreview:
        """Return what is left to do and what that will take on these boards; changes nothing."""
        progress = self.read_journal()
        left = [job.planned for job in self.jobs if job.key not in progress.done]
        everything = [job.planned for job in self.jobs]
        # Boards have no common device: what a catalogue says about the first one is not said about the others.
        cost = cost_of(left, self.known.took_s, {}, everything, self.plan.cool_down_s, None)
        if cost.time_s is not None:
            cost = replace(cost, time_s=cost.time_s / min(len(self.boards), max(1, len(left))))
        rows = tuple(
            PlannedRow(
                at, job.planned.repeat, job.planned.factors, job.key in progress.done, job.key in progress.failed
            )
            for at, job in enumerate(self.jobs)
        )
        names = ", ".join(f"{one.name} ({one.board})" for one in self.boards)
        return CampaignPreview(self.id, f"fleet {self.fleet.inventory.name}: {names}", rows, len(left), cost)

    def carry_out(self, announce: Announce = lambda progress: None) -> FleetProgress:
        """Make every run that is missing, and leave every board as it was; waits for boards that others use."""

        def wait(text: str) -> None:
            announce(self.progress(note=text))

        with self._alone(), self.fleet.reserved(self.boards, f"campaign {self.id}", wait):
            self.read_journal()
            self._adopt()
            if self._nothing_left():
                return self.progress()
            with self.fleet.running(self.boards) as problems:
                if len(problems) == len(self.boards):  # nothing could ever come back: waiting would hide that
                    reasons = "; ".join(problems[name] for name in sorted(problems))
                    raise FleetError(f"no board could be started: {reasons}; `edgetrain fleet doctor` says more")
                self.journal.append(CampaignEntry("start", time.time(), planned=len(self.jobs), name=self.plan.name))
                with FleetLink(self.fleet) as link:
                    Dispatch(self, link, announce, problems).run()
                    self._restore(link)
                self.journal.append(CampaignEntry("end", time.time(), done=len(self.known.done)))
        return self.progress()

    def _nothing_left(self) -> bool:
        """Return whether every run is done and every board was put back by an earlier start."""
        last = ""
        for entry in self.journal.read():
            if entry.kind in ("start", "not_restored") or (entry.kind == "end" and last == "start"):
                last = entry.kind
        return last == "end" and len(self.known.done) == len(self.jobs)

    def _restore(self, link: FleetLink) -> None:
        """Put every board back; one that could not be is named in the journal and in the result."""
        for board in self.boards:
            reason = link.restore(board, self.plan.place.wait_s, self.plan.varies_modes)
            if reason is not None:
                self.not_restored[board.name] = reason
                self.journal.append(CampaignEntry("not_restored", time.time(), board=board.name, reason=reason))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second process that carries out the same campaign."""
        self.journal.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.journal.path.with_name("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise EdgetrainError(
                f"the campaign {self.id} is being carried out by another process; wait for it"
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _adopt(self) -> None:
        """Enter runs that came into the store just before this campaign was killed."""
        entered = set(self.known.done.values())
        by_place = {(job.planned.position, job.planned.repeat): job for job in self.jobs}
        for row in self.store.runs():
            if row.campaign != self.id or row.run in entered or row.state != "finished":
                continue
            manifest = self.store.manifest(row.run)
            job = by_place.get((manifest.position or 0, manifest.repeat or 0))
            if job is not None and job.key not in self.known.done:
                self.enter_done(job.key, row.run, self.known.begun_on.get(job.key), None)

    def _note_done(self, key: str, run: str, board: str | None, took_s: float | None) -> None:
        known = self.known
        known.done[key] = run
        known.failed.pop(key, None)
        known.begun_on.pop(key, None)
        if took_s is not None:
            known.took_s[key] = took_s
        if board is not None:
            known.done_on[board] = known.done_on.get(board, 0) + 1

    def _note_failed(self, key: str, reason: str, board: str | None) -> None:
        known = self.known
        known.failed[key] = reason
        known.failures[key] = known.failures.get(key, 0) + 1
        known.begun_on.pop(key, None)
        if board is not None:
            known.failed_on[board] = known.failed_on.get(board, 0) + 1

    def enter_begun(self, key: str, board: str) -> int:
        """Enter a run that is about to be sent to a board; return the number of the attempt."""
        attempt = self.known.attempts[key] = self.known.attempts.get(key, 0) + 1
        self.journal.append(CampaignEntry("begun", time.time(), key, attempt, board=board))
        self.known.begun_on[key] = board
        return attempt

    def enter_done(self, key: str, run: str, board: str | None, took_s: float | None) -> None:
        """Enter a run whose record is in the store."""
        self.journal.append(CampaignEntry("done", time.time(), key, run=run, took_s=took_s, board=board))
        self._note_done(key, run, board, took_s)

    def enter_failed(self, key: str, reason: str, board: str | None) -> None:
        """Enter a run that failed."""
        self.journal.append(CampaignEntry("failed", time.time(), key, reason=reason, board=board))
        self._note_failed(key, reason, board)

    def enter_lost(self, key: str, board: str) -> None:
        """Enter that a board which may have a run is not waited for any more."""
        self.known.begun_on.pop(key, None)
        self.journal.append(CampaignEntry("lost", time.time(), key, board=board))

    def enter_damaged(self, key: str, run: str, board: str, reason: str) -> None:
        """Enter a record on a board that has wrong checksums: its run is made again."""
        self.known.damaged[key] = (*self.known.damaged.get(key, ()), run)
        self.journal.append(CampaignEntry("damaged", time.time(), key, run=run, board=board, reason=reason))


def _check_plan(plan: Plan, boards: tuple[FleetBoard, ...]) -> None:
    """Refuse what a plan says about one machine: on a fleet the inventory says it, board by board."""
    if plan.device is not None:
        raise UsageError(
            f"the plan names a device, {plan.device}; on a fleet the inventory names them: leave `device:` out, or "
            "choose boards with `place:`"
        )
    remote = [one.name for one in boards if one.address is not None and not one.simulated]
    if plan.folders and remote:
        raise UsageError(
            f"the plan's `folders:` are on this machine, and {remote[0]} is another one; name them as `storage:` of "
            "the boards in the inventory"
        )


def list_jobs(
    plan: Plan, campaign: str, boards: tuple[FleetBoard, ...], read_mode: Callable[[str], PowerMode] | None
) -> list[FleetJob]:
    """Return the runs of a plan on these boards; UsageError where a run fits on none of them."""
    planned = plan.runs(campaign, read_mode)
    jobs: list[FleetJob] = []
    if not plan.place.every_unit:
        jobs = [FleetJob(one.key, one, None) for one in planned]
    else:
        for one in planned:
            for board in boards:
                factors = {**one.factors, "unit": board.name}
                position = len(jobs)
                experiment = replace(one.experiment, factors=factors, position=position)
                key = json.dumps([one.key, board.name])
                own = replace(one, key=key, factors=factors, position=position, experiment=experiment)
                jobs.append(FleetJob(key, own, board.name))
    for job in jobs:
        if not any(job.fits(board) for board in boards):
            raise UsageError(
                f"no board of the plan has the storage medium {job.planned.experiment.limits.storage!r}; add it to a "
                "board's `storage:` in the inventory"
            )
    return jobs
