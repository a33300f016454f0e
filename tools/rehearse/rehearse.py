#!/usr/bin/env python3
"""Boots an emulated AGX Orin with real kernel drivers and checks edgetrain on it: `make rehearse`, as root.

    tools/rehearse/rehearse.py              build what is missing, boot, run every check, write docs/results/rehearse.md
    tools/rehearse/rehearse.py --only hot   only the checks whose name contains a word; writes no page
    tools/rehearse/rehearse.py --run 'edgetrain doctor'    boot and run one command

Everything is built in build/rehearse (or $W): about 4 GB. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BUILD = Path(os.environ.get("W", REPOSITORY / "build/rehearse"))
PACKAGES = (
    "qemu-system-arm qemu-user-static binfmt-support mmdebstrap arch-test device-tree-compiler kmod cpio "
    "gcc-12-aarch64-linux-gnu e2fsprogs make xz-utils git"
)
PROGRAMS = ("qemu-system-aarch64", "mmdebstrap", "arch-test", "dtc", "fdtoverlay", "aarch64-linux-gnu-gcc-12", "cpio")
BOOT_LIMIT_S = 300.0


@dataclass(frozen=True)
class Answer:
    """What a command in the guest printed, and its exit status."""

    status: int
    text: str


class SerialShell:
    """A shell at the other end of a serial line: commands go in, what they print and their exit status come back."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._line.settimeout(1)
        self._unread = ""  # what came after the last thing that was waited for
        self._count = 0

    def read_until(self, wanted: re.Pattern[str], limit_s: float) -> tuple[str, re.Match[str]]:
        """Return what came before `wanted` and the match; what follows is kept for the next time."""
        until_s = time.monotonic() + limit_s
        while (found := wanted.search(self._unread)) is None:
            if time.monotonic() >= until_s:
                raise TimeoutError(f"no answer within {limit_s:g} s; it printed: {self._unread[-500:]}")
            try:
                got = self._line.recv(65536).decode("utf-8", "replace")
            except TimeoutError:
                continue
            if not got:
                raise SystemExit(f"rehearse: the guest ended; its last words: {self._unread[-500:]}")
            self._unread += got
        before, self._unread = self._unread[: found.start()], self._unread[found.end() :]
        return before, found

    def run(self, command: str, limit_s: float = 300.0, user: str | None = None) -> Answer:
        """Run a shell command, as root or as a user; TimeoutError where it does not end."""
        self._count += 1
        mark = f"END{self._count}X{os.getpid()}"
        if user is not None:
            command = f"su - {user} -c '{command}'"
        self._line.sendall(f"{command}\necho {mark[:3]}''{mark[3:]} $?\n".encode())
        # Up to the end of the line: the serial line is read in pieces, and a piece may end before the newline or
        # between two digits of the status. What is left would become part of the next command's text.
        text, found = self.read_until(re.compile(mark + r" (\d+)\r*\n"), limit_s)
        return Answer(int(found[1]), text.replace("\r", ""))

    def close(self) -> None:
        """Close the line."""
        self._line.close()


class Guest(SerialShell):
    """The emulated board, driven through a shell on its serial line."""

    def __init__(self) -> None:
        self._path = BUILD / "serial.sock"
        self._path.unlink(missing_ok=True)
        self._log = (BUILD / "qemu.log").open("wb")
        environment = {**os.environ, "W": str(BUILD)}
        self._began_s = time.monotonic()
        self._qemu = subprocess.Popen(
            [HERE / "4-boot.sh"], stdout=self._log, stderr=self._log, start_new_session=True, env=environment
        )
        super().__init__(self._connect())
        self.read_until(re.compile(r"READY uptime [\d.]+\r*\n"), BOOT_LIMIT_S)
        self.boot_s = time.monotonic() - self._began_s

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._qemu.poll() is None:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(self._path))
                return line
            except OSError:
                line.close()
                time.sleep(0.1)
        raise SystemExit(f"rehearse: QEMU did not start; see {BUILD / 'qemu.log'}")

    def close(self) -> None:
        """End the guest."""
        super().close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._qemu.pid, signal.SIGTERM)
        self._qemu.wait()
        self._log.close()


@contextlib.contextmanager
def booted() -> Iterator[Guest]:
    """Give a booted guest."""
    guest = Guest()
    try:
        yield guest
    finally:
        guest.close()


def build() -> None:
    """Build what is missing; the wheel of edgetrain always."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"rehearse: {', '.join(missing)} not found; as root: apt-get install -y {PACKAGES}")
    if os.geteuid() != 0:
        raise SystemExit("rehearse: needs root (a Debian tree is made and packed); run: sudo make rehearse")
    BUILD.mkdir(parents=True, exist_ok=True)
    for script in ("1-rootfs.sh", "2-modules.sh", "3-pack.sh"):
        print(f"rehearse: {script}", flush=True)
        subprocess.run([HERE / script], check=True, env={**os.environ, "W": str(BUILD)})


def main() -> int:
    """Build, boot, check, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="boot what was built before")
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    parser.add_argument("--run", help="run one command in the guest and print what it says")
    parser.add_argument("-o", type=Path, default=REPOSITORY / "docs/results/rehearse.md", help="the page to write")
    options = parser.parse_args()
    if not options.no_build:
        build()
    sys.path.insert(0, str(HERE))
    import checks

    with booted() as guest:
        if options.run:
            checks.prepare(guest)
            answer = guest.run(options.run)
            print(answer.text)
            return answer.status
        results = checks.run_all(guest, options.only)
    if not options.only:
        options.o.write_text(checks.page(results, guest.boot_s, (BUILD / "release").read_text().strip()))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
