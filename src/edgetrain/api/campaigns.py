"""Campaigns: many experiments from one plan, with their cost shown first, resumable after any interruption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgetrain.analysis import CampaignResult, Summary, campaign_result
from edgetrain.api.measure import read_power_mode
from edgetrain.api.records import StoreLike, open_store, summarize
from edgetrain.errors import UsageError, WorkloadError
from edgetrain.record import FolderStore
from edgetrain.runner import (
    CampaignProgress,
    CampaignRunner,
    Plan,
    Planned,
    Progress,
    check_folders,
    execute,
    fresh_tag,
    read_plan,
)
from edgetrain.schema import CampaignPreview, Experiment, PlannedRow, PowerMode

MakeProgress = Callable[[Experiment], Progress]


class Campaign:
    """A plan being carried out; starting it again resumes it.

    `plan` is a Plan or the path of a YAML file; `device` overrides the plan's own. `make_progress` returns what shows
    the progress of one run; `planned_samples` has the sizes of datasets that are not made yet, by folder.
    """

    def __init__(
        self,
        plan: Plan | Path | str,
        store: StoreLike = None,
        device: str | None = None,
        fresh: bool = False,
        make_progress: MakeProgress | None = None,
        planned_samples: Mapping[str, int] | None = None,
    ) -> None:
        self.plan = plan if isinstance(plan, Plan) else read_plan(plan)
        self.store: FolderStore = open_store(store)
        self.device = device or self.plan.device or "auto"
        self.notes = check_folders(self.plan.folders)
        self._make_progress = make_progress
        tag = fresh_tag(self.plan, self.store) if fresh else ""
        self._runner = CampaignRunner(
            self.plan,
            self.store,
            self._run_one,
            self.device,
            tag,
            self._read_mode if self.plan.varies_modes else None,
            self._energy_j,
            planned_samples,
        )

    @property
    def id(self) -> str:
        """The id under which its runs are recorded."""
        return self._runner.id

    @property
    def planned(self) -> list[Planned]:
        """Every run of the plan, in order."""
        return self._runner.runs

    def preview(self) -> CampaignPreview:
        """Return what is left to do and what that will take; changes nothing."""
        progress = self._runner.read_journal()
        rows = tuple(
            PlannedRow(one.position, one.repeat, one.factors, one.key in progress.done, one.key in progress.failed)
            for one in self._runner.runs
        )
        return CampaignPreview(self.id, self.device, rows, progress.planned - len(progress.done), progress.cost)

    def progress(self) -> CampaignProgress:
        """Return how far the campaign is; changes nothing."""
        return self._runner.read_journal()

    def run(self, announce: Callable[[CampaignProgress], None] = lambda progress: None) -> CampaignResult:
        """Make every run that is missing; failures are tried again at the end."""
        self._runner.carry_out(announce)
        return self.result()

    def summaries(self) -> list[Summary]:
        """Return the summaries of the runs that are done."""
        return [summarize(run, self.store) for run in self._runner.read_journal().done.values()]

    def result(self) -> CampaignResult:
        """Return what the runs that are done have found."""
        progress = self._runner.read_journal()
        return campaign_result(progress.id, progress.planned, progress.done, progress.failed, self.summaries())

    def _run_one(self, experiment: Experiment) -> str:
        progress = self._make_progress(experiment) if self._make_progress else None
        done = execute(experiment, self.device, self.store, progress, like=self.plan.like)
        if done.status:
            raise WorkloadError(f"the command ended with status {done.status}", run=done.run)
        return done.run

    def _read_mode(self, text: str) -> PowerMode:
        mode = read_power_mode(text, self.device)
        if mode is None:
            raise UsageError(f"the plan holds power modes, and {self.device} has none that can be set")
        return mode

    def _energy_j(self, run: str) -> float | None:
        spent = [epoch.energy_j for epoch in summarize(run, self.store).epochs]
        known = [joules for joules in spent if joules is not None]
        return sum(known) if known and len(known) == len(spent) else None
