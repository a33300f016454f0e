"""Sets a board's power mode so that it always comes back: journal, apply, read back, hold, restore.

    with control.hold(ModeRequest(mode)):     the mode holds inside, the board is as before outside
    control.set(ModeRequest(mode))            the mode stays after we end; control.restore() undoes it
    control.repair()                          at every start: undo what a killed process left

Here a request becomes values of named settings, and what came of it is judged; who writes them is `sessions`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from edgetrain.device.boot_unit import UNIT_FILE, install_unit, remove_unit
from edgetrain.device.privileged import JOURNAL, ControlError, JournalEntry, RestoreReport, active_throttles, rank, same
from edgetrain.device.sessions import INSTALL_COMMAND, ControlSession, local_session
from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused, DeviceError, NeedsRoot
from edgetrain.schema import ModeChange, PowerMode, Restored, SettingWrite

RESTORE_COMMAND = "sudo edgetrain modes restore"
# Settings that do not make the mode: where one of them is refused, the mode holds all the same, with a doubt.
SIDE_SETTINGS = ("gpu.railgate", "emc.state", "emc.halt", ".idle", ".samples", "fan.")


@dataclass(frozen=True, slots=True)
class ModeRequest:
    """What to hold. `mode`: custom clocks; `stock`: the id of one of the board's own modes; never both."""

    mode: PowerMode | None = None
    stock: int | None = None
    dvfs: bool = False  # off: clocks held, as jetson_clocks does; on: the mode is a ceiling
    idle_states: bool | None = None  # None: off while clocks are held, as jetson_clocks does
    samples: int | None = None  # conversions that the power monitors average; None: as it is
    full_fan: bool = False  # run the fan at full speed meanwhile
    allow_reboot: bool = False  # try a mode that may need one; the prompt is still answered with no

    def __str__(self) -> str:
        what = f"stock mode {self.stock}" if self.stock is not None else str(self.mode or "the clocks as they are")
        fan = ", fan at full speed" if self.full_fan else ""
        return f"{what}, clocks {'free below that' if self.dvfs else 'held'}{fan}"


class ControlledBoard(Protocol):
    """What control needs of a board."""

    tree: Tree

    def settings(self) -> Mapping[str, str]:
        """Return every setting by name with its file, as far as this user can see them."""

    def state(self) -> dict[str, int]:
        """Read every setting that this user can read."""

    def resolve(self, request: ModeRequest) -> tuple[ModeRequest, list[str]]:
        """Return the request with a stock mode in place of its clocks where that is what they are, and doubts."""

    def desired(self, request: ModeRequest, now: Mapping[str, int]) -> dict[str, int]:
        """Return the values that a request means."""

    def freed(self, now: Mapping[str, int]) -> dict[str, int]:
        """Return the values with nothing held from below, so that nvpmodel can set its maxima."""

    def uncapped(self, now: Mapping[str, int]) -> dict[str, int]:
        """Return maximum clocks as they would be if the board were not hot, where heat lowers them now."""

    def current_mode(self) -> PowerMode:
        """Return the mode that the caps now in force amount to."""

    def check_stock(self, number: int, status: int, text: str, now: Mapping[str, int]) -> list[str]:
        """Raise ControlRefused where nvpmodel did not put the mode in force; return doubts where it did."""

    def reboot_reason(self, number: int, undo: bool) -> str | None:
        """Return why a stock mode needs a reboot; `undo`: also where only the way back would."""


