"""Who writes to the board: this process where it may, else edgetrain-control through sudo.

Both offer the same requests (`privileged.BoardTransaction`): values of named settings, never paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edgetrain.device.privileged import (
    PROGRAM,
    BoardTransaction,
    ControlError,
    Files,
    JournalEntry,
    RestoreReport,
    from_json,
    program_text,
    unsafe_reason,
)
from edgetrain.errors import ControlRefused

SUDO_COMMAND = ("sudo", "-n", PROGRAM, "session")
SUDOERS = "/etc/sudoers.d/edgetrain"
INSTALL_COMMAND = "sudo edgetrain modes install-control"


class ControlSession(Protocol):
    """One holder of the board's lock; `BoardTransaction` is one in this process."""

    def read(self) -> dict[str, int]:
        """Return every setting that can be read."""

    def held(self) -> JournalEntry | None:
        """Return what is journaled."""

    def begin(self, asked: str, keep: bool, instead: Mapping[str, int]) -> None:
        """Take the board and journal it as it is."""

    def write(self, values: Mapping[str, int]) -> dict[str, str]:
        """Bring settings to these values; return those that did not take."""

    def full_fan(self) -> dict[str, str]:
        """Run the fan at full speed."""

    def set_stock(self, number: int) -> tuple[int, str]:
        """Run nvpmodel."""

    def keep(self) -> None:
        """Leave the mode in force."""

    def restore(self) -> RestoreReport | None:
        """Put the board back."""

    def repair(self) -> RestoreReport | None:
        """Undo what a killed process left."""

    def close(self) -> None:
        """End; what was held for a while only is put back."""


class SudoSession:
    """edgetrain-control started through sudo; it puts the board back by itself when this process dies."""

    def __init__(self, command: Sequence[str] = SUDO_COMMAND) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _ask(self, what: str, **facts: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **facts}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            assert self._process.stderr is not None
            said = " ".join(self._process.stderr.read().split()) or "nothing"
            raise ControlRefused(
                f"edgetrain-control ended with the message {said!r}; edgetrain doctor shows how to set it up"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise ControlError(answer["error"])
        return answer["answer"]

    def read(self) -> dict[str, int]:
        """Return every setting that root can read."""
        return {str(name): int(value) for name, value in self._ask("read").items()}

    def held(self) -> JournalEntry | None:
        """Return what is journaled."""
        document = self._ask("held")
        return None if document is None else from_json(document)

    def begin(self, asked: str, keep: bool, instead: Mapping[str, int]) -> None:
        """Take the board and journal it as it is."""
        self._ask("begin", asked=asked, keep=keep, instead=dict(instead))

    def write(self, values: Mapping[str, int]) -> dict[str, str]:
        """Bring settings to these values; return those that did not take."""
        wrong: dict[str, str] = self._ask("write", values=dict(values))
        return wrong

    def full_fan(self) -> dict[str, str]:
        """Run the fan at full speed."""
        wrong: dict[str, str] = self._ask("full_fan")
        return wrong

    def set_stock(self, number: int) -> tuple[int, str]:
        """Run nvpmodel."""
        status, text = self._ask("set_stock", number=number)
        return int(status), str(text)

    def keep(self) -> None:
        """Leave the mode in force."""
        self._ask("keep")

    def restore(self) -> RestoreReport | None:
        """Put the board back."""
        report = self._ask("restore")
        return None if report is None else RestoreReport(**report)

    def repair(self) -> RestoreReport | None:
        """Undo what a killed process left."""
        report = self._ask("repair")
        return None if report is None else RestoreReport(**report)

    def close(self) -> None:
        """End the program; it puts back what was held for a while only."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and stream is not self._process.stdout:
                stream.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def sudo_session() -> SudoSession | None:
    """Return a session through sudo where the program is installed safely and sudo starts it without a password."""
    if os.geteuid() == 0 or control_problem() is not None or not may_elevate():
        return None
    return SudoSession()


def may_elevate() -> bool:
    """Return whether sudo lets this user start edgetrain-control without a password."""
    try:
        return (
            subprocess.run(["sudo", "-n", "-l", PROGRAM, "session"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def local_session(files: Files) -> BoardTransaction:
    """Return a session that writes in this process."""
    return BoardTransaction(files)


def control_problem(path: str = PROGRAM) -> str | None:
    """Return why the installed edgetrain-control cannot be used; None where it can."""
    if not os.path.exists(path):
        return f"{path} is not installed"
    reason = unsafe_reason(path)
    if reason is not None:
        return reason
    try:
        installed = hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if installed != hashlib.sha256(program_text().encode()).digest():
        return f"{path} is of another version of edgetrain"
    return None


def sudoers_line(user: str | None = None) -> str:
    """Return the line that lets a user start edgetrain-control, and nothing else, without a password."""
    name = user or pwd.getpwuid(os.getuid()).pw_name
    return f"{name} ALL=(root) NOPASSWD: {PROGRAM} session"


def install_control(path: str = PROGRAM, dry_run: bool = False) -> str:
    """Install edgetrain-control, owned by root; return its path. ControlRefused where that would not be safe."""
    folder = os.path.dirname(path)
    if os.geteuid() != 0 and not dry_run:
        raise ControlRefused(f"only root may install {path}; run: {INSTALL_COMMAND}")
    if not dry_run:
        os.makedirs(folder, 0o755, exist_ok=True)
    reason = unsafe_reason(folder) if os.path.isdir(folder) else None
    if reason is not None:
        raise ControlRefused(f"edgetrain-control is not installed in {folder}: {reason}")
    if dry_run:
        return path
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o755)
    try:
        os.write(fd, program_text().encode())
        os.fchmod(fd, 0o755)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    return path
