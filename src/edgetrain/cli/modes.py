"""`edgetrain modes`: which power modes this board has; set one, and put everything back."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption
from edgetrain.report import console, emit, show_change, show_modes, show_restore

DeviceOption = Annotated[
    str, typer.Option("--device", help="`auto`, `jetson:/root/of/a/tree`, or a simulated board such as `sim:orin-agx`.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print every write; change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    verbs = typer.Typer(
        help="List, set and restore a board's power modes.\n\nWhat is set can always be undone, also after a crash.\n\n"
        "Example: edgetrain modes set 8/1728/624.75/3199",
        no_args_is_help=True,
    )
    verbs.command("list")(list_modes)
    verbs.command("set")(set_mode)
    verbs.command("restore")(restore)
    verbs.command("install-control")(install)
    app.add_typer(verbs, name="modes")


def list_modes(device: DeviceOption = "auto", json: JsonOption = False) -> None:
    """List the stock modes with the clocks they cap (their names are not power limits), and the clocks to choose from.

    Example: edgetrain modes list --device sim:orin-agx
    """
    found = api.list_modes(device)
    if json:
        emit(found)
    else:
        console().print(show_modes(found))


def set_mode(
    mode: Annotated[
        str,
        typer.Argument(
            help="A stock mode by id or name, `cores/CPU/GPU/memory` in MHz, or `now` for the present clocks."
        ),
    ],
    device: DeviceOption = "auto",
    dvfs: Annotated[
        bool,
        typer.Option("--dvfs/--held", help="Let the clock governors lower clocks below the mode, or hold every clock."),
    ] = False,
    idle_states: Annotated[
        bool | None,
        typer.Option(
            "--idle-states/--no-idle-states", help="Allow CPU idle states; default: only while clocks are not held."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--sensor-samples",
            help="Number of conversions that the power monitors average; fewer are faster and noisier.",
        ),
    ] = None,
    full_fan: Annotated[
        bool, typer.Option("--full-fan", help="Run the fan at full speed until `edgetrain modes restore`.")
    ] = False,
    allow_reboot: Annotated[
        bool,
        typer.Option(
            "--allow-reboot", help="Try a mode that may need a reboot; edgetrain itself never reboots the board."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Set a power mode and leave it set; `edgetrain modes restore` puts everything back, also after a crash.

    Example: edgetrain modes set 8/1728/624.75/3199 --dry-run
    """
    done = api.set_mode(mode, device, dvfs, idle_states, samples, full_fan, allow_reboot, dry_run)
    if json:
        emit(done)
        return
    console().print(show_change(done))
    if not dry_run:
        console(stderr=True).print(f"undo it with: {api.undo_command(device)}")


def restore(
    device: DeviceOption = "auto",
    dry_run: DryRunOption = False,
    at_boot: Annotated[
        bool | None,
        typer.Option(
            "--at-boot/--not-at-boot", help="Install (or remove) a systemd unit that restores the board at every boot."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Put the board back as it was before edgetrain changed it.

    Example: sudo edgetrain modes restore
    """
    if at_boot is None:
        done = api.restore_mode(device, dry_run)
    else:
        done = api.restore_at_boot(at_boot, device, dry_run)
    if json:
        emit(done)
    else:
        console().print(show_restore(done, at_boot))


def install(dry_run: DryRunOption = False) -> None:
    """Install edgetrain-control, the small program that sets modes for users without root.

    It goes to /usr/local/sbin, owned by root. `edgetrain doctor` then prints the line for sudoers.

    Example: sudo edgetrain modes install-control
    """
    path = api.install_control(dry_run)
    if dry_run:
        console().print(f"would install {path}; nothing was changed")
    else:
        console().print(f"installed {path}; edgetrain doctor shows the line for sudoers")
