"""edgetrain rm and prune: delete recorded runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from edgetrain.api import Pruned, prune, remove_run
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.report import console, emit, printable
from edgetrain.units import spell_bytes


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rm")(rm)
    app.command("prune")(prune_runs)


def rm(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Runs to delete, each by its id or the start or end of its id.", autocompletion=complete_run
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted.")] = False,
    store: StoreOption = None,
) -> None:
    """Delete recorded runs permanently.

    Example: edgetrain rm 20261115-083617-mobilenet_v3-3a39
    """
    found = [remove_run(name, store, dry_run=True) for name in names]  # one wrong name, and nothing is deleted
    for run in dict.fromkeys(found):
        if not dry_run:
            remove_run(run, store)
        console(stderr=True).print(f"{'would delete' if dry_run else 'deleted'} {run}")


def prune_runs(
    older_than: Annotated[
        str | None, typer.Option(help="Runs that started longer ago than this: 30d, 12h, 2w.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Runs in this state: failed, interrupted, finished.")] = None,
    campaign: Annotated[str | None, typer.Option(help="Runs of this campaign.")] = None,
    keep: Annotated[int, typer.Option(help="Keep this many of the matching runs, the newest.", min=0)] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Delete all recorded runs that meet every given condition.

    Example: edgetrain prune --state failed --older-than 7d --dry-run
    """
    found = prune(store, older_than, state, campaign, keep, dry_run=True)
    if not dry_run:
        if found.runs and not yes:
            if not sys.stdin.isatty():
                raise UsageError(
                    f"{len(found.runs)} runs would be deleted; add --yes to delete them, or --dry-run to list them"
                )
            size = spell_bytes(found.freed_bytes)
            if not typer.confirm(f"Delete {len(found.runs)} runs ({size})?", err=True):
                raise EdgetrainError("nothing was deleted")
        found = prune(store, older_than, state, campaign, keep)
    _report(found, json)


def _report(found: Pruned, json: bool) -> None:
    if json:
        emit(found)
        return
    for run in found.runs:
        print(printable(run))
    verb = "would be deleted" if found.dry_run else "deleted"
    count = "1 run" if len(found.runs) == 1 else f"{len(found.runs)} runs"
    say = console(stderr=True).print
    say(f"{count} {verb}, {spell_bytes(found.freed_bytes)}")
    for run in found.being_recorded:
        say(f"{run} is still being recorded and is kept")
