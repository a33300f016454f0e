"""edgetrain tune: the best loader arguments and power mode for a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import tune as find_best
from edgetrain.cli.options import AllowWritesInOption, AllowWritesOption, DeviceOption, JsonOption, StoreOption
from edgetrain.cli.output import print_note, print_result
from edgetrain.cli.progress import record_kept
from edgetrain.cli.settings import Settings, given_settings, options_named, with_settings
from edgetrain.report import show_trial, show_tuned

OFFERED = options_named(
    "dataset", "cache", "batch_size", "dataset_scale", "workers", "prefetch", "pin_memory", "persistent", "compute",
    "compute_ms", "storage", "page_cache", "cores", "cpu_share", "power_mode", "full_fan",
    dataset="Folder of the dataset that is read; --cache needs it. With a network, default: a generated dataset.",
)  # fmt: skip

CommandArgument = Annotated[
    list[str],
    typer.Argument(
        help="Your training command, after --, as you would type it in a shell; or a network (mobilenet_v3)."
    ),
]
TrialLimit = Annotated[
    float | None,
    typer.Option(
        help="Give a trial up after this many seconds from its first minibatch on; default: 180. Above 60 "
        "and 300 it also raises the limits on loading without training and on the time to the first minibatch."
    ),
]
TrialsOption = Annotated[
    int, typer.Option(help="Maximum number of trials of loader arguments; those of power modes are extra.")
]
LikeOption = Annotated[
    str | None, typer.Option(help="With a command on a simulated board: the network to imitate in time and power.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tune", context_settings={"ignore_unknown_options": True})(tune)


@with_settings(OFFERED)
def tune(
    command: CommandArgument,
    settings: Settings,
    context: typer.Context,
    minimize: Annotated[
        str, typer.Option("--minimize", "--minimise", help="What to minimize: time or energy per minibatch.")
    ] = "time",
    max_power_w: Annotated[float | None, typer.Option(help="Limit on the mean power, in W.")] = None,
    max_ram: Annotated[
        str | None, typer.Option(help="Limit on the memory of a trial: 4GiB; default: 90 % of the available memory.")
    ] = None,
    trials: TrialsOption = 11,
    trial_args: Annotated[
        str, typer.Option(help='Arguments added to your command in trials only: "--epochs 1 --no-save".')
    ] = "",
    allow_writes: AllowWritesOption = False,
    allow_writes_in: AllowWritesInOption = None,
    trial_limit: TrialLimit = None,
    apply: Annotated[bool, typer.Option("--apply", help="Set the best power mode on the board.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --apply: show what would be set.")] = False,
    device: DeviceOption = "auto",
    like: LikeOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Find the best DataLoader arguments and power mode for your own training script, by short trials of it.

    The script is not changed. Each trial takes seconds and is then killed, so that it saves nothing. Options such as
    --batch-size and --workers are for a network that is given instead of a command.

    Example: edgetrain tune -- python train.py --epochs 2
    """
    note_missing(allow_writes_in or ())
    with record_kept():
        result = find_best(
            command,
            minimize=minimize,
            max_power_w=max_power_w,
            max_ram=max_ram,
            trials=trials,
            trial_args=trial_args,
            allow_writes=allow_writes,
            allow_writes_in=allow_writes_in or (),
            trial_limit=trial_limit,
            apply=apply,
            dry_run=dry_run,
            device=device,
            store=store,
            on_trial=lambda trial: print_note(show_trial(trial)),
            like=like,
            progress=None,
            propose=None,
            rule=None,
            **given_settings(context, settings),
        )
    print_result(result, show_tuned, json)
    if result.power_limit is not None and not result.power_limit.kept:
        raise typer.Exit(1)


def note_missing(folders: Sequence[Path]) -> None:
    """Say before the first trial which folders that may be written do not exist: a misspelled one has no effect."""
    for folder in folders:
        if not folder.expanduser().exists():
            print_note(f"there is no folder {folder} (--allow-writes-in); trials may make it")
