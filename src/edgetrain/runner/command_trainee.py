"""Runs a user's command with the recording hook in its Python, unmodified; its output and exit status are kept.

The hook is a folder in front of PYTHONPATH whose `sitecustomize` waits for torch's loader. Where it cannot enter
(`python -I`, a container without the folder), the run still has telemetry, and a doubt says what is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import edgetrain.inside
from edgetrain.errors import UsageError
from edgetrain.record import Run, read_run
from edgetrain.runner.child import SamplerProcess
from edgetrain.runner.containers import run_position, with_hook
from edgetrain.runner.manifest import with_process
from edgetrain.runner.recording import Ending, Recording, signal_name
from edgetrain.runner.signals import forward_signals
from edgetrain.runner.simulated_command import SimulatedLoad
from edgetrain.runner.user import SudoUser, give
from edgetrain.schema import Doubt, Experiment

HOOK = Path(edgetrain.inside.__file__).parent  # may be mounted into a container, at the same path
IGNORE_PYTHONPATH = ("-I", "-E", "-S")
DATASET_FIELD = "{dataset}"  # in a command: the dataset's folder as this run sees it
# Waits for a byte, then becomes the command: the sampler can watch the process before training begins. Python ignores
# two signals from its start on, and a program would inherit that.
WAIT_THEN_RUN = """
import os, signal, sys
go = os.read(int(sys.argv[1]), 1)
os.close(int(sys.argv[1]))
for name in ("SIGPIPE", "SIGXFSZ"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
if not go:
    sys.exit(130)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write("edgetrain: cannot run %r: %s\\n" % (sys.argv[2], error.strerror))
    sys.exit(127)
"""
GRACE_S = 15.0


def command_label(command: Sequence[str]) -> str:
    """Return a short name for a command: its script's, else the program's."""
    scripts = [word for word in command if word.endswith(".py")]
    return Path(scripts[0]).stem if scripts else Path(command[0]).name


def check_command(command: Sequence[str]) -> None:
    """Refuse a command that cannot be started."""
    if not command:
        raise UsageError("nothing to profile; write for example: edgetrain profile -- python train.py")
    if shutil.which(command[0]) is None:
        raise UsageError(f"cannot find the command {command[0]!r}; write it after -- as you would in a shell")


def hook_environment(run: Path, timing: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which any Python from 3.8 on loads our hook."""
    path = [str(HOOK / "site"), *filter(None, [base.get("PYTHONPATH")])]
    return {
        **base,
        "PYTHONPATH": os.pathsep.join(path),
        "EDGETRAIN_RUN": str(run.absolute()),
        "EDGETRAIN_TIMING": timing,
        "EDGETRAIN_HOOK": str(HOOK),
    }


class CommandTrainee:
    """A user's command. `stdout` is the descriptor its output goes to (None: ours); `board` a simulated board.

    `user` is the user to run it as, where sudo started us.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: Path,
        stdout: int | None = None,
        board: SimulatedLoad | None = None,
        user: SudoUser | None = None,
    ) -> None:
        assert experiment.workload.command is not None
        self._command = list(experiment.workload.command)
        self._run, self._timing, self._stdout = run, experiment.timing, stdout
        self._board, self._user = board, user
        self._process: subprocess.Popen[bytes] | None = None
        self._go: int | None = None
        self._in_container = False

    def start(self, prefix: Sequence[str], environment: Mapping[str, str], dataset: str | None) -> int:
        command = [word.replace(DATASET_FIELD, dataset or DATASET_FIELD) for word in self._command]
        stretch = self._board.environment() if self._board else {}
        base = {**os.environ, **environment, **stretch, **self.more_environment()}
        env = hook_environment(self._run, self._timing, base)
        as_user: list[str] = []
        if self._user is not None:
            env.update(self._user.environment())
            give(self._run, self._user)
            as_user = self._user.command_prefix(sys.executable)
        self._in_container = run_position(command) is not None
        command = with_hook(command, HOOK, self._run.absolute(), env)
        read_fd, self._go = os.pipe()
        try:
            waiting = [*prefix, sys.executable, "-I", "-S", "-c", WAIT_THEN_RUN, str(read_fd), *as_user, *command]
            self._process = self.spawn(waiting, env, read_fd)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from error
        finally:
            os.close(read_fd)
        return self._process.pid

    def more_environment(self) -> Mapping[str, str]:
        """Return variables that the command gets besides ours."""
        return {}

    def spawn(self, command: Sequence[str], env: Mapping[str, str], read_fd: int) -> subprocess.Popen[bytes]:
        """Start the process; it inherits one descriptor."""
        return subprocess.Popen(command, env=env, stdout=self._stdout, pass_fds=(read_fd,))

    def prepare(self, recording: Recording) -> None:
        """Nothing to build: the command prepares itself."""

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        process = self._process
        assert process is not None and self._go is not None
        recording.progress("command", 0, None)
        with forward_signals(self._send) as seen, self._board.announced() if self._board else contextlib.nullcontext():
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go, b"g")
            status = process.wait()
        ending = self._ending(recording, status, seen)
        run = read_run(self._run, light=True)
        recording.manifest = with_process(recording.manifest, run.main.facts)
        if self._in_container:
            recording.doubt(
                "in_container",
                "the command ran in a container: per-process telemetry covers the engine's client only, the counters "
                "of the machine are complete",
            )
        doubt = missing_doubt(run, self._command)
        if doubt is not None and not run.lost:  # else what was recorded could not be written
            recording.doubt(doubt.kind, doubt.text)
        return ending

    def _ending(self, recording: Recording, status: int, seen: Sequence[int]) -> Ending:
        if status < 0 or (status and seen):
            number = -status if status < 0 else seen[-1]
            reason = f"the command was ended by {signal_name(number)}"
            recording.event("signal", reason)
            return Ending("interrupted", reason, 128 - status if status < 0 else status)
        if status:
            return Ending("failed", f"the command ended with status {status}; its own output says why", status)
        return Ending(status=0)

    def _send(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """End the command if it still runs: it never began, or the recording itself failed."""
        if self._go is not None:
            os.close(self._go)
            self._go = None
        if self._process is None or self._process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self._process.wait(1.0 if number == signal.SIGTERM else GRACE_S)
                return
            except subprocess.TimeoutExpired:
                self._process.send_signal(number)
        self._process.wait()


def missing_doubt(run: Run, command: Sequence[str]) -> Doubt | None:
    """Return what was not seen of the training, and why."""
    loaders = [one for process in run.processes for one in process.facts.loaders]
    phases = [process.minibatches["phase"] for process in run.processes if len(process.minibatches)]
    stepped = any(((phase == 1) | (phase == 4)).any() for phase in phases)
    if stepped or any(one.trained for one in loaders):
        return None
    if loaders:
        return Doubt(
            "no_steps_seen",
            "loaders were iterated but no backward pass or optimizer step was seen: waiting is known, but training and "
            "evaluation cannot be distinguished",
        )
    if any(event.kind == "entered" for event in run.events):
        return Doubt(
            "no_loader", "no torch DataLoader was iterated and no optimizer step was seen: there is telemetry only"
        )
    if any(word in IGNORE_PYTHONPATH for word in command):
        return Doubt(
            "not_entered",
            "the command's Python ignores PYTHONPATH, so the recorder could not be loaded: there is "
            "telemetry only; leave out -I, -E and -S",
        )
    return Doubt(
        "not_entered",
        "the recorder was not loaded into the command: no Python 3.8 or later was started with edgetrain's PYTHONPATH. "
        "There is telemetry only; for a container, mount $EDGETRAIN_HOOK and $EDGETRAIN_RUN and pass PYTHONPATH and "
        "EDGETRAIN_RUN on (see docs/profile.md)",
    )
