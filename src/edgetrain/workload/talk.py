"""How the training child and the runner talk: one JSON object a line, over two pipes of their own.

Pipes of their own, because stdout belongs to whatever the user's code prints. Standard library only.

    runner → child    {"do": "prepare"}   {"do": "train"}   end of file: the runner is gone
    child → runner    {"prepared": {...}}   {"epoch": 0}   {"batch": 12}   {"loss": 0.7, "of": 0}   {"done": true}
                      {"failed": "why", "kind": "UsageError", "status": 2}
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any

TELL_S = 0.25  # how often progress is told


class Talk:
    """The child's side."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read = os.fdopen(read_fd, "rb")
        self._write_fd = write_fd
        os.set_inheritable(read_fd, False)
        os.set_inheritable(write_fd, False)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.batch = 0
        self.orphaned = False

    def wait_for(self, wanted: str) -> bool:
        """Wait to be told; False where the runner is gone or wants us to end."""
        line = self._read.readline()
        if not line:
            self.orphaned = True
            return False
        return bool(json.loads(line).get("do") == wanted)

    def tell(self, **facts: Any) -> None:
        """Send one message; a runner that is gone is noticed elsewhere."""
        try:
            with self._lock:
                os.write(self._write_fd, (json.dumps(facts, default=str) + "\n").encode())
        except OSError:
            pass

    def follow(self) -> None:
        """From now on tell progress, and interrupt the training when the runner is gone."""
        threading.Thread(target=self._watch, name="edgetrain-talk", daemon=True).start()
        threading.Thread(target=self._progress, name="edgetrain-progress", daemon=True).start()

    def end(self) -> None:
        """Stop telling progress."""
        self._stop.set()

    def epoch_began(self, epoch: int) -> None:
        """Tell which epoch begins."""
        self.tell(epoch=epoch)

    def epoch_ended(self, epoch: int, loss: float | None) -> None:
        """Tell how an epoch ended."""
        self.tell(loss=loss, of=epoch)

    def _watch(self) -> None:
        try:
            if self._read.readline():
                return
        except (OSError, ValueError):
            return
        if not self._stop.is_set():
            self.orphaned = True
            os.kill(os.getpid(), signal.SIGINT)

    def _progress(self) -> None:
        told = -1
        while not self._stop.wait(TELL_S):
            if self.batch != told:
                told = self.batch
                self.tell(batch=told)
