"""Changes of a board that always come back: snapshot, journal, write, read back, restore.

Part of edgetrain-control: Python 3.6, standard library only.
"""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from edgetrain.device.privileged.files import ControlError, Files
from edgetrain.device.privileged.journal import BoardJournal, JournalEntry
from edgetrain.device.privileged.settings import FULL_FAN, BoardSettings, active_throttles

NVPMODEL_STATUS = "/var/lib/nvpmodel/status"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
DEVICE_TREE = "/proc/device-tree"


class RestoreReport(NamedTuple):
    """What restoring did."""

    asked: str  # what had been set
    written: int
    stock: Optional[int]
    left: List[str]  # what could not be put back
    later: List[str]  # what was written and takes effect when the board has cooled down


class BoardTransaction:
    """The one that may change the board: holds its lock from the first change until everything is put back."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.settings = BoardSettings(files)
        self.journal = BoardJournal(files)
        self._changing = False  # between `begin` and the first `restore` or `keep`

    def device(self) -> str:
        """Return module and serial number: a journal of another board is refused."""
        words = [self.files.text("%s/%s" % (DEVICE_TREE, name)) or "none" for name in ("compatible", "serial-number")]
        return "/".join(word.split(" ")[0] for word in words)

    def active_stock(self) -> Optional[int]:
        """Return the stock mode that nvpmodel's status file names; whether it is in force the clocks decide."""
        found = re.search(r"pmode:\s*(\d+)", self.files.text(NVPMODEL_STATUS) or "")
        return int(found.group(1)) if found else None

    def read(self) -> Dict[str, int]:
        """Return every setting that can be read."""
        return self.settings.read()

    def held(self) -> Optional[JournalEntry]:
        """Return what is journaled, None where nothing is."""
        entry = self.journal.read()
        if entry is not None and entry.device != self.device():
            text = "refusing the journal: it is of %s, this board is %s; inspect %s, then remove it"
            raise ControlError(text % (entry.device, self.device(), self.journal.file))
        return entry

    def begin(self, asked: str, keep: bool, instead: Mapping[str, int]) -> None:
        """Take the board, undo what a killed process left, and journal the board as it is.

        `instead` corrects the snapshot of maximum clocks that heat lowers at this moment: restoring the lowered value
        would make it permanent. `keep`: the mode stays after we end, until it is restored.
        """
        self.journal.lock()
        self._changing = True
        try:
            entry = self.held()
            if entry is not None and not (entry.keep and entry.phase == "held"):
                self.restore()
                self._changing = True
                entry = None
            if entry is not None and keep:
                # The journal keeps the board as it was before the first of several settings.
                self.journal.write(entry._replace(phase="applying", asked=asked))
                return
            if any(".max_" not in name for name in instead):
                raise ControlError("only maximum clocks may be corrected in a snapshot")
            self.settings.check(instead)
            # The fan follows the temperature: it is journaled only where it is set to full speed.
            values = {name: value for name, value in self.settings.read().items() if not name.startswith("fan.")}
            values.update(instead)
            boot, stock = self.files.text(BOOT_ID) or "unknown", self.active_stock()
            self.journal.write(
                JournalEntry(self.device(), boot, "applying", keep, asked[:500], values, stock, outer=entry)
            )
        except BaseException:
            self._changing = False
            self.journal.unlock()
            raise

    def _own_entry(self) -> JournalEntry:
        entry = self.held() if self.journal.locked else None
        if entry is None:
            raise ControlError("the state of the board must be journaled before anything is changed")
        return entry

    def write(self, values: Mapping[str, int]) -> Dict[str, str]:
        """Bring settings to these values; return those that did not take, with the reason."""
        self._own_entry()
        if any(name.startswith("fan.") for name in values):
            raise ControlError("the fan is set to full speed or left alone, never to a value")
        return self.settings.write(values, self._complete_snapshot)

    def _complete_snapshot(self) -> None:
        """Journal the clocks of cores that came online just now: offline they cannot be read on newer kernels."""
        self.settings = BoardSettings(self.files)
        entry = self._own_entry()
        now = self.settings.read()
        new = {name: now[name] for name in now if name.startswith("cpu") and name not in entry.values}
        if new:
            self.journal.write(entry._replace(values=dict(entry.values, **new)))

    def full_fan(self) -> Dict[str, str]:
        """Run the fan at full speed until the board is restored; return what did not work."""
        entry, found = self._own_entry(), self.settings.fan()
        if "fan.pwm" not in found:
            return {"fan.pwm": "this board has no fan that can be set"}
        if entry.fan is None:
            self.journal.write(entry._replace(fan=found))
        return self.settings.set_fan({name: value for name, value in FULL_FAN.items() if name in found})

    def set_stock(self, number: int) -> Tuple[int, str]:
        """Run nvpmodel; return its status and what it printed. Whether the mode is in force the clocks decide."""
        entry = self._own_entry()
        if not entry.stock_changed:
            # Noted before nvpmodel runs: killed half-way, its status does not show what it has already written.
            self.journal.write(entry._replace(stock_changed=True))
        return self._run_nvpmodel(number)

    def _run_nvpmodel(self, number: int) -> Tuple[int, str]:
        if not isinstance(number, int) or not 0 <= number < 1000:
            raise ControlError("%r is not the number of a stock mode" % (number,))
        answer = self.files.run("nvpmodel", ["-m", str(number)])
        return answer if answer is not None else (127, "nvpmodel is not installed here")

    def keep(self) -> None:
        """Leave the mode in force when we end; `restore` undoes it later."""
        entry = self._own_entry()
        self.journal.write(entry._replace(phase="held"))
        self._changing = False
        self.journal.unlock()

    def restore(self) -> Optional[RestoreReport]:
        """Put the board back as the journal says; return what was done, None where nothing is journaled."""
        locked_here = not self.journal.locked
        self._changing = False
        if self.held() is None:
            return None
        self.journal.lock()
        try:
            entry = self.held()
            if entry is None:
                return None
            if entry.boot == self.files.text(BOOT_ID):
                self._check_names(entry)
            self.journal.write(entry._replace(phase="restoring"))
            report = self._restore(entry)
            if not report.left and entry.outer is not None:
                self.journal.write(entry.outer)
            elif not report.left:
                self.journal.clear()
            return report
        finally:
            if locked_here:
                self.journal.unlock()

    def _check_names(self, entry: JournalEntry) -> None:
        """Refuse a journal with settings that this board does not have.

        Some kernels hide the files of a core that is offline: cores that were online go online before that is judged.
        """
        missing = [name for name in entry.values if name not in self.settings.paths]
        cores = {name: 1 for name in entry.values if name.endswith(".online") and entry.values[name] == 1}
        hidden = [name for name in missing if name.split(".")[0] + ".online" in cores]
        if hidden and hidden == missing:
            self.settings.write({name: 1 for name in cores if name in self.settings.paths})
            self.settings = BoardSettings(self.files)
            missing = [name for name in hidden if name not in self.settings.paths]
        if missing:
            raise ControlError("refusing the journal: this board has no setting %r" % missing[0])

    def _restore(self, entry: JournalEntry) -> RestoreReport:
        rebooted = entry.boot != (self.files.text(BOOT_ID) or "unknown")
        before, values, stock = self.settings.read(), entry.values, entry.stock
        wrong: Dict[str, str] = {}
        if not rebooted:
            wrong = self.settings.write(values)  # first, because nvpmodel sets no maximum below a minimum we hold
        if stock is not None and (rebooted or entry.stock_changed or self.active_stock() != stock):
            status, text = self._run_nvpmodel(stock)
            wrong = {} if rebooted else self.settings.write(values)
            if status != 0 and self.active_stock() != stock:
                wrong["nvpmodel"] = "mode %s: status %d, %s" % (stock, status, " ".join(text.split())[:200])
        if entry.fan and not rebooted:
            wrong.update(self.settings.set_fan(entry.fan))
        # Clocks do not outlive a reboot: the values in the journal belong to the boot before.
        now, hot = self.settings.read(), active_throttles(self.files)
        later = [name for name in wrong if hot and "_" in name and now.get(name, 0) < values.get(name, 0)]
        return RestoreReport(
            entry.asked,
            0 if rebooted else len([name for name in values if before.get(name) != now.get(name)]),
            stock,
            ["%s: %s" % (name, why) for name, why in sorted(wrong.items()) if name not in later],
            ["%s was written and takes effect when %s ends" % (name, ", ".join(hot)) for name in later],
        )

    def repair(self) -> Optional[RestoreReport]:
        """Undo what a killed process left; leave alone what a user set to stay, and what a living process holds."""
        entry = self.held()
        if entry is None or (entry.keep and entry.phase == "held"):
            return None
        try:
            self.journal.lock()
        except ControlError:
            return None  # its owner lives
        try:
            return self.restore()
        finally:
            self.journal.unlock()

    def close(self) -> None:
        """End: a board that was to be held for a while only is put back."""
        try:
            if self._changing:
                self.restore()
        finally:
            self.journal.unlock()
