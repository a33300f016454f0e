"""Runs an experiment on a simulated board in virtual time, and records it as a real run would be.

Everything goes the way it would on a real board: the mode is set through the journaled control on the board's files,
power settles, probes are read on their schedule and written as streams; only training and time are simulated. The
origin of everything that comes out is `simulated`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.device import (
    DATASETS,
    READ_S,
    ModeRequest,
    Physics,
    SimulatedDevice,
    SimulatedTraining,
    TrainedEpoch,
    TrainingPlan,
    open_simulated,
    stream_rows,
)
from edgetrain.errors import EdgetrainError, StoreError, UsageError
from edgetrain.inside.stream import MINIBATCHES, WORKERS
from edgetrain.record import (
    BaseloadWindow,
    Clock,
    ComputeFacts,
    EpochFacts,
    LoaderFacts,
    Manifest,
    PowerModeRecord,
    ProcessFacts,
    RunWriter,
    SettledFacts,
    Store,
)
from edgetrain.runner.manifest import first_manifest
from edgetrain.runner.modes import settle
from edgetrain.runner.recording import Progress
from edgetrain.runner.signals import Interrupted, Stopped
from edgetrain.runner.simulated_streams import VirtualSampler
from edgetrain.schema import DEFAULT_BATCH_SIZE, Doubt, Experiment
from edgetrain.units import NS_PER_S, parse_bytes

PAGE_CACHE = ".sim/page-cache.json"  # which network's dataset the simulated page cache holds, and how much of it
WORKING_BYTES = 2.5e9  # system, framework and network: what the page cache does not get
PARAMETERS = {
    "lenet5": 61_706,
    "mobilenet_v3": 5_483_032,
    "resnet18": 11_689_512,
    "resnet18_cifar_gn": 11_173_962,
    "vgg11": 132_863_336,
}  # with 1000 classes (LeNet 10), as published


def simulate_run(
    experiment: Experiment,
    device: SimulatedDevice | str,
    store: Store,
    progress: Progress = lambda stage, done, total: None,
    command: Sequence[str] = (),
) -> str:
    """Carry out an experiment on a simulated board and store it; return the run's id."""
    if isinstance(device, str):
        device = open_simulated(device.removeprefix("sim:"))
    plan = _plan(experiment, device)
    physics = device.world.physics(plan.network, plan.batch_size)
    space = device.modes()
    if experiment.power_mode is not None and space is not None:
        space.check(experiment.power_mode)
    manifest = first_manifest(experiment, device, command)
    assert manifest.clock is not None
    start = replace(manifest.clock.start, monotonic_us=device.world.now_ns() // 1000, virtual=True)
    manifest = replace(
        manifest, clock=Clock(start), compute=ComputeFacts("simulated", device.spec.gpu, None, physics.source)
    )
    run = _SimulatedRun(experiment, device, plan, physics, store.create(manifest), manifest, progress)
    run.carry_out()
    return run.writer.id


def _plan(experiment: Experiment, device: SimulatedDevice) -> TrainingPlan:
    workload, loading, limits = experiment.workload, experiment.loading, experiment.limits
    medium = limits.storage or "ssd"
    if medium not in READ_S:
        raise UsageError(f"the simulated board has no medium {medium!r}; it has {', '.join(READ_S)}")
    refused = [name for name in ("cores", "cpu_share", "speed", "picture") if getattr(limits, name) is not None]
    refused += ["preset"] if experiment.preset else []
    if refused or experiment.compute == "paced":
        raise UsageError(
            f"lab limits do not apply to a simulated board ({', '.join(refused) or 'paced compute'}); it is a board "
            "already: choose cores and clocks with --power-mode"
        )
    ram_bytes = float(parse_bytes(limits.ram)) if limits.ram else float(device.spec.ram_bytes or 8e9)
    cache_bytes = max(0.0, ram_bytes - WORKING_BYTES)
    if limits.page_cache:
        cache_bytes = float(parse_bytes(limits.page_cache))
    if workload.network not in DATASETS:
        raise UsageError(
            f"the simulated board does not know the network {workload.network!r}; it knows {', '.join(DATASETS)}"
        )
    samples = max(1, round(DATASETS[workload.network][0] * workload.dataset_scale))
    batch_size = workload.batch_size or DEFAULT_BATCH_SIZE
    if samples < batch_size:
        raise UsageError(f"the dataset has {samples} samples, fewer than one minibatch of {batch_size}")
    return TrainingPlan(
        workload.network, batch_size, loading.workers, loading.prefetch, experiment.timing == "sync", medium, samples,
        cache_bytes,
    )  # fmt: skip


@dataclass
class _SimulatedRun:
    """One run in virtual time."""

    experiment: Experiment
    device: SimulatedDevice
    plan: TrainingPlan
    physics: Physics
    writer: RunWriter
    manifest: Manifest
    progress: Progress

    def carry_out(self) -> None:
        """Run to an end, and write which."""
        try:
            with self._mode_held():
                self._record()
        except EdgetrainError as error:
            self._close("failed", str(error))
            error.run = error.run or self.writer.id
            raise
        except Stopped as stopped:
            self._close("interrupted", str(stopped))
            raise Interrupted(self.writer.id, stopped.signal) from None
        except KeyboardInterrupt:
            self._close("interrupted", "interrupted from the keyboard")
            raise Interrupted(self.writer.id) from None
        except OSError as error:
            text = f"the run could not go on: {error.strerror or error}"
            self._close("failed", text)
            raise StoreError(text, run=self.writer.id) from error
        self._close("finished", None)

    def _close(self, state: str, reason: str | None) -> None:
        self.manifest = replace(self.manifest, state=state, reason=reason)
        try:
            self.writer.write_manifest(self.manifest)
        except OSError as error:
            raise StoreError(
                f"the record {self.writer.id} could not be closed ({error.strerror or error}); "
                "free some space in the store, or choose another with --store",
                run=self.writer.id,
            ) from error

    @contextlib.contextmanager
    def _mode_held(self) -> Iterator[None]:
        """Hold the mode asked for, and record what the board said at both ends."""
        mode, control = self.experiment.power_mode, self.device.control()
        if control is None:
            raise UsageError(f"{self.device.spec.name} has no power modes that can be set")
        control.repair()
        request = ModeRequest(mode, dvfs=self.experiment.dvfs, full_fan=self.experiment.full_fan)
        with control.hold(request) if mode is not None else contextlib.nullcontext():
            start = self.device.current_mode()
            doubts = tuple(Doubt("mode_differs", text) for text in control.doubts)
            self.manifest = replace(self.manifest, doubts=doubts, power_mode=PowerModeRecord(mode, start))
            yield
            ended = PowerModeRecord(mode, start, self.device.current_mode())
            self.manifest = replace(self.manifest, power_mode=ended)

    def _record(self) -> None:
        world, experiment = self.device.world, self.experiment
        settled = settle(self.device, None if experiment.dvfs else experiment.power_mode)
        self.manifest = replace(
            self.manifest,
            settled=SettledFacts(settled.waited_s, settled.power_w, settled.temp_c),
            doubts=(
                *self.manifest.doubts,
                *(Doubt("mode_not_settled", text) for text in settled.doubts),
            ),
        )
        sampler = VirtualSampler(self.device, self.writer)
        if experiment.power_mode is not None:
            self.writer.event("mode", f"holding {experiment.power_mode}", world.now_ns() // 1000)
        if experiment.baseload_s > 0:
            from_ns = world.now_ns()
            sampler.follow(from_ns + round(experiment.baseload_s * NS_PER_S))
            window = BaseloadWindow(from_ns // 1000, world.now_ns() // 1000)
            self.manifest = replace(self.manifest, baseload=window)
        world.catch_up()
        training = SimulatedTraining(
            self.plan, self.physics, world.mode(), world.timeline, world.now_ns(),
            world.run_name(experiment.seed, experiment.repeat), dvfs=not world.held,
        )  # fmt: skip
        self._warm_cache(training)
        self._note_workload(training)
        passes = self._train(training, sampler)
        _remember_cache(world.root, self.plan.network, training.cached)
        sampler.follow(world.now_ns() + NS_PER_S // 2)
        sampler.close()
        loading = experiment.loading
        loader = LoaderFacts(
            0, self.plan.workers, self.plan.prefetch, self.plan.batch_size, loading.pin_memory, loading.persistent
        )
        self.writer.write_process(
            ProcessFacts(parameters=PARAMETERS.get(self.plan.network), loaders=(loader,), epochs=tuple(passes))
        )

    def _warm_cache(self, training: SimulatedTraining) -> None:
        """Bring the simulated page cache into the state asked for; kept, it is what the run before left."""
        fits = min(1.0, self.plan.cache_bytes / max(1, training.dataset_bytes))
        if self.experiment.loading.cache == "warm":
            training.cached = fits
        elif self.experiment.loading.cache == "keep":
            training.cached = min(fits, _remembered_cache(self.device.world.root, self.plan.network))

    def _note_workload(self, training: SimulatedTraining) -> None:
        per_epoch = training.minibatches_per_epoch
        workload = replace(
            self.manifest.workload,
            samples=training.samples,
            batch_size=self.plan.batch_size,
            medium=self.plan.medium,
            minibatches_per_epoch=min(per_epoch, self.experiment.minibatches or per_epoch),
            dataset_bytes=training.dataset_bytes,
            parameters=PARAMETERS.get(self.plan.network),
        )
        self.manifest = replace(self.manifest, workload=workload)

    def _train(self, training: SimulatedTraining, sampler: VirtualSampler) -> list[EpochFacts]:
        minibatches = self.writer.stream("minibatches-0", "minibatches", MINIBATCHES)
        workers = self.writer.stream("workers-0-0-0", "workers", WORKERS)
        epochs = []
        for number in range(self.experiment.epochs):
            self.progress(f"epoch {number + 1} of {self.experiment.epochs}", 0, None)
            trained = training.epoch(number, self.experiment.minibatches)
            for row in stream_rows(tuple(name for name, _ in MINIBATCHES), trained.minibatches):
                minibatches.add(row)
            made = sorted(trained.workers, key=lambda row: row["began_us"] or 0)
            for row in stream_rows(tuple(name for name, _ in WORKERS), made):
                workers.add(row)
            epochs.append(_epoch_facts(trained))
            if trained.throttled:
                at_us = trained.began_ns // 1000
                self.writer.event("throttle", "the board was too hot to hold its clocks", at_us)
            sampler.follow(trained.ended_ns)
            for stream in (minibatches, workers):
                stream.flush()
                if stream.failed:
                    raise StoreError(f"the run could not be recorded: {stream.failed}; choose another --store")
        minibatches.close()
        workers.close()
        return epochs


def _epoch_facts(trained: TrainedEpoch) -> EpochFacts:
    return EpochFacts(
        epoch=trained.epoch,
        ended_us=trained.ended_ns // 1000,
        cached_share_before=trained.cached_before,
        cached_share_after=trained.cached_after,
    )


def _remembered_cache(root: Path, network: str) -> float:
    try:
        return float(json.loads((root / PAGE_CACHE).read_text()).get(network, 0.0))
    except (OSError, ValueError, TypeError, AttributeError):
        return 0.0


def _remember_cache(root: Path, network: str, share: float) -> None:
    (root / PAGE_CACHE).write_text(json.dumps({network: share}))
