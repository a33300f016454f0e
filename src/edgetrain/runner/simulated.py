"""Runs experiments on a simulated board: a whole record, or just the time and power of one mode.

Everything goes the way it would on a real board: the mode is set through the journaled control on the board's files,
power settles, probes are read on their timetable and written as streams; only training and time are simulated. The
origin of whatever comes out is `simulated`.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.control import Setting
from edgetrain.device.simulated import SimulatedDevice, open_simulated
from edgetrain.device.simulated.physics import Physics
from edgetrain.device.simulated.pipeline import DATASETS, READ_S, Plan, Trained, Training, rows
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.inside.stream import MINIBATCHES, WORKERS, StreamWriter, write_json
from edgetrain.runner.modes import settle
from edgetrain.runner.simulated_streams import Recorder
from edgetrain.schema import Experiment, ModeMeasurement, Origin, PowerMode
from edgetrain.store import Store
from edgetrain.store.codec import read_json
from edgetrain.units import NS_PER_S, US_PER_S, parse_bytes

Progress = Callable[[str, int, int | None], None]
CACHE = ".sim/page-cache.json"  # which network's dataset the simulated page cache holds, and how much of it
WARM_UP = 5  # minibatches before a mode's time and power are taken; the published tables drop as many
WORKING_BYTES = 2.5e9  # system, framework and network: what the page cache does not get
PARAMETERS = {
    "lenet5": 61_706,
    "mobilenet_v3": 5_483_032,
    "resnet18": 11_689_512,
    "vgg11": 132_863_336,
}  # with 1000 classes (LeNet 10), as published


def simulate_run(
    experiment: Experiment,
    device: SimulatedDevice | str,
    store: Store,
    tell: Progress = lambda stage, done, total: None,
    command: Sequence[str] | None = None,
) -> str:
    """Carry out an experiment on a simulated board and store it; return the run's id."""
    from edgetrain.runner import manifest as about

    if isinstance(device, str):
        device = open_simulated(device.removeprefix("sim:"))
    plan = _plan(experiment, device)
    physics = Physics(device.world.shape.name, plan.network, plan.batch_size)
    space = device.modes()
    if experiment.power_mode is not None and space is not None:
        space.check(experiment.power_mode)
    first = about.first_manifest(experiment, device, command or about.ours())
    first["origin"] = str(Origin.SIMULATED)
    first["compute"] = {"kind": "simulated", "name": device.spec.gpu, "ms": None, "source": physics.source}
    first["device"] = {**first["device"], "governor": "schedutil", "fan": None, "python": None}
    start_ns = device.world.now_ns()
    first["clock"] = {
        "start": {**first["clock"]["start"], "monotonic_us": start_ns // 1000, "virtual": True},
        "end": None,
    }
    path = store.create(first)
    manifest = {**first, "run": path.name}
    try:
        with _held(device, experiment.power_mode, manifest):
            _record(experiment, device, plan, physics, path, manifest, tell)
    except EdgetrainError as error:
        _close(path, manifest, "failed", str(error))
        error.facts.setdefault("run", path.name)
        raise
    except KeyboardInterrupt:
        _close(path, manifest, "interrupted", "stopped by a signal")
        raise
    _close(path, manifest, "finished", None)
    return path.name


def _plan(experiment: Experiment, device: SimulatedDevice) -> Plan:
    workload, loading = experiment.workload, experiment.loading
    limits = dict(experiment.limits or {})
    medium = str(limits.get("storage") or "ssd")
    if medium not in READ_S:
        raise UsageError(f"the simulated board has no medium {medium!r}; it has {', '.join(READ_S)}")
    odd = sorted(set(limits) - {"storage", "ram", "page_cache"}) + (["preset"] if experiment.preset else [])
    if odd or experiment.compute == "paced":
        raise UsageError(
            f"a simulated board is not held down by the lab ({', '.join(odd) or 'paced compute'}); it is a board "
            "already: choose cores and clocks with --power-mode"
        )
    ram = limits.get("ram")
    ram_bytes = float(parse_bytes(str(ram))) if ram else float(device.spec.ram_bytes or 8e9)
    cache_bytes = max(0.0, ram_bytes - WORKING_BYTES)
    if limits.get("page_cache"):
        cache_bytes = float(parse_bytes(str(limits["page_cache"])))
    if workload.network not in DATASETS:
        raise UsageError(
            f"the simulated board does not know the network {workload.network!r}; it knows {', '.join(DATASETS)}"
        )
    samples = max(1, round(DATASETS[workload.network][0] * workload.dataset_scale))
    batch_size = workload.batch_size or 16
    if samples < batch_size:
        raise UsageError(f"the dataset has {samples} samples, fewer than one minibatch of {batch_size}")
    return Plan(
        workload.network, batch_size, loading.workers, loading.prefetch, experiment.timing == "sync", medium, samples,
        cache_bytes,
    )  # fmt: skip


@contextlib.contextmanager
def _held(device: SimulatedDevice, mode: PowerMode | None, manifest: dict[str, Any]) -> Iterator[None]:
    """Hold the mode asked for, and keep what the board said at both ends."""
    if mode is None:
        manifest["power_mode"] = {"asked": None, "start": str(device.current_mode()), "end": str(device.current_mode())}
        yield
        return
    control = device.control()
    if control is None:
        raise UsageError(f"{device.spec.name} has no power modes that can be set")
    control.repair()
    with control.hold(Setting(mode)):
        said = {"asked": str(mode), "start": str(device.current_mode()), "end": None}
        manifest["power_mode"] = said
        yield
        said["end"] = str(device.current_mode())


def _record(
    experiment: Experiment,
    device: SimulatedDevice,
    plan: Plan,
    physics: Physics,
    path: Path,
    manifest: dict[str, Any],
    tell: Progress,
) -> None:
    world = device.world
    write_json(str(path / "experiment.json"), {"experiment": experiment.document(), "dataset": None, "generated": True})
    settled = settle(device, experiment.power_mode)
    manifest["settled"] = {"waited_s": settled.waited_s, "power_w": settled.power_w, "temp_c": settled.temp_c}
    manifest["doubts"] = [{"kind": "settle", "text": text} for text in settled.doubts]
    recorder = Recorder(device, path)
    if experiment.power_mode is not None:
        recorder.event(world.now_ns(), "mode", f"holding {experiment.power_mode}")
    if experiment.baseload_s > 0:
        from_ns = world.now_ns()
        recorder.follow(from_ns + round(experiment.baseload_s * NS_PER_S))
        manifest["baseload"] = {"from_us": from_ns // 1000, "to_us": world.now_ns() // 1000}
    world.catch_up()
    training = Training(
        plan, physics, world.mode(), world.timeline, world.now_ns(), experiment.seed + experiment.repeat
    )
    room = min(1.0, plan.cache_bytes / max(1, training.dataset_bytes))
    kept = world.root / CACHE
    if experiment.loading.cache == "warm":
        training.cached = room
    elif experiment.loading.cache == "keep":
        # What the run before left in the page cache: boards keep it between runs.
        training.cached = min(room, float((read_json(kept) or {}).get(plan.network, 0.0)))
    manifest["workload"] = {
        **manifest["workload"], "samples": training.samples, "batch_size": plan.batch_size, "medium": plan.medium,
        "minibatches_per_epoch": min(training.minibatches_per_epoch, experiment.max_minibatches or 1 << 60),
        "dataset_bytes": training.dataset_bytes, "parameters": PARAMETERS.get(plan.network),
    }  # fmt: skip
    minibatches = StreamWriter(str(path / "minibatches-sim.ets"), "minibatches", MINIBATCHES, {"simulated": True})
    workers = StreamWriter(str(path / "workers-0-sim.ets"), "workers", WORKERS, {"simulated": True})
    marks: list[dict[str, Any]] = []
    for number in range(experiment.epochs):
        tell(f"epoch {number + 1} of {experiment.epochs}", 0, None)
        trained = training.epoch(number, experiment.max_minibatches)
        for row in rows(tuple(name for name, _ in MINIBATCHES), trained.minibatches):
            minibatches.add(row)
        for row in rows(
            tuple(name for name, _ in WORKERS), sorted(trained.workers, key=lambda row: row["began_us"] or 0)
        ):
            workers.add(row)
        marks.append(_mark(trained))
        if trained.throttled:
            recorder.event(trained.began_ns, "throttle", "the board was too hot to hold its clocks")
        recorder.follow(trained.ended_ns)
        minibatches.flush()
        workers.flush()
    write_json(str(kept), {plan.network: training.cached})
    recorder.follow(world.now_ns() + NS_PER_S // 2)
    recorder.close()
    minibatches.close()
    workers.close()
    loader = {
        "loader": 0, "workers": plan.workers, "prefetch": plan.prefetch, "batch_size": plan.batch_size,
        "persistent": experiment.loading.persistent, "pin_memory": experiment.loading.pin_memory,
    }  # fmt: skip
    write_json(
        str(path / "inside.json"),
        {
            "simulated": True,
            "loaders": [loader],
            "epochs": marks,
            "parameters": PARAMETERS.get(plan.network),
            "problems": [],
        },
    )


def _mark(trained: Trained) -> dict[str, Any]:
    return {
        "epoch": trained.epoch,
        "loader": 0,
        "began_us": trained.began_ns // 1000,
        "ended_us": trained.ended_ns // 1000,
        "cached_share_before": trained.cached_before,
        "cached_share_after": trained.cached_after,
        "loss": None,
    }


def _close(path: Path, manifest: dict[str, Any], state: str, reason: str | None) -> None:
    manifest.update(state=state, reason=reason)
    write_json(str(path / "manifest.json"), manifest)


class SimulatedMeasure:
    """Measures one power mode of a network on a simulated board: a `schema.Measure`.

    The mode is applied by the real control on the fake tree, power settles, `minibatches` clean ones are trained, and
    the rails are read as the sampler would. The board is as before after each call.
    """

    def __init__(
        self,
        device: SimulatedDevice | str,
        network: str,
        batch_size: int = 16,
        workers: int = 4,
        minibatches: int = 40,
        seed: int = 0,
    ) -> None:
        self.device = open_simulated(device.removeprefix("sim:")) if isinstance(device, str) else device
        self.minibatches, self._seed, self._calls = minibatches, seed, 0
        self._physics = Physics(self.device.world.shape.name, network, batch_size)
        self._plan = Plan(network, batch_size, workers, samples=10**9)

    def __call__(self, mode: PowerMode) -> ModeMeasurement:
        control = self.device.control()
        if control is None:
            raise UsageError(f"{self.device.spec.name} has no power modes that can be set")
        world = self.device.world
        began_ns = world.now_ns()
        with control.hold(Setting(mode)):
            settled = settle(self.device, mode)
            measured = self.train(mode)
        return ModeMeasurement(
            mode=mode,
            time_s=measured["time_s"],
            power_w=measured["power_w"],
            origin=Origin.SIMULATED,
            time_mean_s=measured["time_mean_s"],
            peak_power_w=measured["peak_power_w"],
            temp_c=settled.temp_c,
            cost_s=(world.now_ns() - began_ns) / NS_PER_S,
        )

    def train(self, mode: PowerMode) -> dict[str, float]:
        """Train the minibatches in the mode now in force; return time and power of the steady ones."""
        world = self.device.world
        self._calls += 1
        world.catch_up()
        seed = self._seed * 1_000_003 + self._calls
        training = Training(self._plan, self._physics, world.mode(), world.timeline, world.now_ns(), seed)
        training.cached = 1.0
        trained = training.epoch(0, WARM_UP + self.minibatches)
        dones = [(row["done_us"] or 0) for row in trained.minibatches]
        times = [
            (after - before) / US_PER_S for before, after in zip(dones[WARM_UP - 1 :], dones[WARM_UP:], strict=False)
        ]
        powers = self._powers(dones[WARM_UP - 1] * 1000, dones[-1] * 1000)
        world.sleep(max(0, trained.ended_ns - world.now_ns()) / NS_PER_S)
        return {
            "time_s": statistics.median(times),
            "time_mean_s": statistics.fmean(times),
            "power_w": statistics.median(powers),
            "peak_power_w": max(powers),
        }

    def _powers(self, from_ns: int, until_ns: int) -> list[float]:
        """Return the total power at each refresh of the sensor between two instants, at least one."""
        world, source = self.device.world, self.device.total_power()
        probe = next((each for each in self.device.probes() if each.name == "rails"), None)
        if source is None or probe is None:
            return [math.nan]
        columns = [list(probe.columns).index(name) for name in source.columns]
        world.sleep(max(0, from_ns - world.now_ns()) / NS_PER_S)
        found: list[float] = []
        # A window shorter than a refresh still has the reading that ends it.
        while not found or world.now_ns() < until_ns:
            world.sleep(probe.period_s)
            row = probe.read()
            found.append(sum(row[index] for index in columns))
        probe.close()
        return found
