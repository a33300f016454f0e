"""What a board does for one federated training: finds out which it is, holds the mode, trains recorded, reports.

Nothing here needs Flower: the mod hands over the node's config, the request and what trains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from edgetrain.analysis import energy_between
from edgetrain.device import open_device
from edgetrain.errors import DeviceError, EdgetrainError, UsageError
from edgetrain.federated.messages import BoardIdentity, RecordValues, TrainingReport, TrainingRequest
from edgetrain.record import FolderStore, read_run
from edgetrain.runner import RecordedCall, record_call
from edgetrain.schema import Experiment, Origin, Workload

T = TypeVar("T")

LABEL = "flower-client"  # the network's name in the record, unless the node config has `network`


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A SuperNode's node config as far as it concerns us: `--node-config 'unit="nano-3" device="auto"'`.

    `unit` is the board's name; without it the serial number, else Flower's node ID, which changes when a node without
    a key comes back. `network` names the recorded network, and on a simulated board the response to show.
    """

    unit: str | None = None
    device: str = "auto"
    store: str | None = None
    network: str | None = None

    @classmethod
    def read(cls, values: RecordValues) -> NodeSettings:
        """Read the node config; other keys are the user's."""
        found = {key: str(values[key]) for key in ("unit", "device", "store", "network") if key in values}
        return replace(cls(), **found)

    def identity(self, node_id: int) -> BoardIdentity:
        """Return which board this is."""
        spec = open_device(self.device).spec
        unit = self.unit or spec.serial or f"node-{node_id}"
        return BoardIdentity(unit, self.device, spec.name)


@dataclass(frozen=True, slots=True)
class TrainedCall(Generic[T]):
    """What the training returned, and the report about it."""

    result: T
    report: TrainingReport


def train_on_board(
    node: NodeSettings,
    node_id: int,
    request: TrainingRequest,
    train: Callable[[], T],
    clock_s: Callable[[], float] = time.monotonic,
) -> TrainedCall[T]:
    """Train in the mode asked for, recorded, and report seconds and joules.

    Where the mode cannot be held or nothing can be recorded, the training goes on without, and the report says so:
    a round is worth more than its measurement. An error of the training itself is raised.
    """
    began_s = clock_s()
    guarded = _Guarded(train)
    identity = node.identity(node_id)
    doubts: list[str] = []
    for mode in (request.mode, None) if request.mode is not None else (None,):
        experiment = Experiment(Workload(node.network or LABEL, command=("flower",)), power_mode=mode)
        store = FolderStore(Path(node.store).expanduser()) if node.store else None
        try:
            call = record_call(guarded, experiment, node.device, store, node.network, request.minibatches)
        except EdgetrainError as error:
            if guarded.error is not None:
                raise guarded.error from error
            if guarded.began:
                doubts.append(f"trained, but then: {error}")
                break
            if mode is None or not isinstance(error, (DeviceError, UsageError)):
                doubts.append(f"not recorded: {error}")
                break
            doubts.append(f"the mode was not held: {error}")
        else:
            report = _report(identity, call, replace(request, mode=mode), doubts)
            return TrainedCall(call.result, replace(report, setup_s=clock_s() - began_s - report.training_s))
    result = guarded.result() if guarded.began else guarded()
    training_s = guarded.ended_s - guarded.began_s
    report = TrainingReport(identity, training_s, clock_s() - began_s - training_s, doubts=tuple(doubts))
    return TrainedCall(result, report)


class _Guarded(Generic[T]):
    """Makes a call once, and knows whether it was made: a training is never repeated."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self.error: Exception | None = None
        self.began_s = self.ended_s = 0.0

    @property
    def began(self) -> bool:
        return bool(self.began_s)

    def __call__(self) -> T:
        self.began_s = time.monotonic()
        try:
            self._results.append(self._call())
        except Exception as error:
            self.error = error
            raise
        finally:
            self.ended_s = time.monotonic()
        return self._results[0]

    def result(self) -> T:
        """Return what the call returned."""
        return self._results[0]


def _report(
    identity: BoardIdentity, call: RecordedCall[T], request: TrainingRequest, doubts: list[str]
) -> TrainingReport:
    found = TrainingReport(identity, call.seconds, mode=request.mode, run=call.run)
    try:
        run = read_run(call.path)
        energy, reason = energy_between(run, call.began_us, call.ended_us)
    except EdgetrainError as error:
        return replace(found, doubts=(*doubts, f"no energy: {error}"))
    said = [*doubts, *(f"{doubt.kind}: {doubt.text}" for doubt in run.manifest.doubts)]
    if energy is None:
        said.append(f"no energy: {reason}")
    return replace(
        found,
        joules=None if energy is None else energy.joules,
        joules_pm=None if energy is None else energy.pm_j,
        origin=run.manifest.origin or Origin.MEASURED,
        doubts=tuple(said),
    )
