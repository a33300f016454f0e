"""Cleans up after trials even where edgetrain was killed: a small process of its own that waits for that.

The guard holds the read end of a pipe whose write end only edgetrain has, and is told which trial runs. When the pipe
ends, because edgetrain closed it or is gone (SIGKILL, the out-of-memory killer, SIGTERM between two trials), it kills
the trial, removes the trials' temporary folder, and ends. Until then it costs nothing: it waits in one read. It lives
in a session of its own, which no signal of a terminal reaches.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.runner.trial_processes import kill_session
from edgetrain.runner.user import SudoUser, sudo_user

# Without site-packages: the guard needs the standard library and this module. Arguments: where edgetrain is imported
# from, the descriptor, the folder.
PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from edgetrain.runner.trial_guard import guard; "
    "guard(int(sys.argv[2]), sys.argv[3])"
)
NO_TRIAL, END = 0, -1
REMOVE_WITHIN_S = 5.0  # a killed process may still be closing a file
END_WITHIN_S = 30.0  # killing a trial takes at most about 20 s
POLL_S = 0.1


class TrialGuard:
    """The guard of one search's trials, and the temporary folder that they use."""

    def __init__(self) -> None:
        self.folder = temporary_folder(sudo_user())
        read, self._write = os.pipe()
        root = str(Path(__file__).parents[2])
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, root, str(read), self.folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(read,),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(self._write)
            remove_folder(self.folder)
            raise
        finally:
            os.close(read)

    def watch(self, leader: int) -> None:
        """From now on a trial runs: the session of this process."""
        self._say(leader)

    def release(self) -> None:
        """The trial has ended."""
        self._say(NO_TRIAL)

    def close(self) -> None:
        """End the guard, and a trial that still runs; remove the temporary folder."""
        if self._write < 0:
            return
        self._say(END)  # a process that was forked off this one may have the pipe too
        os.close(self._write)
        self._write = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_WITHIN_S)
        remove_folder(self.folder, 0.0)  # where the guard itself was killed

    def _say(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._write, b"%d\n" % number)


def guard(descriptor: int, folder: str) -> None:
    """What the guard does: wait until the pipe ends, kill the trial that runs, and remove the folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # those that end edgetrain end the pipe as well
    leader = NO_TRIAL
    with os.fdopen(descriptor, "rb") as pipe:
        for line in pipe:
            if int(line) == END:
                break
            leader = int(line)
    try:
        if leader != NO_TRIAL:
            kill_session(leader)
    finally:
        remove_folder(folder)


def temporary_folder(user: SudoUser | None) -> str:
    """Make the folder that trials use for temporary files; a short path, because sockets are made in it."""
    path = tempfile.mkdtemp(prefix="et-")
    if user is not None:
        os.chown(path, user.uid, user.gid)
    return path


def remove_folder(path: str, within_s: float = REMOVE_WITHIN_S) -> None:
    """Remove a folder with all it contains; a process that ends may add to it meanwhile."""
    until_s = time.monotonic() + within_s
    while os.path.lexists(path):
        shutil.rmtree(path, ignore_errors=True)
        if time.monotonic() >= until_s:
            return
        if os.path.lexists(path):
            time.sleep(POLL_S)
