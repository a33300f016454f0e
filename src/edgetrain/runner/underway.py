"""One run under way: the machine held, the child prepared, settled, followed, and the record closed.

The manifest is written when training is about to begin and again when it ends, whichever way: `finished`, `failed`
with the reason (raised as WorkloadError carrying the run), or `interrupted` (raised as Interrupted, so that whoever
runs many stops).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from edgetrain.device import Device
from edgetrain.errors import DeviceError, EdgetrainError, StoreError, UsageError, WorkloadError
from edgetrain.inside.stream import append_event, now_us, write_json
from edgetrain.lab import Limits
from edgetrain.runner import manifest as about
from edgetrain.runner.anchors import anchor
from edgetrain.runner.cache import settle
from edgetrain.runner.child import SamplerProcess, TrainingChild
from edgetrain.runner.modes import settle as wait_steady
from edgetrain.schema import Experiment
from edgetrain.units import spell_bytes

Progress = Callable[[str, int, int | None], None]

LEAST_FREE_BYTES = 16 << 20  # below this a record may not fit; 50 bytes a minibatch, and telemetry
RESERVE, RESERVE_BYTES = "reserve", 1 << 16  # given up at the end, so that a full disk still takes the last manifest
LOOK_S = 0.2


class Interrupted(KeyboardInterrupt):
    """Somebody ended the run; `run` is its record, complete up to then."""

    def __init__(self, run: str) -> None:
        super().__init__(f"interrupted; the record up to then is {run}")
        self.run = run


class RunUnderWay:
    """One run under way."""

    def __init__(
        self,
        experiment: Experiment,
        device: Device,
        device_spec: str,
        path: Path,
        manifest: dict[str, Any],
        tell: Progress,
    ) -> None:
        self.experiment, self.device, self.device_spec = experiment, device, device_spec
        self.path, self.manifest, self.tell = path, manifest, tell
        self.doubts: list[dict[str, str]] = []
        self.losses: list[float | None] = []
        self.oom_before = about.oom_kills()

    def carry_out(self, limits: Limits, dataset: str | None, generated: bool, files: tuple[str, ...]) -> None:
        """Run to an end, and write which."""
        with _interruptible():
            try:
                self._begin()
                with self._mode_held():
                    self._held_down(limits, dataset, generated, files)
            except KeyboardInterrupt:
                self._close("interrupted", "stopped by a signal")
                raise Interrupted(self.path.name) from None
            except EdgetrainError as error:
                self._close("failed", str(error))
                error.facts.setdefault("run", self.path.name)
                raise
            except OSError as error:
                text = f"{error.strerror or error}: {error.filename or self.path}"
                self._close("failed", text)
                raise WorkloadError(f"the run could not go on: {text}", run=self.path.name) from error
            except Exception as error:
                self._close("failed", f"edgetrain itself failed: {error!r}")
                raise
            self._close("finished", None)

    def _begin(self) -> None:
        """See that the record will fit."""
        free = about.free_bytes(self.path)
        if free is not None and free < LEAST_FREE_BYTES:
            raise StoreError(
                f"only {spell_bytes(free)} are left in {self.path.parent}; make room or give another --store"
            )
        (self.path / RESERVE).write_bytes(bytes(RESERVE_BYTES))

    @contextlib.contextmanager
    def _mode_held(self) -> Iterator[None]:
        """Hold the power mode asked for, and keep what the board said at both ends."""
        mode = self.experiment.power_mode
        control = self.device.control()
        if mode is None:
            if control is None:
                yield
                return
            try:
                undone = control.repair()
                if undone is not None:
                    self._event("mode", f"put the board back after a run that was killed in {undone.asked}")
            except DeviceError as error:
                self._doubt("mode_not_restored", str(error))
            found = {"asked": None, "start": control.read(), "end": None}
            self.manifest["power_mode"] = found
            try:
                yield
            finally:
                found["end"] = control.read()
            return
        if control is None:
            raise UsageError(f"{self.device.spec.name} has no power modes that can be set; leave the power mode out")
        from edgetrain.device.control import Setting

        with control.hold(Setting(mode=mode)):
            said = {"asked": str(mode), "start": control.read(), "end": None}
            self.manifest["power_mode"] = said
            self.tell("mode", 0, None)
            for text in wait_steady(self.device, mode).doubts:
                self._doubt("mode_not_settled", text)
            try:
                yield
            finally:
                said["end"] = control.read()
                for text in control.drift():
                    self._doubt("clocks_differ", f"during the run, {text}")

    def _held_down(self, limits: Limits, dataset: str | None, generated: bool, files: tuple[str, ...]) -> None:
        if not limits:
            self._train(dataset, generated, files, [], {}, None)
            return
        with limits.applied(self.experiment.loading.workers, lambda text: self._event("lab", text)) as lab:
            if dataset is not None:
                seen = str(lab.dataset_path(dataset))
                if seen != dataset:
                    files = tuple(seen + file[len(dataset) :] for file in files if file.startswith(dataset))
                    dataset = seen
            self.manifest["limits"] = {"asked": limits.asked(), "got": lab.got}
            self.doubts += [{"kind": "lab", "text": text} for text in lab.doubts]
            environment = lab.environment()
            self._train(dataset, generated, files, lab.command_prefix(), environment, lab.worker_group)
            self.manifest["limits"] = {"asked": limits.asked(), "got": lab.got}

    def _train(
        self,
        dataset: str | None,
        generated: bool,
        files: tuple[str, ...],
        prefix: Sequence[str],
        environment: dict[str, str],
        join: str | None,
    ) -> None:
        document = {"experiment": self.experiment.document(), "dataset": dataset, "generated": generated}
        write_json(str(self.path / "experiment.json"), document)
        surroundings = {**os.environ, **environment, "EDGETRAIN_RUN": str(self.path)}
        surroundings["EDGETRAIN_TIMING"] = self.experiment.timing
        # Threads that spin while they wait make a CPU step several times slower as soon as a loader wants a core.
        surroundings.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        surroundings["PYTHONUNBUFFERED"] = "1"
        child = TrainingChild(self.path, prefix, surroundings)
        sampler: SamplerProcess | None = None
        try:
            self.tell("prepare", 0, None)
            child.order("prepare")
            prepared = self._prepared(child)
            dataset = dataset or prepared.get("dataset_path")
            files = files or _listed(dataset)
            self._note_dataset(dataset, files)
            sampler = SamplerProcess(self.path, self.device_spec, dataset, child.pid, self.experiment.seed)
            if not sampler.wait_ready():
                self._doubt("no_telemetry", "the sampler gave no samples; sampler.log in the run's folder says why")
            self._settle(files, join)
            self._save()
            child.order("train")
            self._follow(child, sampler)
        finally:
            if child.process.poll() is None:
                child.interrupt()
            child.close()
            if sampler is not None:
                sampler.stop()

    def _prepared(self, child: TrainingChild) -> dict[str, Any]:
        """Wait until the child has built everything, and keep what it found."""
        while (messages := child.messages(LOOK_S)) is not None:
            for message in messages:
                if "failed" in message:
                    raise self._failure(message)
                if "prepared" in message:
                    found: dict[str, Any] = message["prepared"]
                    compute = found.pop("compute")
                    if compute["kind"] == "cuda":
                        compute["name"] = self.device.spec.gpu
                    self.manifest = about.merged(self.manifest, "compute", compute)
                    versions = {name: found.pop(name) for name in ("torch", "cuda", "threads")}
                    self.manifest = about.merged(self.manifest, "device", versions)
                    where = {"samples", "batch_size", "parameters", "classes", "minibatches_per_epoch"}
                    facts = {name: value for name, value in found.items() if name in where}
                    self.manifest = about.merged(self.manifest, "workload", facts)
                    return found
        raise self._ended(child)

    def _note_dataset(self, dataset: str | None, files: Sequence[str]) -> None:
        medium = None
        if dataset is not None:
            facts = about.describe_dataset(dataset, files)
            medium = facts["medium"]
            self.manifest = about.merged(self.manifest, "workload", facts)
        self.doubts += about.known_doubts(self.experiment, self.path, dataset, medium)

    def _settle(self, files: Sequence[str], join: str | None) -> None:
        """Measure the baseload, then bring the cache into the state asked for: the last thing before training."""
        seconds = self.experiment.baseload_s
        if seconds > 0 and self.manifest.get("power") is None:
            self._doubt(
                "no_baseload", "no power sensor answers here, so no baseload was measured; see edgetrain doctor"
            )
        elif seconds > 0:
            began_us, until_s = now_us(), time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                self.tell("baseload", round((seconds - left_s) * 10), round(seconds * 10))
                time.sleep(min(left_s, 0.5))
            self.manifest["baseload"] = {"from_us": began_us, "to_us": now_us()}
        asked = self.experiment.loading.cache
        check = settle(asked, files, lambda done, total: self.tell(asked, done, total), join)
        self.manifest["cache"] = check.document()
        if check.doubt is not None:
            self._doubt(*check.doubt)

    def _follow(self, child: TrainingChild, sampler: SamplerProcess) -> None:
        """Listen until the training ends; raise where it did not end well."""
        epoch, done, failure = 0, False, None
        minibatches = self.manifest["workload"].get("minibatches_per_epoch")
        while (messages := child.messages(LOOK_S)) is not None:
            for message in messages:
                if "epoch" in message:
                    epoch = message["epoch"]
                    sampler.look()
                elif "of" in message:
                    self.losses.append(message.get("loss"))
                    sampler.look()
                elif "batch" in message:
                    self.tell(f"epoch {epoch + 1} of {self.experiment.epochs}", message["batch"], minibatches)
                elif "failed" in message:
                    failure = self._failure(message)
                elif message.get("done"):
                    done = True
        if failure is not None:
            raise failure
        if not done:
            raise self._ended(child)

    def _failure(self, message: dict[str, Any]) -> EdgetrainError:
        """Return what the child told as the error that it is."""
        text = str(message["failed"])
        if text.startswith("a loader worker died"):
            self._event("worker_died", text)
            text += self._oom() or "; look for what killed it, or lower --workers or --batch-size"
        return UsageError(text) if message.get("status") == 2 else WorkloadError(text)

    def _ended(self, child: TrainingChild) -> WorkloadError:
        """Return what to say of a child that ended without a word."""
        status = child.process.wait()
        self.tell("ended", 0, None)
        if status < 0:
            name = signal.Signals(-status).name
            self._event("signal", f"the training process was ended by {name}")
            return WorkloadError(f"the training process was ended by {name}{self._oom() or ''}")
        words = child.last_words()
        return WorkloadError(f"the training process ended with status {status}: {words or 'it left no message'}")

    def _oom(self) -> str | None:
        return about.out_of_memory(self.oom_before, about.oom_kills())

    def _event(self, kind: str, text: str) -> None:
        append_event(str(self.path / "events-runner.jsonl"), kind, text)

    def _doubt(self, kind: str, text: str) -> None:
        self.doubts.append({"kind": kind, "text": text})

    def _save(self) -> None:
        self.manifest["doubts"] = list(self.doubts)
        write_json(str(self.path / "manifest.json"), self.manifest)

    def _close(self, state: str, reason: str | None) -> None:
        """Write the last manifest; a store that takes no more is said, and the record up to then stays."""
        if about.free_bytes(self.path) in range(RESERVE_BYTES):
            self._doubt("store_full", "no space was left for the record at the end: its last seconds may be missing")
        (self.path / RESERVE).unlink(missing_ok=True)
        names = about.bad_files(self.path)
        if names:
            self.doubts.append(about.bad_files_doubt(names))
        self.manifest["state"], self.manifest["reason"] = state, reason
        self.manifest["losses"] = self.losses
        self.manifest["clock"] = {**self.manifest["clock"], "end": anchor()}
        try:
            self._save()
        except OSError as error:
            raise StoreError(
                f"the record in {self.path} could not be closed ({error.strerror}); what was written until then is "
                f"readable: make room and look at it with edgetrain show {self.path}",
                run=self.path.name,
            ) from error


def _listed(dataset: str | None) -> tuple[str, ...]:
    if dataset is None:
        return ()
    from edgetrain.sampling import Inventory

    return tuple(Inventory.of(dataset).paths)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does; only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # Once is enough: a second Ctrl-C must not tear the record that is being closed.
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
