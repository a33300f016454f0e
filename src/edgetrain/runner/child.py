"""The training program and the sampler as the runner sees them: started, followed, ended in every case."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import edgetrain.workload
from edgetrain.documents import DocumentError, from_document
from edgetrain.runner.user import SudoUser
from edgetrain.workload import MESSAGES, TrainingMessage

GRACE_S = 15.0  # to close its record after an interrupt
LOG = "training.log"
PROGRAM = Path(edgetrain.workload.__file__).parent / "__main__.py"


class TrainingChild:
    """The training program in a session of its own, so that Ctrl-C reaches it only through the runner.

    It starts idle, prepares and trains on command, and reports with the messages of `edgetrain.workload`. `python` runs
    it by path and need not have edgetrain; None is the Python of this process. `user`: train as this user, not as root.
    """

    def __init__(
        self,
        job: Path,
        prefix: Sequence[str],
        environment: Mapping[str, str],
        python: str | None = None,
        user: SudoUser | None = None,
    ) -> None:
        run = job.parent
        their_read, self._write = os.pipe()
        self._read, their_write = os.pipe()
        as_user = user.command_prefix(sys.executable) if user else []
        command = [*prefix, *as_user, python or sys.executable, str(PROGRAM), "--job", str(job)]
        command += ["--pipe", f"{their_read},{their_write}"]
        self._buffer = b""
        with (run / LOG).open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(their_read, their_write),
                env=dict(environment),
                start_new_session=True,
            )
        os.close(their_read)
        os.close(their_write)
        self.log = run / LOG

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    def order(self, command: Literal["prepare", "train"]) -> None:
        """Send a command."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write, (json.dumps({"do": command}) + "\n").encode())

    def messages(self, timeout_s: float) -> list[TrainingMessage] | None:
        """Return the messages that arrived within the time, or None once it has ended and all were read."""
        # poll, not select: select fails in a process that holds more than a thousand descriptors.
        waiting = select.poll()
        waiting.register(self._read, select.POLLIN)
        if not waiting.poll(timeout_s * 1000):
            # A worker that outlives it may hold the pipe open.
            return None if self.process.poll() is not None else []
        data = os.read(self._read, 65536)
        if not data:
            self.process.wait()
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [message for message in map(read_message, lines) if message is not None]

    def interrupt(self) -> None:
        """Ask it to close its record; end it and all it started if it does not."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if self.process.poll() is None:
                self.process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(GRACE_S)
        self.close()

    def close(self) -> None:
        """Leave nothing of its session behind, whatever state it is in."""
        for fd in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._read = self._write = -1
        # Loader workers that lost their parent end by themselves; those that do not are in its session.
        if self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def last_words(self, lines: int = 3) -> str:
        """Return the end of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return " / ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())


def read_message(line: bytes) -> TrainingMessage | None:
    """Read one line of the training program; None where it is not one of its messages."""
    try:
        document = json.loads(line)
        return from_document(MESSAGES[document["message"]], document)
    except (ValueError, KeyError, TypeError, DocumentError):
        return None


class SamplerProcess:
    """`python -m edgetrain.sampling` beside the training; its absence is a doubt, never an end."""

    def __init__(self, run: Path, device: str, dataset: str | None, watch_pid: int, seed: int) -> None:
        command = [sys.executable, "-m", "edgetrain.sampling", "--run", str(run), "--device", device]
        command += ["--watch-pid", str(watch_pid), "--ours", str(os.getpid()), "--seed", str(seed)]
        if dataset:
            command += ["--dataset", dataset]
        with (run / "sampler.log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.run = run

    def wait_ready(self, limit_s: float = 5.0) -> bool:
        """Wait for its first samples; return whether they came."""
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            if any(self.run.glob("samples-*.ets")):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def died(self) -> str | None:
        """Return what happened if it ended before the training did; None while it runs or ended with the training."""
        status = self.process.poll()
        if status is None or status == 0:
            return None
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"the sampler {how} before the training ended: telemetry is missing from then on"

    def stop(self) -> None:
        """Let it write its last samples and end."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None and self.process.poll() is None:
                self.process.send_signal(number)
            try:
                self.process.wait(2.0 if number is None else 3.0)
                return
            except subprocess.TimeoutExpired:
                continue
