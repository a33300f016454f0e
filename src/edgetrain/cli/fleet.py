"""edgetrain fleet: check, start and stop the boards of a fleet."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption
from edgetrain.cli.output import print_result
from edgetrain.errors import EdgetrainError
from edgetrain.report import show_fleet, show_fleet_doctor, show_fleet_preview

FleetArgument = Annotated[
    str, typer.Argument(help="The inventory of the fleet (a YAML file), or `local` for four simulated boards.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be started or stopped; change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    verbs = typer.Typer(
        help="Check, start and stop the boards of a fleet.\n\nA campaign starts its fleet itself; `fleet up` keeps it "
        "running for several campaigns.\n\nExample: edgetrain fleet up local",
        no_args_is_help=True,
    )
    verbs.command("doctor")(doctor)
    verbs.command("up")(up)
    verbs.command("down")(down)
    verbs.command("status")(status)
    app.add_typer(verbs, name="fleet")


def doctor(fleet: FleetArgument = "local", json: JsonOption = False) -> None:
    """Check versions, clocks, free space and permissions of all boards; the exit status is 1 if something is wrong.

    Example: edgetrain fleet doctor fleet.yaml
    """
    found = api.fleet_doctor(fleet)
    print_result(found, show_fleet_doctor, json)
    wrong = [*(["this machine"] if found.problems else []), *(check.name for check in found.checks if check.problems)]
    if wrong:
        raise EdgetrainError(f"something is wrong with {', '.join(wrong)}; see above")


def up(fleet: FleetArgument = "local", dry_run: DryRun = False, json: JsonOption = False) -> None:
    """Start a scheduler and one worker per board, over SSH and with TLS; they stay until `fleet down`.

    Example: edgetrain fleet up fleet.yaml
    """
    if dry_run:
        print_result(api.fleet_preview(fleet), show_fleet_preview, json)
        return
    print_result(api.fleet_up(fleet), show_fleet, json)


def down(fleet: FleetArgument = "local", dry_run: DryRun = False, json: JsonOption = False) -> None:
    """Stop the workers and the scheduler; a running experiment continues to its end.

    Example: edgetrain fleet down fleet.yaml
    """
    if dry_run:
        print_result(api.fleet_down_preview(fleet), show_fleet_preview, json)
        return
    print_result(api.fleet_down(fleet), show_fleet, json)


def status(fleet: FleetArgument = "local", json: JsonOption = False) -> None:
    """Show which processes of a fleet are running.

    Example: edgetrain fleet status fleet.yaml
    """
    print_result(api.fleet_status(fleet), show_fleet, json)
