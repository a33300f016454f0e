"""Carries out a plan: with a cost estimate, resumable, one at a time on a machine.

The journal in the store (`campaigns/ID/journal.jsonl`) is authoritative: a run is `begun`, then `done` with its record
or `failed` with the reason. A kill can happen between a run's end and its entry, so at a start the store is searched
for finished runs of this campaign that the journal does not contain; they are entered, never run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import FolderStore, FolderWriter
from edgetrain.runner.campaign_journal import CampaignEntry, CampaignJournal, MachineLock
from edgetrain.runner.plan import Plan, Planned, ReadMode
from edgetrain.runner.plan_costs import cost_of
from edgetrain.runner.settle import wait_until_quiet
from edgetrain.schema import Experiment, PlanCost

RunOne = Callable[[Experiment], str]  # makes one run, returns its id
Announce = Callable[["CampaignProgress"], None]


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """How far a campaign is."""

    id: str
    planned: int
    done: Mapping[str, str]  # key: run
    failed: Mapping[str, str]  # key: last reason; not repeated successfully yet
    now: Planned | None
    cost: PlanCost  # of what is left
    took_s: float = 0.0  # of what was done, over all starts

    @property
    def complete(self) -> bool:
        """Whether every planned run has its record."""
        return len(self.done) == self.planned


@dataclass
class _Memory:
    """The journal, summed up."""

    done: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    used_j: dict[str, float] = field(default_factory=dict)


class CampaignRunner:
    """Carries a plan out; `run` makes one run of one experiment and returns its id."""

    def __init__(
        self,
        plan: Plan,
        store: FolderStore,
        run: RunOne,
        device: str | None = None,
        tag: str = "",
        read_mode: ReadMode | None = None,
        energy_of: Callable[[str], float | None] = lambda run: None,
        planned_samples: Mapping[str, int] | None = None,  # sizes of datasets that are not made yet, by folder
    ) -> None:
        self.plan = plan
        self.store = store
        self.id = plan.id + tag
        self.runs = plan.runs(self.id, read_mode)
        self.journal = CampaignJournal(store.campaigns / self.id / "journal.jsonl")
        self._run = run
        self._device = device
        self._energy_of = energy_of
        self._planned_samples = planned_samples
        self._memory = _Memory()

    def read_journal(self) -> CampaignProgress:
        """Read the journal; changes nothing on disk."""
        memory = self._memory = _Memory()
        keys = {planned.key for planned in self.runs}
        for entry in self.journal.read():
            key = entry.key
            if key is None or key not in keys:
                continue
            if entry.kind == "begun":
                memory.attempts[key] = memory.attempts.get(key, 0) + 1
            elif entry.kind == "done" and entry.run is not None:
                memory.done[key] = entry.run
                memory.failed.pop(key, None)
                if entry.took_s is not None:
                    memory.took_s[key] = entry.took_s
                if entry.energy_j is not None:
                    memory.used_j[key] = entry.energy_j
            elif entry.kind == "failed":
                memory.failed[key] = entry.reason or "unknown reason"
        return self.progress(None)

    def progress(self, now: Planned | None) -> CampaignProgress:
        """Return how far the campaign is; `now` is the run in progress."""
        memory = self._memory
        left = [planned for planned in self.runs if planned.key not in memory.done]
        cost = cost_of(
            left,
            memory.took_s,
            memory.used_j,
            self.runs,
            self.plan.cool_down_s,
            self._device,
            self._planned_samples,
        )
        took_s = sum(memory.took_s.values())
        return CampaignProgress(self.id, len(self.runs), dict(memory.done), dict(memory.failed), now, cost, took_s)

    def carry_out(
        self, announce: Announce = lambda progress: None, sleep: Callable[[float], None] = time.sleep
    ) -> CampaignProgress:
        """Make every run that is missing; failures are tried again at the end. Resumes where it was."""
        known = self.read_journal()
        if known.complete:
            return known
        with self._lock():
            self.read_journal()
            self._adopt()
            self._enter(CampaignEntry("start", time.time(), planned=len(self.runs), name=self.plan.name))
            rounds = self.plan.retries + 1
            for turn in range(rounds):
                for planned in self.runs:
                    if planned.key in self._memory.done:
                        continue
                    # A run that failed in an earlier start is tried again in the last rounds, after runs that were
                    # never tried: a setting that always fails must not delay them.
                    if turn == 0 and planned.key in self._memory.failed and rounds > 1:
                        continue
                    self._one(planned, announce, sleep)
            self._enter(CampaignEntry("end", time.time(), done=len(self._memory.done)))
            return self.progress(None)

    def _lock(self) -> MachineLock:
        """Return the lock on this machine; where nothing is measured on it, on this campaign only."""
        if not (self._device or "").startswith("sim:"):
            return MachineLock()
        folder = self.journal.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        return MachineLock(folder, only=self.id)

    def _one(self, planned: Planned, announce: Announce, sleep: Callable[[float], None]) -> None:
        memory, settle = self._memory, self.plan.settle
        announce(self.progress(planned))
        quiet = wait_until_quiet(settle.busy, settle.temp_c, settle.wait_s, sleep=sleep)
        attempt = memory.attempts.get(planned.key, 0) + 1
        memory.attempts[planned.key] = attempt
        self._enter(CampaignEntry("begun", time.time(), planned.key, attempt))
        start_s = time.monotonic()
        try:
            run = self._run(planned.experiment)
        except UsageError as error:
            # The plan itself is wrong: every other run of its kind would fail the same way.
            self._enter(CampaignEntry("failed", time.time(), planned.key, reason=str(error)))
            memory.failed[planned.key] = str(error)
            return
        except EdgetrainError as error:
            self._enter(CampaignEntry("failed", time.time(), planned.key, run=error.run, reason=str(error)))
            memory.failed[planned.key] = str(error)
            return
        took_s = time.monotonic() - start_s
        if quiet.doubt:
            FolderWriter(self.store.locate(run)).event("doubt", quiet.doubt, doubt="not_quiet")
        self._enter_done(planned.key, run, took_s)
        announce(self.progress(None))
        if self.plan.cool_down_s:
            sleep(self.plan.cool_down_s)

    def _enter_done(self, key: str, run: str, took_s: float | None) -> None:
        energy_j = self._energy_of(run)  # the estimate of what is left is made from it
        self._enter(CampaignEntry("done", time.time(), key, run=run, took_s=took_s, energy_j=energy_j))
        self._memory.done[key] = run
        if energy_j is not None:
            self._memory.used_j[key] = energy_j
        self._memory.failed.pop(key, None)
        if took_s is not None:
            self._memory.took_s[key] = took_s

    def _adopt(self) -> None:
        """Enter finished runs of this campaign that were killed before they could be entered."""
        known = set(self._memory.done.values())
        by_place = {(planned.position, planned.repeat): planned for planned in self.runs}
        for row in self.store.runs():
            if row.campaign != self.id or row.run in known or row.state != "finished":
                continue
            manifest = self.store.manifest(row.run)
            planned = by_place.get((manifest.position or 0, manifest.repeat or 0))
            if planned is not None and planned.key not in self._memory.done:
                self._enter_done(planned.key, row.run, None)

    def _enter(self, entry: CampaignEntry) -> None:
        self.journal.append(entry)


def fresh_tag(plan: Plan, store: FolderStore) -> str:
    """Return a tag under which this plan has not been carried out yet."""
    number = 1
    while (store.campaigns / f"{plan.id}{'' if number == 1 else f'-{number}'}" / "journal.jsonl").exists():
        number += 1
    return "" if number == 1 else f"-{number}"
