"""One run being recorded: machine prepared, sampler beside, training followed, record closed whatever happens.

`run` and `profile` both come through here. What trains is a `Trainee`: a built-in workload in a child process, or a
user's command. The manifest is written when training is about to begin and again at the end: `finished`, `failed`
with the reason, or `interrupted`.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from edgetrain.device import Control, Device, ModeRequest
from edgetrain.errors import DeviceError, EdgetrainError, StoreError, UsageError, WorkloadError
from edgetrain.inside.stream import now_us
from edgetrain.lab import Lab, MachineLimits
from edgetrain.record import (
    BaseloadWindow,
    FolderWriter,
    LimitsRecord,
    Manifest,
    PowerModeRecord,
)
from edgetrain.runner import manifest as facts
from edgetrain.runner.cache import bring_cache_to
from edgetrain.runner.child import SamplerProcess
from edgetrain.runner.modes import settle
from edgetrain.runner.signals import Interrupted, Stopped
from edgetrain.runner.user import SudoUser
from edgetrain.schema import Doubt, Experiment
from edgetrain.units import spell_bytes

Progress = Callable[[str, int, int | None], None]  # stage, done, total

MIN_FREE_BYTES = 16 << 20  # below this a record may not fit: 50 bytes per minibatch, and telemetry
RESERVE, RESERVE_BYTES = "reserve", 1 << 16  # freed at the end, so that a full disk still takes the last manifest


@dataclass(frozen=True, slots=True)
class Ending:
    """How training ended. `status` is the exit status of a user's command, as a shell shows it."""

    state: str = "finished"  # finished | failed | interrupted
    reason: str | None = None
    status: int | None = None


class Trainee(Protocol):
    """What trains. Started idle, so that sampler, baseload and page cache are ready before it begins."""

    def start(self, prefix: Sequence[str], environment: Mapping[str, str], dataset: str | None) -> int:
        """Start the process, not yet training; return its pid. `prefix` and `environment` apply lab limits."""

    def prepare(self, recording: Recording) -> None:
        """Bring it to the point where training can begin; note what it found in `recording`."""

    def train(self, recording: Recording, sampler: SamplerProcess) -> Ending:
        """Train to the end; raise WorkloadError where our own workload failed."""

    def stop(self) -> None:
        """Leave nothing of it running; safe to call twice."""


