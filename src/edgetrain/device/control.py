"""Sets a board's power mode so that it always comes back: snapshot, journal, apply, read back, hold, restore.

    with control.hold(Setting(mode)):     the mode holds inside, the board is as before outside
    control.set(Setting(mode))            the mode stays after we end; control.restore() undoes it
    control.repair()                      at every start: undo what a killed process left behind

Only files that this board's own list contains are ever written, through no link, whatever a journal says.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from edgetrain.device.journal import Entry, Journal
from edgetrain.device.writes import Writable, Write, write_all
from edgetrain.errors import ControlRefused, DeviceError, NeedsRoot
from edgetrain.schema import PowerMode


@dataclass(frozen=True, slots=True)
class Setting:
    """What to hold. `mode` custom clocks, or `stock` the id of one of the board's own; never both."""

    mode: PowerMode | None = None
    stock: int | None = None
    dvfs: bool = False  # off: clocks held, as jetson_clocks does
    idle_states: bool | None = None  # None: off while clocks are held, as jetson_clocks does
    samples: int | None = None  # averaging depth of the power monitors; None: as it is
    allow_reboot: bool = False  # try a mode that may need one; the prompt is still answered with no

    def __str__(self) -> str:
        what = f"stock mode {self.stock}" if self.stock is not None else str(self.mode or "the clocks as they are")
        return f"{what}, clocks {'free below that' if self.dvfs else 'held'}"


@dataclass(frozen=True, slots=True)
class Restored:
    """What restoring did."""

    asked: str  # what had been set
    written: int
    nvpmodel: int | None
    left: tuple[str, ...] = ()  # what could not be put back


class Board(Writable, Protocol):
    """What control needs of a board."""

    def key(self) -> str:
        """Return module and serial: a journal of another board is refused."""

    def boot(self) -> str:
        """Return the boot id."""

    def desired(self, setting: Setting) -> dict[str, str]:
        """Return the values that mean a setting."""

    def current_mode(self) -> PowerMode:
        """Return the mode that the caps now in force come to."""

    def active_stock(self) -> int | None: ...

    def switch_stock(self, identity: int) -> None:
        """Put a stock mode in force; ControlRefused where it does not take."""

    def reboot_reason(self, identity: int) -> str | None: ...


