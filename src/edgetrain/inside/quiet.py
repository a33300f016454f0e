"""When does the training thread do without the interpreter? In a backward pass, and while it waits for something.

Every operation of torch lets go of the interpreter's lock for a moment, so a thread beside the loop soon has it, and
then the loop waits until that thread is done: on an H200, reading a second's events took 2.4 ms from a loop in its
forward pass. A backward pass runs without the lock for as long as half a step.

Nobody can ask whether a thread wants the lock, but what it was last doing can be seen. One that has come back and now
waits for the lock looks as if it were still away: so work in slices, and rest between them.
"""

from __future__ import annotations

import sys
from time import sleep

REST_S = 0.0005  # long enough for a thread that waits for the lock to wake up and take it
FIRST_WAIT_S, MOST_WAIT_S = 0.001, 0.2  # each wait is twice the one before; and all of them from one `begin` on
AWAY = {
    ("torch.autograd.graph", "_engine_run_backward"),
    ("torch.autograd", "backward"),  # the same before torch 2.1
    ("torch.autograd", "grad"),
    ("torch.cuda", "synchronize"),
    ("selectors", "select"),  # for a minibatch from a worker
    ("threading", "wait"),  # for one from the thread that pins memory
}


class Quiet:
    """Finds moments at which one thread does without the interpreter."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._patience_s = 0.0

    def now(self) -> bool:
        """Return whether the thread was last seen where it needs no interpreter, or is gone."""
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return True
        return (frame.f_globals.get("__name__"), frame.f_code.co_name) in AWAY

    def begin(self) -> None:
        """Wait for such a moment, but not for long: some loops never have one."""
        self._patience_s = MOST_WAIT_S
        self._wait()

    def rest(self) -> None:
        """Let the thread go on if it has come back, and wait for the next moment."""
        sleep(REST_S)
        self._wait()

    def _wait(self) -> None:
        delay_s = FIRST_WAIT_S
        while self._patience_s > 0 and not self.now():
            sleep(delay_s)
            self._patience_s -= delay_s
            delay_s *= 2