class Recording:
    """One run being recorded."""

    def __init__(
        self,
        experiment: Experiment,
        device: Device,
        sampled_device: str,
        writer: FolderWriter,
        manifest: Manifest,
        progress: Progress,
        trainee: Trainee,
        min_free_bytes: int = MIN_FREE_BYTES,
        user: SudoUser | None = None,
        settling: bool = True,
    ) -> None:
        self.experiment, self.device, self.progress = experiment, device, progress
        self.writer, self.path = writer, writer.path
        self.manifest = replace(manifest, run=writer.id)
        self.dataset: str | None = None
        self.files: tuple[str, ...] = ()
        self.losses: list[float | None] = []
        self.oom_before = facts.oom_kills()
        self._sampled_device = sampled_device
        self._trainee = trainee
        self._min_free_bytes, self._user, self._settling = min_free_bytes, user, settling
        self._doubts: list[Doubt] = []

    def carry_out(self, limits: MachineLimits, dataset: str | None, files: tuple[str, ...]) -> Ending:
        """Run to an end, and write which."""
        self.dataset, self.files = dataset, files
        try:
            self._check_space()
            with self._mode_held(), self._limits_applied(limits) as lab:
                ending = self._train(lab)
        except Stopped as stopped:
            self.close(Ending("interrupted", str(stopped)))
            raise Interrupted(self.writer.id, stopped.signal) from None
        except KeyboardInterrupt:
            self.close(Ending("interrupted", "interrupted from the keyboard"))
            raise Interrupted(self.writer.id) from None
        except EdgetrainError as error:
            self.close(Ending("failed", str(error)))
            error.run = error.run or self.writer.id
            raise
        except OSError as error:
            text = f"{error.strerror or error}: {error.filename or self.path}"
            self.close(Ending("failed", text))
            raise WorkloadError(f"the run could not go on: {text}", run=self.writer.id) from error
        except Exception as error:
            self.close(Ending("failed", f"edgetrain itself failed: {error!r}"))
            raise
        try:
            self.close(ending)
        except StoreError as error:
            if ending.status is None:
                raise
            error.status = ending.status  # a user's command keeps its exit status whatever happens to us
            raise
        return ending

    # What a trainee uses

    def doubt(self, kind: str, text: str) -> None:
        """Keep one reason not to trust this run."""
        self._doubts.append(Doubt(kind, text))

    def event(self, kind: str, text: str) -> None:
        """Note something that happened now."""
        self.writer.event(kind, text)

    def out_of_memory(self) -> str | None:
        """Return what to say if the OOM killer struck since the run began."""
        return facts.out_of_memory(self.oom_before, facts.oom_kills())

    def save(self) -> None:
        """Write the manifest as it is now."""
        self.manifest = replace(self.manifest, doubts=tuple(self._doubts), losses=tuple(self.losses))
        self.writer.write_manifest(self.manifest)

    def close(self, ending: Ending) -> None:
        """Write the last manifest; where the store takes no more, say so: the record up to then stays readable."""
        if facts.free_bytes(self.path) in range(RESERVE_BYTES):
            self.doubt("store_full", "no space was left for the record at the end: its last seconds may be missing")
        (self.path / RESERVE).unlink(missing_ok=True)
        names = facts.damaged_files(self.path)
        if names:
            self._doubts.append(facts.damaged_files_doubt(names))
        self.manifest = replace(
            self.manifest,
            state=ending.state,
            reason=ending.reason,
            exit_status=ending.status,
            clock=facts.end_clock(self.manifest),
        )
        try:
            self.save()
        except OSError as error:
            raise StoreError(
                f"the record in {self.path} could not be closed ({error.strerror}); what was written until then is "
                f"readable: free some space and see it with edgetrain show {self.path}",
                run=self.writer.id,
            ) from error

    # How it is carried out

    def _check_space(self) -> None:
        """Refuse to begin where the record will not fit."""
        free = facts.free_bytes(self.path)
        if free is not None and free < self._min_free_bytes:
            raise StoreError(
                f"only {spell_bytes(free)} are left in {self.path.parent}; free some space or give another --store"
            )
        (self.path / RESERVE).write_bytes(bytes(RESERVE_BYTES))

    @contextlib.contextmanager
    def _mode_held(self) -> Iterator[None]:
        """Hold the power mode asked for, and record what the board's own files said at both ends."""
        mode, control = self.experiment.power_mode, self.device.control()
        if control is None:
            if mode is not None:
                raise UsageError(
                    f"{self.device.spec.name} has no power modes that can be set; leave the power mode out"
                )
            yield
            return
        self._undo_leftovers(control)
        with contextlib.ExitStack() as stack:
            if mode is not None:
                request = ModeRequest(mode=mode, dvfs=self.experiment.dvfs, full_fan=self.experiment.full_fan)
                stack.enter_context(control.hold(request))
            elif self.experiment.full_fan:
                stack.enter_context(control.session(full_fan=True))
            for text in control.doubts:
                self.doubt("mode_differs", text)
            start = control.read()
            self._note_mode(PowerModeRecord(mode, start))
            if mode is not None:
                self.event("mode", f"holding {mode}")
                self.progress("mode", 0, None)
                # With free governors the clocks of an idle board are below the mode.
                held = None if self.experiment.dvfs else mode
                for text in settle(self.device, held).doubts if self._settling else ():
                    self.doubt("mode_not_settled", text)
            try:
                yield
            finally:
                self._note_mode(PowerModeRecord(mode, start, control.read()))
                if mode is not None:
                    for text in control.drift():
                        self.doubt("clocks_differ", f"during the run, {text}")

    def _undo_leftovers(self, control: Control) -> None:
        """Put the board back where a killed run left it in another mode."""
        try:
            undone = control.repair()
            if undone is not None:
                self.event("mode", f"restored the board after a run that was killed in {undone.asked}")
        except DeviceError as error:
            self.doubt("mode_not_restored", str(error))

    def _note_mode(self, record: PowerModeRecord) -> None:
        self.manifest = replace(self.manifest, power_mode=record)

    @contextlib.contextmanager
    def _limits_applied(self, limits: MachineLimits) -> Iterator[Lab | None]:
        """Apply the lab limits; where storage is slowed down, the dataset is found on the slow medium."""
        if not limits:
            yield None
            return
        lab = limits.applied(
            self.experiment.loading.workers,
            lambda text: self.event("lab", text),
            user_program=self.experiment.workload.command is not None,
        )
        try:
            with lab:
                if self.dataset is not None:
                    seen = str(lab.dataset_path(self.dataset))
                    if seen != self.dataset:
                        start = len(self.dataset)
                        self.files = tuple(seen + file[start:] for file in self.files if file.startswith(self.dataset))
                        self.dataset = seen
                self.manifest = replace(self.manifest, limits=LimitsRecord(limits.asked(), lab.got))
                for text in lab.doubts:
                    self.doubt("lab", text)
                yield lab
        finally:
            # What was served and used is known only after the lab is closed.
            self.manifest = replace(self.manifest, limits=LimitsRecord(limits.asked(), lab.got))

    def _train(self, lab: Lab | None) -> Ending:
        trainee, sampler = self._trainee, None
        try:
            self.progress("prepare", 0, None)
            prefix = lab.command_prefix() if lab else []
            if lab and self._user:
                lab.let_join(self._user.uid, self._user.gid)
            pid = trainee.start(prefix, lab.environment() if lab else {}, self.dataset)
            trainee.prepare(self)
            self._note_dataset()
            sampler = SamplerProcess(self.path, self._sampled_device, self.dataset, pid, self.experiment.seed)
            if not sampler.wait_ready():
                self.doubt("no_telemetry", "the sampler gave no samples; sampler.log in the run's folder says why")
            self._settle(lab.worker_group if lab else None)
            self.save()
            return trainee.train(self, sampler)
        finally:
            trainee.stop()
            if sampler is not None:
                died = sampler.died()
                sampler.stop()
                if died is not None:
                    self.doubt("sampler_died", died)

    def _note_dataset(self) -> None:
        medium = None
        if self.dataset is not None:
            self.files = self.files or list_files(self.dataset)
            workload = facts.with_dataset(self.manifest.workload, self.dataset, self.files)
            self.manifest = replace(self.manifest, workload=workload)
            medium = workload.medium
        self._doubts += facts.early_doubts(self.experiment, self.path, self.dataset, medium)

    def _settle(self, join: str | None) -> None:
        """Measure the baseload, then bring the page cache into the state asked for: the last thing before training."""
        seconds = self.experiment.baseload_s
        if seconds > 0 and self.manifest.power is None:
            self.doubt("no_baseload", "no power sensor answers here, so no baseload was measured; see edgetrain doctor")
        elif seconds > 0:
            began_us, until_s = now_us(), time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                self.progress("baseload", round((seconds - left_s) * 10), round(seconds * 10))
                time.sleep(min(left_s, 0.5))
            self.manifest = replace(self.manifest, baseload=BaseloadWindow(began_us, now_us()))
        asked = self.experiment.loading.cache
        found = bring_cache_to(asked, self.files, lambda done, total: self.progress(asked, done, total), join)
        self.manifest = replace(self.manifest, cache=found.state)
        if found.doubt is not None:
            self._doubts.append(found.doubt)


def list_files(dataset: str | None) -> tuple[str, ...]:
    """Return the files of a dataset whose layout nobody knows."""
    if dataset is None:
        return ()
    from edgetrain.sampling import Inventory

    return tuple(Inventory.of(dataset).paths)


def signal_name(number: int) -> str:
    """Return the name of a signal; its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
