"""Trains a built-in workload (or a user's own network) in a child process that reports over a pipe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from edgetrain.errors import EdgetrainError, UsageError, WorkloadError
from edgetrain.record import BatchSizeFacts, ComputeFacts, HandOverFacts
from edgetrain.runner.child import SamplerProcess, TrainingChild
from edgetrain.runner.job import job_for, write_job
from edgetrain.runner.recording import Ending, Recording, signal_name
from edgetrain.runner.user import SudoUser, give
from edgetrain.schema import Experiment
from edgetrain.workload import (
    EpochBegan,
    EpochEnded,
    MinibatchesDone,
    Prepared,
    TrainingFailed,
    TrainingFinished,
    TrainingMessage,
)

POLL_S = 0.2


class WorkloadTrainee:
    """The training program of `edgetrain.workload`: prepares, then trains, and is followed to its end."""

    def __init__(
        self, experiment: Experiment, run: os.PathLike[str], dataset_is_generated: bool, user: SudoUser | None = None
    ) -> None:
        self._experiment, self._run, self._generated, self._user = experiment, run, dataset_is_generated, user
        self._child: TrainingChild | None = None

    def start(self, prefix: Sequence[str], environment: Mapping[str, str], dataset: str | None) -> int:
        path = os.fspath(self._run)
        job = write_job(job_for(self._experiment, Path(path), dataset, self._generated))
        env = {**os.environ, **environment, "EDGETRAIN_RUN": path, "EDGETRAIN_TIMING": self._experiment.timing}
        # Threads that spin while they wait make a CPU step several times slower as soon as a loader needs a core.
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        env["PYTHONUNBUFFERED"] = "1"
        if self._user is not None:
            env.update(self._user.environment())
            give(Path(path), self._user)
        self._child = TrainingChild(job, prefix, env, self._experiment.python, self._user)
        return self._child.pid

    @property
    def child(self) -> TrainingChild:
        assert self._child is not None
        return self._child

    def prepare(self, recording: Recording) -> None:
        """Wait until the child has built everything, and note what it found."""
        self.child.order("prepare")
        while (messages := self.child.messages(POLL_S)) is not None:
            for message in messages:
                self.raise_failure(recording, message)
                if isinstance(message, Prepared):
                    self._note(recording, message)
                    return
        raise self._ended(recording)

    def _note(self, recording: Recording, found: Prepared) -> None:
        compute, manifest = found.compute, recording.manifest
        name = recording.device.spec.gpu if compute.kind == "cuda" else compute.name
        recording.manifest = replace(
            manifest,
            compute=ComputeFacts(compute.kind, name, compute.ms),
            device=replace(
                manifest.device, torch=found.torch, cuda=found.cuda, threads=found.threads, python=found.python
            ),
            workload=replace(
                manifest.workload,
                samples=found.samples,
                batch_size=found.batch_size,
                parameters=found.parameters,
                classes=found.classes,
                minibatches_per_epoch=found.minibatches_per_epoch,
            ),
        )
        recording.dataset = recording.dataset or found.dataset_path

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        """Follow the training until it ends; raise where it did not end well."""
        self.child.order("train")
        epoch, done, failure = 0, False, None
        minibatches = recording.manifest.workload.minibatches_per_epoch
        while (messages := self.child.messages(POLL_S)) is not None:
            for message in messages:
                if isinstance(message, EpochBegan):
                    epoch = message.epoch
                elif isinstance(message, EpochEnded):
                    recording.losses.append(message.loss)
                elif isinstance(message, MinibatchesDone):
                    stage = f"epoch {epoch + 1} of {self._experiment.epochs}"
                    recording.progress(stage, message.minibatches, minibatches)
                elif isinstance(message, TrainingFailed):
                    failure = self._failure(recording, message)
                elif isinstance(message, TrainingFinished):
                    done = True
                    self._note_probes(recording, message)
        if failure is not None:
            raise failure
        if not done:
            raise self._ended(recording)
        return Ending()

    def _note_probes(self, recording: Recording, found: TrainingFinished) -> None:
        """Add what was measured after the training to the manifest."""
        hand_over = found.hand_over
        recording.manifest = replace(
            recording.manifest,
            hand_over=None if hand_over is None else HandOverFacts(**asdict(hand_over)),
            batch_sizes=tuple(BatchSizeFacts(**asdict(each)) for each in found.batch_sizes),
        )

    def stop(self) -> None:
        if self._child is not None:
            if self._child.process.poll() is None:
                self._child.interrupt()
            self._child.close()

    def raise_failure(self, recording: Recording, message: TrainingMessage) -> None:
        """Raise what the program reported, where it failed."""
        if isinstance(message, TrainingFailed):
            raise self._failure(recording, message)

    def _failure(self, recording: Recording, message: TrainingFailed) -> EdgetrainError:
        """Return what the program reported as the error that it is."""
        text = message.reason
        if text.startswith("a loader worker died"):
            recording.event("worker_died", text)
            text += recording.out_of_memory() or "; look for what killed it, or lower --workers or --batch-size"
        return UsageError(text) if message.status == UsageError.exit_status else WorkloadError(text)

    def _ended(self, recording: Recording) -> WorkloadError:
        """Return the error for a child that ended without reporting why."""
        status = self.child.process.wait()
        recording.progress("ended", 0, None)
        if status < 0:
            name = signal_name(-status)
            recording.event("signal", f"the training process was ended by {name}")
            return WorkloadError(f"the training process was ended by {name}{recording.out_of_memory() or ''}")
        words = self.child.last_words()
        return WorkloadError(f"the training process ended with status {status}: {words or 'it left no message'}")
