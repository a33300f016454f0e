"""`edgetrain modes`: which power modes this board has; set one, and put everything back."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from edgetrain.cli.options import JsonOption
from edgetrain.device import Device, open_device
from edgetrain.device.control import Control, Setting
from edgetrain.device.jetson import at_boot as unit
from edgetrain.device.modespace import ModeSpace, Stock
from edgetrain.errors import NeedsRoot, UsageError
from edgetrain.report.boards import show_modes, show_writes
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA, Origin

PANEL = "boards"
ORDER = 20

DeviceOption = Annotated[
    str, typer.Option("--device", help="`auto`, `jetson:/root/of/a/tree`, or a simulated board such as `sim:orin-agx`.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print every write, and do none.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(
        help="Which power modes this board has; set one so that it can always be undone.\n\n"
        "Example: edgetrain modes set 8/1728/624.75/3199",
        no_args_is_help=True,
    )
    verbs.command("list")(list_modes)
    verbs.command("set")(set_mode)
    verbs.command("restore")(restore)
    app.add_typer(verbs, name="modes", rich_help_panel=PANEL)


def list_modes(device: DeviceOption = "auto", json: JsonOption = False) -> None:
    """The board's own modes with what they really cap (names are not power budgets), and its clocks.

    Example: edgetrain modes list --device sim:orin-agx
    """
    board, space, control = _open(device)
    try:
        held = control.held()
        asked = held.asked if held else None
    except NeedsRoot:
        asked = "only root may see what: sudo edgetrain modes list"
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "device": _spec(board),
        "origin": Origin.SIMULATED if board.spec.kind == "simulated" else Origin.MEASURED,
        "stock": [dataclasses.asdict(stock) for stock in space.stock],
        "clocks": {name: list(getattr(space, name)) for name in ("cores", "cpu_hz", "gpu_hz", "emc_hz")},
        "custom_modes": len(space),
        "now": control.read(),
        "held": asked,
        "problems": list(space.problems),
    }
    if json:
        emit(document)
    else:
        console().print(show_modes(document))


def set_mode(
    mode: Annotated[
        str, typer.Argument(help="A stock mode by id or name, `cores/CPU/GPU/memory` in MHz, or `now` to hold what is.")
    ],
    device: DeviceOption = "auto",
    dvfs: Annotated[
        bool, typer.Option("--dvfs/--held", help="Let the governors move below the mode, or hold every clock at it.")
    ] = False,
    idle_states: Annotated[
        bool | None,
        typer.Option("--idle-states/--no-idle-states", help="CPU idle states; off while clocks are held, if not said."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--sensor-samples", help="Conversions the power monitors average: fewer refresh faster, noisier."),
    ] = None,
    allow_reboot: Annotated[
        bool, typer.Option("--allow-reboot", help="Try a mode that may need one; its prompt is still answered with no.")
    ] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Set a power mode and leave it set; `edgetrain modes restore` puts everything back, also after a crash.

    Example: edgetrain modes set 8/1728/624.75/3199 --dry-run
    """
    board, space, control = _open(device)
    found = None if mode.strip().lower() == "now" else space.find(mode)
    setting = Setting(
        mode=None if isinstance(found, Stock) else found,
        stock=found.id if isinstance(found, Stock) else None,
        dvfs=dvfs,
        idle_states=idle_states,
        samples=samples,
        allow_reboot=allow_reboot,
    )
    if dry_run:
        writes = control.plan(setting)
        closed = control.closed(setting)
        reboot = board.reboot_reason(setting.stock) if setting.stock is not None else None  # type: ignore[attr-defined]
    else:
        control.repair()
        writes, closed, reboot = control.set(setting), [], None
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "device": board.spec.name,
        "asked": str(setting),
        "dry_run": dry_run,
        "program": f"nvpmodel -m {setting.stock}" if setting.stock is not None else None,
        "writes": [dataclasses.asdict(write) for write in writes if write.before != write.value],
        "needs_root": closed,
        "needs_reboot": reboot,
        "now": control.read(),
    }
    if json:
        emit(document)
        return
    console().print(show_writes(document))
    if reboot:
        console(stderr=True).print(f"needs a reboot: {reboot}")
    if not dry_run:
        console(stderr=True).print("undo it with: edgetrain modes restore")


def restore(
    device: DeviceOption = "auto",
    dry_run: DryRunOption = False,
    at_boot: Annotated[
        bool | None,
        typer.Option("--at-boot/--not-at-boot", help="Install (or remove) a unit that does this at every boot."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Put the board back as it was before edgetrain changed it.

    Example: sudo edgetrain modes restore
    """
    board, _, control = _open(device)
    tree = board.tree  # type: ignore[attr-defined]
    document: dict[str, Any] = {"schema": SCHEMA, "device": board.spec.name, "dry_run": dry_run}
    said = console(stderr=True)
    if at_boot is not None:
        file, _ = unit.paths()
        document["unit"] = file if at_boot else None
        if dry_run:
            said.print(
                f"would {'install' if at_boot else 'remove'} {file}" + (f":\n{unit.unit_text()}" if at_boot else "")
            )
        elif at_boot:
            unit.install(tree)
            said.print(f"installed {file}: a mode left by a power cut is put back at the next boot")
        else:
            said.print(f"removed {file}" if unit.remove(tree) else f"there was no {file}")
        if json:
            emit(document)
        return
    entry = control.held()
    if entry is None:
        document.update(restored=None, writes=[])
        said.print("nothing is journaled: the board is as it was found")
    elif dry_run:
        writes = [write for write in control.plan_restore() if write.before != write.value]
        document.update(restored=None, asked=entry.asked, program=None, needs_root=[])
        document["writes"] = [dataclasses.asdict(write) for write in writes]
        if not json:
            console().print(show_writes(document))
    else:
        done = control.restore()
        document["restored"] = dataclasses.asdict(done) if done else None
        said.print(f"undid {entry.asked}; now {control.read()}")
    if json:
        emit(document)


def _open(device: str) -> tuple[Device, ModeSpace, Control]:
    board = open_device(device)
    space, control = board.modes(), board.control()
    if space is None or control is None:
        raise UsageError(
            f"{board.spec.name} has no power modes that can be set; on a machine without, try --device sim:orin-agx"
        )
    return board, space, control


def _spec(board: Device) -> dict[str, Any]:
    spec = dataclasses.asdict(board.spec)
    spec["extra"] = dict(board.spec.extra)
    return spec
