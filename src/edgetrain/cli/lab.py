"""`edgetrain lab`: this machine limited to a smaller one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import lab_down, lab_limits, lab_measure, lab_measure_medium, lab_preview, lab_status, lab_up
from edgetrain.cli.options import JsonOption
from edgetrain.cli.settings import Settings, options_named, with_settings
from edgetrain.errors import LabError, UsageError
from edgetrain.report import (
    console,
    emit,
    lab_down_text,
    lab_measured_table,
    lab_preview_text,
    lab_status_text,
    lab_up_text,
)

MediaOption = Annotated[
    str | None,
    typer.Option("--media", envvar="EDGETRAIN_MEDIA", help="YAML file that describes storage media of your own."),
]


LIMITS = options_named(
    "storage",
    "page_cache",
    "ram",
    "cores",
    "cpu_share",
    "preset",
    "shrink",
    storage="Storage medium: ssd, sd, hdd, emmc or your own.",
    ram="RAM of the emulated machine; see --network.",
    preset="Limits of a board: xavier-nx, xavier-agx, nano, …",
    shrink="With --preset: divide its page cache by this.",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = typer.Typer(
        help="Make this machine behave like a smaller one: limit its storage, RAM and cores.\n\n"
        "Example: edgetrain lab up --storage sd --page-cache 2GB --dataset photos",
        no_args_is_help=True,
    )
    commands.command("up")(up)
    commands.command("down")(down)
    commands.command("status")(status)
    commands.command("measure")(measure)
    app.add_typer(commands, name="lab")


@with_settings(LIMITS)
def up(
    settings: Settings,
    dataset: Annotated[Path | None, typer.Option(help="Folder to put on the slow medium.")] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Network to be trained: its memory is subtracted from --ram, the rest limits the page cache."
        ),
    ] = None,
    media: MediaOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be limited; change nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Apply limits until `lab down`, for programs of your own.

    Example: edgetrain lab up --storage hdd --page-cache 500MB --dataset photos
    """
    limits = lab_limits(network, media, dataset is not None, **settings)
    if dry_run:
        preview = lab_preview(limits)
        if json:
            emit(preview)
        else:
            console().print(lab_preview_text(preview))
        return
    applied = lab_up(limits, dataset, say=console(stderr=True).print)
    if json:
        emit(applied)
    else:
        console().print(lab_up_text(applied), soft_wrap=True)


def down(
    images: Annotated[
        bool, typer.Option("--images", help="Also remove the disk images, which are kept for later runs.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; change nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove everything that the lab set up on this machine, including what a killed run left behind; nothing else.

    Example: edgetrain lab down
    """
    result = lab_down(images, dry_run)
    if json:
        emit(result)
    else:
        console().print(lab_down_text(result))
    if result.stayed:
        raise LabError(f"could not be removed: {'; '.join(result.stayed)}; run `sudo edgetrain lab down`")


def status(json: JsonOption = False) -> None:
    """Show what the lab limits at present, what killed runs left behind, and which mechanisms this machine has.

    Example: edgetrain lab status
    """
    result = lab_status()
    if json:
        emit(result)
    else:
        console().print(lab_status_text(result))


def measure(
    storage: Annotated[list[str] | None, typer.Option(help="Medium to measure; repeat the option for several.")] = None,
    media: MediaOption = None,
    at: Annotated[str | None, typer.Option(help="Folder for the test files.")] = None,
    own: Annotated[
        str | None,
        typer.Option(help="Measure the real medium of the folder --at instead, and give it this name.", metavar="NAME"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="With --own: add the measured medium to this file, for --media."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure how well the limits are kept: latency, bandwidth, several readers, cacheable bytes and CPU.

    The exit status is 1 if one deviates by more than 15 %. It takes half a minute and needs an otherwise idle machine.
    With --own, measure a medium of this machine: `whatif --media FILE --set storage=NAME` then predicts with it.

    Example: edgetrain lab measure --own card --at /mnt/card -o media.yaml
    """
    say = console(stderr=True).print
    if own is not None:
        if at is None:
            raise UsageError("--own measures the storage medium of a folder: name the folder with --at FOLDER")
        result = lab_measure_medium(own, at, output, say=say)
    elif output is not None:
        raise UsageError(
            "-o names the file to which a measured medium is added; give the medium a name with --own NAME"
        )
    else:
        result = lab_measure(storage or ("sd", "hdd", "ssd"), media, at, say=say)
    if json:
        emit(result)
    else:
        console().print(lab_measured_table(result))
    broken = [f"{proof.limit} {proof.what}" for proof in result.limits if proof.holds is False]
    if broken:
        raise LabError(
            f"{len(broken)} of {len(result.limits)} limits deviate by more than {100 * result.tolerance:.0f} %:"
            f" {'; '.join(broken)}; check the machine's load and try again"
        )
