"""What a board is, what can be measured and set on it, its power modes, and what it draws idle.

doctor().findings                     what can be measured and set here, what is missing and how to get it
list_modes("sim:orin-agx").stock      the board's own modes with the clocks they cap
set_mode("8/1728/612/3199")           set a mode and leave it set; restore_mode() undoes it
baseload(seconds=60).rows             what the board draws idle
published_board("orin-agx").cpu       what is published about a board
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgetrain import device as boards
from edgetrain.device import Control, Device, ModeRequest, load_catalogue, open_device
from edgetrain.errors import NeedsRoot, UsageError
from edgetrain.record import FolderStore
from edgetrain.runner import measure_baseload, preview_baseload
from edgetrain.sampling import examine, sampling_cost
from edgetrain.schema import (
    Board,
    DoctorReport,
    IdlePreview,
    IdleTable,
    ModeChange,
    ModeClocks,
    ModeListing,
    ModeRestore,
    ModeSpace,
    Origin,
    SocketRow,
    StockMode,
)
from edgetrain.version import __version__

Progress = Callable[[str, int, int | None], None]
IDLE_STATES = {
    "logging": "clocks held, logging on",
    "dvfs_off": "clocks held, logging off",
    "dvfs_on": "clocks free, logging off",
    "wake_on_lan": "Wake-on-LAN",
}


def doctor(device: str = "auto", dataset: Path | None = None, store: Path | None = None) -> DoctorReport:
    """Return what a machine is, what can be measured and set on it, what is missing and how to get it."""
    found = open_device(device)
    findings = (*found.findings(), *examine(FolderStore(store).path, dataset))
    return DoctorReport(__version__, found.spec, found.total_power(), findings, sampling_cost(found))


def list_modes(device: str = "auto") -> ModeListing:
    """Return the board's own modes with the clocks they cap, its clocks, and what is in force."""
    board, space, control = _open(device)
    try:
        held = control.held()
    except NeedsRoot as error:
        held = str(error)
    clocks = ModeClocks(space.cores, space.cpu_hz, space.gpu_hz, space.emc_hz)
    now, origin = control.read(), _origin(board)
    return ModeListing(board.spec, origin, space.stock, clocks, len(space), now, held, space.problems)


def set_mode(
    mode: str,
    device: str = "auto",
    dvfs: bool = False,
    idle_states: bool | None = None,
    samples: int | None = None,
    full_fan: bool = False,
    allow_reboot: bool = False,
    dry_run: bool = False,
) -> ModeChange:
    """Set a power mode and leave it set: a stock mode by id or name, `cores/CPU/GPU/memory` in MHz, or `now`."""
    board, space, control = _open(device)
    found = None if mode.strip().lower() == "now" else space.find(mode)
    request = ModeRequest(
        mode=None if isinstance(found, StockMode) else found,
        stock=found.id if isinstance(found, StockMode) else None,
        dvfs=dvfs,
        idle_states=idle_states,
        samples=samples,
        full_fan=full_fan,
        allow_reboot=allow_reboot,
    )
    if dry_run:
        return replace(control.preview(request), device=board.spec.name)
    control.repair()
    return replace(control.set(request), device=board.spec.name)


def restore_mode(device: str = "auto", dry_run: bool = False) -> ModeRestore:
    """Put the board back as it was before edgetrain changed it."""
    board, _, control = _open(device)
    asked = control.held()
    writes = tuple(write for write in control.plan_restore() if write.before != write.value)
    if asked is None or dry_run:
        return ModeRestore(board.spec.name, dry_run, None, asked, writes, control.read())
    done = control.restore()
    return ModeRestore(board.spec.name, dry_run, done, asked, writes, control.read())


def restore_at_boot(enable: bool, device: str = "auto", dry_run: bool = False) -> ModeRestore:
    """Install or remove a unit that restores the board at every boot."""
    board, _, control = _open(device)
    unit: str | None = None
    if enable:
        unit = control.boot_unit if dry_run else control.install_boot_unit()
    elif not dry_run:
        control.remove_boot_unit()
    return ModeRestore(board.spec.name, dry_run, None, None, (), None, unit)


def baseload(
    device: str = "auto",
    seconds: float = 30.0,
    wake_on_lan_w: float | None = None,
    keep_clocks: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> IdleTable:
    """Measure what a board draws idle: clocks held or free, edgetrain's logging on or off."""
    board = open_device(device)
    scope = preview_baseload(board, seconds, not keep_clocks).scope
    rows = tuple(measure_baseload(board, seconds, not keep_clocks, progress))
    socket = _socket(board.spec.module or board.spec.name, board.spec.name, wake_on_lan_w)
    return IdleTable(board.spec.name, _origin(board), scope, seconds, rows, socket)


def baseload_preview(device: str = "auto", seconds: float = 30.0, keep_clocks: bool = False) -> IdlePreview:
    """Return what `baseload` would measure and change, without doing it."""
    return preview_baseload(open_device(device), seconds, not keep_clocks)


def install_control(dry_run: bool = False) -> str:
    """Install edgetrain-control, which sets modes for users without root, and return its path; needs root."""
    return boards.install_control(dry_run=dry_run)


def published_board(name: str) -> Board:
    """Return what is published about a board, by key, alias or module number."""
    return load_catalogue().get(name)


def published_boards() -> tuple[Board, ...]:
    """Return what is published about every board of the catalogue."""
    return load_catalogue().boards


def published_sources() -> Mapping[str, str]:
    """Return the sources that the catalogue's facts name."""
    return load_catalogue().sources


def _socket(module: str, name: str, wake_on_lan_w: float | None) -> tuple[SocketRow, ...]:
    """Return what is known at the socket: published figures, and the user's own for Wake-on-LAN."""
    known = load_catalogue().find(module) or load_catalogue().find(name)
    rows = [
        SocketRow(IDLE_STATES[state], watts, str(Origin.PUBLISHED))
        for state, watts in (known.idle_socket_w.items() if known else ())
        if state in IDLE_STATES and not (state == "wake_on_lan" and wake_on_lan_w is not None)
    ]
    if wake_on_lan_w is not None:
        rows.append(SocketRow(IDLE_STATES["wake_on_lan"], wake_on_lan_w, "given"))
    return tuple(rows)


def _origin(board: Device) -> Origin:
    return Origin.SIMULATED if board.spec.kind == "simulated" else Origin.MEASURED


def _open(device: str) -> tuple[Device, ModeSpace, Control]:
    board = open_device(device)
    space, control = board.modes(), board.control()
    if space is None or control is None:
        raise UsageError(
            f"{board.spec.name} has no power modes that can be set; on a machine without, try --device sim:orin-agx"
        )
    return board, space, control
