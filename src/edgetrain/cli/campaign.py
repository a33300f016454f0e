"""edgetrain campaign: many experiments, with their cost known before they start, resumable after any interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.analysis import CampaignResult, label
from edgetrain.api import Campaign, campaign_on, campaign_on_preview
from edgetrain.cli.fleet_view import FleetView
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import ProgressLine
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.report import console, emit, show_campaign, show_campaign_preview
from edgetrain.runner import CampaignProgress, Interrupted, Progress, plan_schema
from edgetrain.schema import Experiment
from edgetrain.units import spell_seconds


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("campaign")(campaign)


def campaign(
    plan: Annotated[
        Path | None, typer.Argument(help="The plan, a YAML file; see --schema.", show_default=False)
    ] = None,
    store: StoreOption = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Device to run on: auto, host, jetson, or sim:orin-agx (simulated); default: the plan's, else auto."
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="Run on a fleet: the inventory (a YAML file), or `local` for four simulated boards."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the experiments with their time and energy; run nothing.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run everything again instead of resuming.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a plan, for editors.")] = False,
    json: JsonOption = False,
) -> None:
    """Carry out a plan of experiments; after an interruption the same command resumes it.

    Example: edgetrain campaign plan.yaml --dry-run
    """
    if schema:
        emit(plan_schema())
        return
    if plan is None:
        raise UsageError("no plan is given; give a YAML file (edgetrain campaign --schema prints its JSON Schema)")
    if on is not None:
        if device is not None:
            raise UsageError("--on takes the devices from the inventory: leave --device out")
        if dry_run:
            preview = campaign_on_preview(plan, on, store, fresh)
            emit(preview) if json else console().print(show_campaign_preview(preview))
            return
        try:
            with FleetView() as view:
                result = campaign_on(plan, on, store, view, fresh=fresh)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the boards finish their running experiments, and the same command resumes the campaign"
            ) from None
        finish(result, json)
        return
    campaign = Campaign(plan, store, device, fresh, _progress_of)
    say = console(stderr=True).print
    for note in campaign.notes:
        say(note)
    if dry_run:
        preview = campaign.preview()
        emit(preview) if json else console().print(show_campaign_preview(preview))
        return
    result = carry_out(campaign)
    finish(result, json, campaign.plan.repeats)


def finish(result: CampaignResult, json: bool, repeats: int = 1) -> None:
    """Print what a campaign has found; an error where runs are missing."""
    emit(result) if json else console().print(show_campaign(result, repeats))
    if not result.complete:
        reasons = "; ".join(sorted(set(result.failed.values())))[:500]
        raise EdgetrainError(
            f"{result.planned - len(result.done)} of {result.planned} runs failed: {reasons}; start the campaign again "
            "to retry them"
        )


def _progress_of(experiment: Experiment) -> Progress:
    return ProgressLine(label(experiment.factors)).once()


def carry_out(campaign: Campaign) -> CampaignResult:
    """Carry a campaign out, reporting on stderr how far it is."""
    say = console(stderr=True).print
    before = campaign.progress()
    if before.done:
        say(f"resuming {before.id}: {len(before.done)} of {before.planned} runs are done")

    def announce(progress: CampaignProgress) -> None:
        if progress.now is not None:
            left = spell_seconds(progress.cost.time_s) if progress.cost.time_s is not None else "not known yet"
            say(f"[{len(progress.done) + 1}/{progress.planned}] {label(progress.now.factors)}; time left {left}")

    try:
        result = campaign.run(announce)
    except Interrupted as stopped:
        say(f"edgetrain: {stopped}; the same command resumes from here")
        raise typer.Exit(128 + stopped.signal) from None
    for key, reason in result.failed.items():
        say(f"failed: {key}: {reason}")
    return result
