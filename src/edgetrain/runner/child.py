"""The training child as the runner sees it: started idle, told what to do, listened to, ended in every case."""

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
from typing import Any

GRACE_S = 15.0  # to close its record after an interrupt
LOG = "training.log"


class TrainingChild:
    """`python -m edgetrain.workload` in a session of its own, so that Ctrl-C reaches it through us alone."""

    def __init__(self, run: Path, prefix: Sequence[str], environment: Mapping[str, str]) -> None:
        their_read, self._write = os.pipe()
        self._read, their_write = os.pipe()
        command = [*prefix, sys.executable, "-m", "edgetrain.workload", "--run", str(run)]
        command += ["--talk", f"{their_read},{their_write}"]
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

    def order(self, what: str) -> None:
        """Tell it to `prepare` or to `train`."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write, (json.dumps({"do": what}) + "\n").encode())

    def messages(self, timeout_s: float) -> list[dict[str, Any]] | None:
        """Return what it said within the time, or None once it has ended and said everything."""
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
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

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

    def look(self) -> None:
        """Have it read the dear probes now: the dataset's share in the page cache at an epoch's edge."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

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
