"""Records a training that runs inside this process, as a federated client's does: `record_call`.

The same recording path as `run` and `profile`: mode held by the journaled control, sampler beside, record closed
whatever happens. Minibatches are recorded where the training uses torch; otherwise there is telemetry, and the time of
the whole call. On a simulated board the call really runs and then takes as long as the board's model says.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from edgetrain.device import open_device
from edgetrain.inside import hook, process, session
from edgetrain.inside.stream import now_us
from edgetrain.lab import limits_for
from edgetrain.record import FolderStore, read_run
from edgetrain.runner.checks import check
from edgetrain.runner.child import SamplerProcess
from edgetrain.runner.manifest import first_manifest, with_process
from edgetrain.runner.recording import Ending, Recording
from edgetrain.runner.signals import stop_on_signal
from edgetrain.runner.simulated_command import STEP, SimulatedLoad
from edgetrain.schema import Experiment
from edgetrain.units import S_PER_US

T = TypeVar("T")

LAST_SAMPLES_S = 0.3  # after the call, so that the power readings cover its end


@dataclass(frozen=True, slots=True)
class RecordedCall(Generic[T]):
    """What a call returned, its record, and when it ran on the monotonic clock."""

    result: T
    run: str
    path: Path
    began_us: int
    ended_us: int

    @property
    def seconds(self) -> float:
        """How long the call took, on a simulated board as long as its model says."""
        return (self.ended_us - self.began_us) * S_PER_US


class CallTrainee(Generic[T]):
    """A call in this process as a trainee. `minibatches` is what a simulated board trains during the call, if known."""

    def __init__(
        self, call: Callable[[], T], run: Path, timing: str, board: SimulatedLoad | None, minibatches: int | None
    ) -> None:
        self._call, self._run, self._timing = call, run, timing
        self._board, self._minibatches = board, minibatches
        self.began_us = self.ended_us = 0
        self.results: list[T] = []  # one result once the call has returned
        self.error: Exception | None = None

    def start(self, prefix: Sequence[str], environment: Mapping[str, str], dataset: str | None) -> int:
        """Nothing to start: the training is in this process."""
        return os.getpid()

    def prepare(self, recording: Recording) -> None:
        """Nothing to build."""

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        """Make the call; an exception of it is kept for the caller, and the record says that it failed."""
        recording.progress("training", 0, None)
        with self._board.announced() if self._board else contextlib.nullcontext():
            with self._hooked():
                self.began_us = now_us()
                try:
                    self.results.append(self._call())
                except Exception as error:
                    self.error = error
                self._take_the_boards_time()
                self.ended_us = now_us()
            time.sleep(LAST_SAMPLES_S)
        sampler.process.terminate()  # it ends with the training process otherwise, which goes on
        run = read_run(self._run, light=True)
        recording.manifest = with_process(recording.manifest, run.main.facts)
        if not any(len(each.minibatches) for each in run.processes):
            recording.doubt(
                "no_loader", "no torch loader or optimizer step was seen: there is telemetry and the time of the call"
            )
        if self.error is not None:
            return Ending("failed", f"the training raised {self.error!r}")
        return Ending()

    def stop(self) -> None:
        """Nothing to stop: the call has returned."""

    @contextlib.contextmanager
    def _hooked(self) -> Iterator[None]:
        """Record the minibatches of this process during the call, if it uses torch."""
        before = os.environ.get(STEP)
        if self._board is not None:
            os.environ[STEP] = f"{self._board.minibatch_s:.6f}"
        try:
            if "torch" in sys.modules:
                session.begin(str(self._run), self._timing, steps=True)
            else:
                hook.arm(str(self._run), self._timing)
            yield
        finally:
            recorder = process.current()
            if recorder is not None:
                recorder.end()
            os.environ.pop(STEP, None)
            if before is not None:
                os.environ[STEP] = before

    def _take_the_boards_time(self) -> None:
        """On a simulated board: wait until its model has trained the minibatches too."""
        if self._board is None or self._minibatches is None or self.error is not None:
            return
        trained_s = (now_us() - self.began_us) * S_PER_US
        time.sleep(max(0.0, self._minibatches * self._board.minibatch_s - trained_s))


def record_call(
    call: Callable[[], T],
    experiment: Experiment,
    device_name: str = "auto",
    store: FolderStore | None = None,
    like: str | None = None,
    minibatches: int | None = None,
) -> RecordedCall[T]:
    """Make a call that trains, in the experiment's power mode, and record it.

    An exception of the call is raised again after the record is closed. The board is as before afterwards; where this
    process is killed, its journal restores it at the next run or by `edgetrain modes restore`.
    """
    check(experiment, simulated=device_name.partition(":")[0] == "sim")
    store = store or FolderStore()
    device = open_device(device_name)
    board = SimulatedLoad.of(device_name, device, experiment, like, run=f"{os.getpid()} {time.time_ns()}")
    manifest = first_manifest(experiment, device, experiment.workload.command or ())
    writer = store.create(manifest)
    trainee = CallTrainee(call, writer.path, experiment.timing, board, minibatches)
    sampled = board.sampled_device if board else device_name
    # A round of training must not wait for the temperature to settle: what it needs is the mode.
    recording = Recording(
        experiment, device, sampled, writer, manifest, lambda stage, done, total: None, trainee, settling=False
    )
    with stop_on_signal():
        recording.carry_out(limits_for(experiment), experiment.workload.dataset, ())
    if trainee.error is not None:
        raise trainee.error
    return RecordedCall(trainee.results[0], writer.id, writer.path, trainee.began_us, trainee.ended_us)