class Control:
    """The journaled control of one board."""

    def __init__(self, board: ControlledBoard, elevate: Callable[[], ControlSession | None] = lambda: None) -> None:
        self._board = board
        self._tree = board.tree
        self._elevate = elevate  # returns a session with root's rights, or None
        self._session: ControlSession | None = None
        self._wanted: dict[str, int] = {}
        self.doubts: tuple[str, ...] = ()  # of the last request that was applied

    def read(self) -> PowerMode:
        """Return the mode in force, as the board's files show it."""
        return self._board.current_mode()

    def plan(self, request: ModeRequest) -> list[SettingWrite]:
        """Return every write that a request would take now, in order, without doing one."""
        now = self._board.state()
        return self._writes(self._board.desired(request, now), now)

    def plan_restore(self) -> list[SettingWrite]:
        """Return every write that `restore` would take now."""
        entry = self._held()
        return self._writes(entry.values, self._board.state()) if entry else []

    def _writes(self, wanted: Mapping[str, int], now: Mapping[str, int]) -> list[SettingWrite]:
        paths = self._board.settings()
        names = sorted(wanted, key=lambda name: rank(name, wanted[name]))
        return [SettingWrite(name, paths.get(name, "seen by root only"), wanted[name], now.get(name)) for name in names]

    def closed(self, request: ModeRequest) -> list[str]:
        """Return the files that a request would write and this user may not."""
        paths = [write.path for write in self.plan(request)]
        return [path for path in paths if not self._tree.exists(path) or not self._tree.writable(path)]

    def preview(self, request: ModeRequest) -> ModeChange:
        """Return what setting a mode would do."""
        request, doubts = self._board.resolve(request)
        reboot = self._board.reboot_reason(request.stock, undo=False) if request.stock is not None else None
        return self._change(request, self.plan(request), True, tuple(self.closed(request)), reboot, tuple(doubts))

    def _change(
        self,
        request: ModeRequest,
        writes: list[SettingWrite],
        dry_run: bool,
        closed: tuple[str, ...],
        reboot: str | None,
        doubts: tuple[str, ...],
    ) -> ModeChange:
        changed = tuple(
            write for write in writes if write.before is None or not same(write.name, write.value, write.before)
        )
        program = f"nvpmodel -m {request.stock}" if request.stock is not None else None
        return ModeChange("", str(request), dry_run, program, changed, closed, reboot, self.read(), doubts)

    def hold(self, request: ModeRequest) -> contextlib.AbstractContextManager[Control]:
        """Hold a mode for a while; the board is as before afterwards, also when the inside raises."""
        return self._for_a_while(request, request)

    def session(self, full_fan: bool = False) -> contextlib.AbstractContextManager[Control]:
        """Hold several modes one after another (`apply` each); the board is as before afterwards."""
        return self._for_a_while(ModeRequest(dvfs=True, full_fan=full_fan), None)

    @contextlib.contextmanager
    def _for_a_while(self, asked: ModeRequest, first: ModeRequest | None) -> Iterator[Control]:
        self._begin(asked, keep=False)
        try:
            if asked.full_fan:
                self._full_fan()
            if first is not None:
                self.apply(first)
            yield self
        finally:
            try:
                self._put_back()
            finally:
                self._end()

    def set(self, request: ModeRequest) -> ModeChange:
        """Set a mode and leave it so; `restore` undoes it. Where it fails the board is put back at once."""
        planned = self.plan(self._board.resolve(request)[0])
        session = self._begin(request, keep=True)
        try:
            try:
                if request.full_fan:
                    self._full_fan()
                self.apply(request)
            except DeviceError:
                self._put_back()
                raise
            with _refusals():
                session.keep()
        finally:
            self._end()
        return self._change(self._board.resolve(request)[0], planned, False, (), None, self.doubts)

    def _begin(self, request: ModeRequest, keep: bool) -> ControlSession:
        """Check, then take the board and journal it as it is."""
        resolved, _ = self._board.resolve(request)
        if resolved.stock is not None and not resolved.allow_reboot:
            reason = self._board.reboot_reason(resolved.stock, undo=not keep)
            if reason:
                raise ControlRefused(
                    f"stock mode {resolved.stock} needs a reboot: {reason}; choose another, or ask for it with "
                    "--allow-reboot (nvpmodel's prompt is answered with no even then)",
                    asked=f"{resolved.stock}",
                    reboot=True,
                )
        session = self._open(request)
        try:
            with _refusals():
                session.begin(str(request), keep, self._board.uncapped(session.read()))
        except BaseException:
            session.close()
            raise
        self._session = session
        return session

    def _open(self, request: ModeRequest) -> ControlSession:
        """Return a session that may write what the request needs."""
        closed = self.closed(request)
        if not closed and not self._journal_is_roots():
            return local_session(self._tree)
        session = self._elevate()
        if session is not None:
            return session
        if os.geteuid() == 0:
            raise ControlRefused(
                f"{closed[0]} cannot be written even by root (and {len(closed) - 1} more): inside a container sysfs is "
                "read-only; set modes on the host",
            )
        what = f"{len(closed)} files that only root may write, {closed[0]} first" if closed else "root's journal"
        raise NeedsRoot(
            f"setting the mode writes {what}; run the same command with sudo (--dry-run lists every write), or set up "
            f"edgetrain-control once with: {INSTALL_COMMAND}",
            command="sudo edgetrain modes set MODE",
        )

    def _journal_is_roots(self) -> bool:
        try:
            return os.geteuid() != 0 and os.lstat(self._tree.at(JOURNAL)).st_uid == 0
        except OSError:
            return False

    def _full_fan(self) -> None:
        assert self._session is not None
        with _refusals():
            wrong = self._session.full_fan()
        self.doubts = tuple(f"the fan is not at full speed: {name} {why}" for name, why in wrong.items())

    def apply(self, request: ModeRequest) -> None:
        """Bring the board into a mode and read every value back. Only inside `hold`, `session` or `set`."""
        session = self._session
        if session is None:
            raise DeviceError("a mode is applied inside hold(), session() or set() only")
        request, doubts = self._board.resolve(request)
        with _refusals():
            if request.stock is not None:
                session.write(self._board.freed(session.read()))
                status, text = session.set_stock(request.stock)
                doubts += self._board.check_stock(request.stock, status, text, session.read())
            wanted = self._board.desired(request, session.read())
            wrong = session.write(wanted)
        main = {name: why for name, why in wrong.items() if not any(word in name for word in SIDE_SETTINGS)}
        if main:
            raise self._refusal(request, wanted, main)
        doubts += [f"{name} was not set to {wanted[name]}: {why}" for name, why in wrong.items()]
        fan = [text for text in self.doubts if text.startswith("the fan")]
        self.doubts = (*fan, *doubts)
        self._wanted = {name: value for name, value in wanted.items() if name not in wrong}

    def _refusal(self, request: ModeRequest, wanted: Mapping[str, int], wrong: Mapping[str, str]) -> ControlRefused:
        name, why = next(iter(wrong.items()))
        hot = active_throttles(self._tree)
        advice = (
            f"the board is throttling ({', '.join(hot)}): heat lowers its clocks; let it cool down and try again"
            if hot
            else "check that no other tool sets the clocks and that this user may"
        )
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return ControlRefused(
            f"asked the board for {request}, but {name} did not become {wanted[name]}: {why}{more}; {advice}",
            asked=f"{request}",
            found="; ".join(f"{each}: {reason}" for each, reason in wrong.items()),
            throttled=bool(hot),
        )

    def drift(self) -> list[str]:
        """Return what differs from what was applied: another tool set it meanwhile, or the board throttles."""
        now = self._session.read() if self._session is not None else self._board.state()
        return [
            f"{name} is {now.get(name, '–')}, not {value}"
            for name, value in self._wanted.items()
            if not same(name, value, now.get(name))
        ]

    def _put_back(self) -> Restored | None:
        assert self._session is not None
        with _refusals():
            report = self._session.restore()
        self._wanted = {}
        return _judged(report)

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with _refusals():
                session.close()

    def restore(self) -> Restored | None:
        """Put the board back as the journal says; None where nothing is journaled."""
        with self._reading() as session, _refusals():
            report = session.restore() if session is not None else None
        self._wanted = {}
        return _judged(report)

    def repair(self) -> Restored | None:
        """Undo what a killed process left; leaves alone what a user set to stay, and what a living process holds."""
        try:
            with self._reading() as session, _refusals():
                return _judged(session.repair() if session is not None else None)
        except NeedsRoot:
            return None  # only root can repair root's journal; `modes restore` says so

    @property
    def boot_unit(self) -> str:
        """The file of the unit that restores the board at boot."""
        return UNIT_FILE

    def install_boot_unit(self) -> str:
        """Install a unit that restores the board at every boot; return its file."""
        return install_unit(self._tree)

    def remove_boot_unit(self) -> bool:
        """Remove that unit; return whether there was one."""
        return remove_unit(self._tree)

    def held(self) -> str | None:
        """Return what is set to stay or being held, in words; None where nothing is."""
        entry = self._held()
        return entry.asked if entry else None

    def _held(self) -> JournalEntry | None:
        with self._reading() as session, _refusals():
            return session.held() if session is not None else None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[ControlSession | None]:
        """Give a session that may read the journal and restore from it; None where there is no journal."""
        if self._session is not None:
            yield self._session
            return
        if not os.path.lexists(self._tree.at(JOURNAL)):
            yield None
            return
        session: ControlSession | None = None
        if self._journal_is_roots():
            session = self._elevate()
            if session is None:
                raise NeedsRoot(
                    f"only root can read what was set on this board; run: {RESTORE_COMMAND}", command=RESTORE_COMMAND
                )
        session = session or local_session(self._tree)
        try:
            yield session
        finally:
            session.close()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the writing side refuses into our own error."""
    try:
        yield
    except ControlError as error:
        raise ControlRefused(str(error)) from error
    except PermissionError as error:
        raise NeedsRoot(
            f"may not write {error.filename}: {error.strerror}; run the same command with sudo",
            command="sudo edgetrain modes set MODE",
        ) from error


def _judged(report: RestoreReport | None) -> Restored | None:
    if report is None:
        return None
    done = Restored(report.asked, report.written, report.stock, tuple(report.left), tuple(report.later))
    if done.left:
        raise ControlRefused(
            f"could not put back {len(done.left)} values: {'; '.join(done.left[:3])}; the journal is kept, try again "
            f"with: {RESTORE_COMMAND}",
            found="; ".join(done.left),
        )
    return done