class Control:
    """The journaled control of one board."""

    def __init__(self, board: Board, journal: Journal | None = None) -> None:
        self._board = board
        self._tree = board.tree
        self._journal = journal or Journal(board.tree.root)
        self._wanted: dict[str, str] = {}

    def plan(self, setting: Setting) -> list[Write]:
        """Return every write that setting would take now, without doing one."""
        return self._board.order(self._board.desired(setting), self._board.state())

    def plan_restore(self) -> list[Write]:
        """Return every write that `restore` would take now."""
        entry = self._own_entry()
        return self._board.order(entry.values, self._board.state()) if entry else []

    def read(self) -> str:
        """Return the mode in force, as the board's files say it."""
        return str(self._board.current_mode())

    def closed(self, setting: Setting) -> list[str]:
        """Return the files that setting would write and this user may not."""
        paths = [write.path for write in self.plan(setting)]
        return [path for path in paths if self._tree.exists(path) and not self._tree.writable(path)]

    def hold(self, setting: Setting) -> contextlib.AbstractContextManager[Control]:
        """Hold a setting for a while; the board is as before afterwards, also when the inside raises."""
        return self._hold(setting)

    @contextlib.contextmanager
    def _hold(self, setting: Setting) -> Iterator[Control]:
        self._begin(setting, keep=False)
        try:
            self.apply(setting)
            yield self
        finally:
            try:
                self.restore()
            finally:
                self._journal.unlock()

    def session(self) -> contextlib.AbstractContextManager[Control]:
        """Hold several settings one after another (`apply` each); the board is as before afterwards."""
        return self._session()

    @contextlib.contextmanager
    def _session(self) -> Iterator[Control]:
        self._begin(Setting(dvfs=True), keep=False)
        try:
            yield self
        finally:
            try:
                self.restore()
            finally:
                self._journal.unlock()

    def set(self, setting: Setting) -> list[Write]:
        """Set and leave it so; `restore` undoes it. Where it fails the board is put back at once."""
        planned = self.plan(setting)
        self._begin(setting, keep=True)
        try:
            try:
                self.apply(setting)
            except DeviceError:
                self.restore()
                raise
            entry = self._journal.read()
            if entry is not None:
                self._journal.write(replace(entry, phase="held"))
        finally:
            self._journal.unlock()
        return planned

    def _begin(self, setting: Setting, keep: bool) -> None:
        """Check, lock, repair what was left, and journal the board as it is."""
        self._may_write(setting)
        if setting.stock is not None and not setting.allow_reboot:
            reason = self._board.reboot_reason(setting.stock)
            if reason:
                raise ControlRefused(
                    f"stock mode {setting.stock} needs a reboot: {reason}; choose another, or ask for it with "
                    "--allow-reboot (nvpmodel's prompt is answered with no even then)",
                    asked=setting.stock,
                    found=self._board.active_stock(),
                    reboot=True,
                )
        self._journal.lock()
        try:
            entry = self._own_entry()
            if entry is not None and not (entry.keep and entry.phase == "held"):
                self.restore()  # a killed process left it: back to the original first
                entry = None
            if entry is not None and keep:
                # The journal keeps the board as it was before the first of several settings.
                self._journal.write(replace(entry, phase="applying", asked=str(setting)))
                return
            # Inside a mode that was set to stay, "as before" means that mode: it stays in `extra` to come back to.
            held = {} if entry is None else {"outer": _as_dict(entry)}
            stock = self._board.active_stock()
            self._journal.write(
                Entry(
                    self._board.key(), self._board.boot(), "applying", keep, self._board.state(), stock,
                    str(setting), held,
                )
            )  # fmt: skip
        except BaseException:
            self._journal.unlock()
            raise

    def apply(self, setting: Setting) -> dict[str, str]:
        """Bring the board into a setting and read every value back. Only inside `hold`, `session` or `set`."""
        if setting.stock is not None:
            entry = self._own_entry()
            if entry is not None and not entry.extra.get("stock"):
                # Noted before nvpmodel runs: killed half-way, its status may not say what it has already written.
                self._journal.write(replace(entry, extra={**entry.extra, "stock": True}))
            self._board.switch_stock(setting.stock)
        wanted = self._board.desired(setting)
        write_all(self._board, wanted)
        self._wanted = wanted
        return wanted

    def drift(self) -> list[str]:
        """Return what differs from what was applied: another tool set it meanwhile, or the board gave way."""
        now = self._board.state()
        return [
            f"{name} is {now.get(name, '–')}, not {value}"
            for name, value in self._wanted.items()
            if now.get(name) != value
        ]

    def restore(self) -> Restored | None:
        """Put the board back as the journal says; None where nothing is journaled."""
        locked_here = not self._journal.locked
        if locked_here:
            if not self._journal.folder.exists():
                return None
            self._journal.lock()
        try:
            entry = self._own_entry()
            if entry is None:
                return None
            report = self._restore(entry)
            if report.left:
                raise ControlRefused(
                    f"could not put back {len(report.left)} values: {'; '.join(report.left[:3])}; the journal is kept, "
                    "try again with: sudo edgetrain modes restore",
                    asked=entry.values,
                    found=self._board.state(),
                )
            outer = entry.extra.get("outer")
            if outer:
                self._journal.write(_from_dict(outer))
            else:
                self._journal.clear()
            self._wanted = {}
            return report
        finally:
            if locked_here:
                self._journal.unlock()

    def _restore(self, entry: Entry) -> Restored:
        strangers = [name for name in entry.values if name not in self._board.allowed()]
        if strangers:
            raise ControlRefused(
                f"refusing the journal: it would write {strangers[0]}, which is not on this board's list",
                path=strangers[0],
            )
        rebooted = entry.boot != self._board.boot()
        if entry.phase != "restoring":
            self._journal.write(replace(entry, phase="restoring"))
        left: list[str] = []
        touched = rebooted or entry.extra.get("stock") or self._board.active_stock() != entry.nvpmodel
        if entry.nvpmodel is not None and touched:
            try:
                self._board.switch_stock(entry.nvpmodel)
            except ControlRefused as refusal:
                # Where the mode is in force all the same, the values below decide.
                if self._board.active_stock() != entry.nvpmodel:
                    left.append(str(refusal))
        if rebooted:
            # Clocks do not outlive a reboot; the values in the journal belong to the boot before.
            return Restored(entry.asked, 0, entry.nvpmodel, tuple(left))
        before = self._board.state()
        count = len([w for w in self._board.order(entry.values, before) if w.before != w.value])
        try:
            write_all(self._board, entry.values)
        except ControlRefused as refusal:
            left.append(str(refusal))
        except NeedsRoot:
            raise
        return Restored(entry.asked, count, entry.nvpmodel, tuple(left))

    def repair(self) -> Restored | None:
        """Undo what a killed process left behind; leaves alone what a user set to stay, and what lives."""
        if not self._journal.folder.exists():
            return None
        try:
            entry = self._own_entry()
        except NeedsRoot:
            return None  # root's journal is root's to repair; `modes restore` says so
        if entry is None or (entry.keep and entry.phase == "held"):
            return None
        try:
            self._journal.lock()
        except ControlRefused:
            return None  # its owner lives
        try:
            return self.restore()
        finally:
            self._journal.unlock()

    def held(self) -> Entry | None:
        """Return what is journaled now, for people to see."""
        return self._own_entry() if self._journal.folder.exists() else None

    def _own_entry(self) -> Entry | None:
        entry = self._journal.read()
        if entry is not None and entry.device != self._board.key():
            raise ControlRefused(
                f"refusing the journal: it is of {entry.device}, this board is {self._board.key()}; "
                f"remove {self._journal.folder / 'board.json'} after looking at it"
            )
        return entry

    def _may_write(self, setting: Setting) -> None:
        closed = self.closed(setting)
        if closed and os.geteuid() == 0:
            raise ControlRefused(
                f"{closed[0]} cannot be written even by root (and {len(closed) - 1} more): inside a container sysfs is "
                "read-only; set modes on the host",
                paths=closed,
            )
        if closed:
            raise NeedsRoot(
                f"setting the mode writes {len(closed)} files that only root may write, {closed[0]} first; "
                "run the same command with sudo (--dry-run lists them all)",
                command="sudo edgetrain modes set MODE",
                paths=closed,
            )


def _as_dict(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in entry.__slots__}


def _from_dict(document: dict[str, object]) -> Entry:
    return Entry(**document)  # type: ignore[arg-type]
