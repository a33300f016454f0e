"""edgetrain profile: the record of an unmodified training script."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from edgetrain.analysis import verdict_sentence
from edgetrain.api import profile as profile_command
from edgetrain.api import summarize
from edgetrain.cli.options import DeviceOption, JsonOption, StoreOption
from edgetrain.cli.progress import record_kept
from edgetrain.cli.settings import Settings, command_settings, options_named, with_settings
from edgetrain.errors import EdgetrainError
from edgetrain.report import console, emit, show_run

OFFERED = options_named(
    *command_settings(),
    dataset="Folder of the dataset that your script reads; needed for --cache, and to record its cached share.",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile", context_settings={"ignore_unknown_options": True})(profile)


@with_settings(OFFERED)
def profile(
    command: Annotated[
        list[str], typer.Argument(help="Your training command, after --, as you would type it in a shell.")
    ],
    settings: Settings,
    device: DeviceOption = "auto",
    like: Annotated[
        str | None,
        typer.Option(help="With a simulated board: the network whose time and power per mode to imitate."),
    ] = None,
    campaign: Annotated[str | None, typer.Option(help="Record the run as part of this campaign.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Record where the time and energy of your own training script go; the script is not changed.

    The script's output and exit status are unchanged; edgetrain writes to stderr. With --json the script's stdout goes
    to stderr too.

    Example: edgetrain profile -- python train.py --epochs 2
    """
    sys.stdout.flush()
    with record_kept():
        done = profile_command(
            command,
            device=device,
            store=store,
            progress=None,
            campaign=campaign,
            like=like,
            stdout=sys.stderr.fileno() if json else None,
            **settings,
        )
    say = console(stderr=True).print
    try:
        summary = summarize(done.run)
        if json:
            emit(summary)
        else:
            say(show_run(summary), "", verdict_sentence(summary, done.run), sep="\n")
    except (EdgetrainError, OSError) as error:
        if not done.status:
            raise
        say(f"edgetrain: {error}")
    raise typer.Exit(done.status)
