"""Measures a power mode by training on a board: the one at hand, or a simulated one."""

from __future__ import annotations

from pathlib import Path

from edgetrain.device import open_device
from edgetrain.errors import DeviceError, UsageError, WorkloadError
from edgetrain.recommend.records import measurements_from, survey
from edgetrain.runner import execute
from edgetrain.runner.simulated import SimulatedMeasure
from edgetrain.schema import Experiment, Loading, Measure, ModeMeasurement, PowerMode, Workload
from edgetrain.store import Store

WORKERS = 4  # as the published profiles had
MINIBATCHES = 45  # five to warm up and forty to measure, as they did


def board_measure(spec: str, network: str, store: Path | None = None) -> Measure:
    """Return what measures modes of a board by training a network on it: `sim:orin-agx`, `jetson` or `auto`."""
    if spec.partition(":")[0] == "sim":
        return SimulatedMeasure(spec, network)
    if open_device(spec).control() is None:
        raise UsageError(
            f"{spec} has no power modes that can be set, so none can be measured; use --truth or sim:orin-agx"
        )
    records = Store(store)

    def train(mode: PowerMode) -> ModeMeasurement:
        experiment = Experiment(
            Workload(network), Loading(WORKERS), epochs=1, max_minibatches=MINIBATCHES, power_mode=mode
        )
        try:
            run = execute(experiment, spec, records)
        except WorkloadError as error:
            raise DeviceError(f"could not measure {mode}: {error}") from error
        found = measurements_from([survey(records.open(run))])
        if not found:
            raise DeviceError(f"the run {run} has no power reading or no mode, so no limit can be held against it")
        return found[0]

    return train
