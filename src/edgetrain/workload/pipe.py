"""The training program's side of the two pipes to the runner: commands in, messages out.

Pipes of their own, because stdout belongs to whatever the user's code prints. Standard library only.

    runner → program    {"do": "prepare"}   {"do": "train"}   end of file: the runner is gone
    program → runner    see `messages`

Without pipes the program does not wait for commands, and prints its messages on stdout.
"""

from __future__ import annotations

import json
import os
import signal
import threading

from edgetrain.workload.messages import EpochBegan, EpochEnded, MinibatchesDone, TrainingMessage, encode

REPORT_INTERVAL_S = 0.25  # between two reports of progress


class RunnerPipe:
    """Waits for the runner's commands and reports to it; the loop sets `minibatches` and is never held up."""

    def __init__(self, descriptors: tuple[int, int] | None = None) -> None:
        self._read = None
        self._write_fd = 1
        if descriptors is not None:
            self._read, self._write_fd = os.fdopen(descriptors[0], "rb"), descriptors[1]
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.minibatches = 0
        self.orphaned = False  # the runner is gone

    def wait_for(self, command: str) -> bool:
        """Wait for this command; False where the runner is gone or wants the program to end."""
        if self._read is None:
            return True
        line = self._read.readline()
        if not line:
            self.orphaned = True
            return False
        return bool(json.loads(line).get("do") == command)

    def send(self, message: TrainingMessage) -> None:
        """Send one message; that the runner is gone is noticed by the thread that reads from it."""
        try:
            with self._lock:
                os.write(self._write_fd, encode(message))
        except OSError:
            pass

    def follow(self) -> None:
        """From now on report progress, and interrupt the training when the runner is gone."""
        if self._read is not None:
            threading.Thread(target=self._watch, name="edgetrain-pipe", daemon=True).start()
        threading.Thread(target=self._report, name="edgetrain-progress", daemon=True).start()

    def end(self) -> None:
        """Stop reporting progress."""
        self._stop.set()

    def epoch_began(self, epoch: int) -> None:
        """Report that an epoch begins."""
        self.minibatches = 0
        self.send(EpochBegan(epoch))

    def epoch_ended(self, epoch: int, loss: float | None) -> None:
        """Report that an epoch has ended."""
        self.send(EpochEnded(epoch, loss))

    def _watch(self) -> None:
        assert self._read is not None
        try:
            if self._read.readline():
                return
        except (OSError, ValueError):
            return
        if not self._stop.is_set():
            self.orphaned = True
            os.kill(os.getpid(), signal.SIGINT)

    def _report(self) -> None:
        reported = -1
        while not self._stop.wait(REPORT_INTERVAL_S):
            if self.minibatches != reported:
                reported = self.minibatches
                self.send(MinibatchesDone(reported))
