"""`edgetrain campaign`: many experiments, costed before they start, resumable after anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.analysis import digest
from edgetrain.analysis.factors import Row, conclusions, label, tabulate
from edgetrain.analysis.variability import variability
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import Shown
from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.report.campaigns import factor_cells
from edgetrain.report.document import emit
from edgetrain.report.text import console, plain_table
from edgetrain.runner import Interrupted, execute
from edgetrain.runner.campaign import Campaign, Standing, fresh_tag
from edgetrain.runner.campaign_media import check_folders
from edgetrain.runner.plan import Plan, ReadMode, read_plan
from edgetrain.runner.plan_settings import json_schema
from edgetrain.schema import SCHEMA, Experiment
from edgetrain.store import Store
from edgetrain.units import spell, spell_seconds

PANEL, ORDER = "lab", 20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("campaign", rich_help_panel=PANEL)(campaign)


def campaign(
    plan: Annotated[
        Path | None, typer.Argument(help="The plan, a YAML file; see --schema.", show_default=False)
    ] = None,
    store: StoreOption = None,
    device: Annotated[str, typer.Option(help="auto, host, jetson, or sim:orin-agx (simulated).")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the experiments and what they will take.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming this plan.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the plan's JSON Schema, for editors.")] = False,
    json: JsonOption = False,
) -> None:
    """Carries out a plan of experiments; started again, it goes on where it was.

    Example: edgetrain campaign plan.yaml --dry-run
    """
    if schema:
        emit(json_schema())
        return
    if plan is None:
        raise UsageError("which plan? give a YAML file; edgetrain campaign --schema prints its shape")
    asked = read_plan(plan)
    records = Store(store)
    said = console(stderr=True)
    for note in check_folders(asked.folders):
        said.print(note)
    under_way = open_campaign(asked, records, device, fresh)
    if dry_run:
        _show_plan(under_way, json)
        return
    standing = carry_out(under_way)
    documents = _documents(records, standing)
    rows = tabulate(documents)
    if json:
        emit({"schema": SCHEMA, "campaign": standing.id, "planned": standing.planned, "done": standing.done,
              "failed": standing.failed, "rows": [row_document(row) for row in rows], "conclusions": conclusions(rows),
              "variability": [asdict(one) for one in variability(documents)]})  # fmt: skip
    else:
        out = console()
        out.print(factor_table(rows))
        for line in conclusions(rows):
            out.print(line, highlight=False)
        if asked.repeats > 1:
            out.print(_variability_table(documents))
    if not standing.complete:
        reasons = sorted(set(standing.failed.values()))
        raise EdgetrainError(
            f"{standing.planned - len(standing.done)} of {standing.planned} runs failed: {'; '.join(reasons)[:500]};"
            " start the campaign again to try them again"
        )


def open_campaign(plan: Plan, records: Store, device: str = "auto", fresh: bool = False) -> Campaign:
    """Return a campaign that runs its experiments here, with progress on stderr."""

    def run_one(experiment: Experiment) -> str:
        with Shown(label(experiment.factors)) as shown:
            return execute(experiment, device, records, shown)

    tag = fresh_tag(plan, records) if fresh else ""
    needs_modes = "power_mode" in {*plan.factors, *plan.base, *(name for point in plan.points for name in point)}

    def energy_of(run: str) -> float | None:
        spent = [epoch["energy_j"] for epoch in digest(records.open(run)).epochs]
        return sum(spent) if spent and None not in spent else None

    return Campaign(plan, records, run_one, device, tag, _mode_reader(device) if needs_modes else None, energy_of)


def _mode_reader(device: str) -> ReadMode | None:
    space = open_device(device).modes()
    if space is None:
        return None

    def read(text: str) -> Any:
        found = space.find(text)
        return getattr(found, "mode", found)

    return read


def carry_out(under_way: Campaign, tell: Callable[[str], None] | None = None) -> Standing:
    """Carry a campaign out, saying on stderr where it stands."""
    said = console(stderr=True)
    say = tell or (lambda text: said.print(text, highlight=False))
    before = under_way.recall()
    if before.done:
        say(f"resuming {before.id}: {len(before.done)} of {before.planned} runs are there")

    def told(standing: Standing) -> None:
        if standing.now is None:
            return
        left = spell_seconds(standing.cost.time_s) if standing.cost.time_s is not None else "not known yet"
        say(f"[{len(standing.done) + 1}/{standing.planned}] {label(standing.now.factors)}; time left {left}")

    try:
        standing = under_way.carry_out(told)
    except Interrupted as stopped:
        said.print(f"edgetrain: {stopped}; the same command goes on from here")
        raise typer.Exit(130) from None
    for key, reason in standing.failed.items():
        say(f"failed: {key}: {reason}")
    return standing


def _documents(records: Store, standing: Standing) -> list[dict[str, Any]]:
    return [digest(records.open(run)).document() for run in standing.done.values()]


def _show_plan(under_way: Campaign, json: bool) -> None:
    standing = under_way.recall()
    cost = standing.cost
    if json:
        done = standing.done
        rows = [
            {"position": one.position, "repeat": one.repeat, "factors": dict(one.factors), "done": one.key in done}
            for one in under_way.runs
        ]
        emit({"schema": SCHEMA, "campaign": standing.id, "runs": rows, "left": standing.planned - len(standing.done),
              "cost": asdict(cost)})  # fmt: skip
        return
    table = plain_table("run", "repeat", "setting", "state")
    for one in under_way.runs:
        state = "done" if one.key in standing.done else ("failed" if one.key in standing.failed else "to do")
        table.add_row(str(one.position + 1), str(one.repeat + 1), label(one.factors), state)
    out = console()
    out.print(table)
    time_left = spell_seconds(cost.time_s) if cost.time_s is not None else "not known before the first run"
    energy = spell(cost.energy_j, "J") if cost.energy_j is not None else "–"
    out.print(f"{standing.planned - len(standing.done)} runs to do: {time_left}, {energy} ({cost.energy_reason})")


def factor_table(rows: list[Row]) -> Any:
    """Return stall, compute and end-to-end time by factor."""
    heads, cells = factor_cells(rows)
    table = plain_table(*(head.replace(" end to end", "\nend to end").replace("it fill", "it\nfill") for head in heads))
    for row in cells:
        table.add_row(*row)
    return table


def _variability_table(documents: list[dict[str, Any]]) -> Any:
    table = plain_table("setting", "units", "runs", "epochs", "mean epoch", "varies within", "between units")
    for one in variability(documents):
        shares = ["–" if share is None else f"{share:.1%}" for share in (one.within, one.between)]
        counts = [str(one.units), str(one.runs), str(one.epochs)]
        table.add_row(label(one.setting), *counts, spell_seconds(one.mean), *shares)
    return table


def row_document(row: Row) -> dict[str, Any]:
    """Return one setting as plain values."""
    return {
        "factors": dict(row.factors),
        "runs": list(row.runs),
        "origin": row.origin,
        "first_epoch": asdict(row.first) if row.first else None,
        "later_epochs": asdict(row.later) if row.later else None,
        "page_cache_bytes": row.page_cache_bytes,
        "doubts": row.doubts,
    }
