"""Measures of power modes: from a table, or by training on a board or a simulated one."""

from __future__ import annotations

from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.api.boards import power_range
from edgetrain.api.records import StoreLike, open_store
from edgetrain.device import open_device
from edgetrain.errors import DeviceError, UsageError, WorkloadError
from edgetrain.prediction import MINIBATCHES, ModeTable, read_table
from edgetrain.recommendation import TableMeasure, measurements_from
from edgetrain.schema import Experiment, Loading, Measure, ModeMeasurement, PowerMode, Workload

WORKERS = 4  # as in the published profiles


def measure_from(
    truth: str | Path | ModeTable | None = None,
    board: str | None = None,
    network: str | None = None,
    store: StoreLike = None,
) -> Measure | None:
    """Return what measures a mode: a table (`truth`), or a board that trains a network; None where neither is given."""
    if truth is not None and board is not None:
        raise UsageError("give either --truth or --measure-on, not both")
    if truth is not None:
        return TableMeasure(truth if isinstance(truth, ModeTable) else read_table(truth, need_results=True))
    if board is None:
        return None
    if network is None:
        raise UsageError("measuring on a board needs to know what to train; give --network")
    return board_measure(board, network, store)


def board_measure(board: str, network: str, store: StoreLike = None) -> Measure:
    """Return what measures modes of a board by training a network on it: `sim:orin-agx`, `jetson` or `auto`."""
    # Imported here: a laptop that only reads tables need not load the half that touches hardware.
    from edgetrain.runner import SimulatedMeasure, execute

    if board.partition(":")[0] == "sim":
        return SimulatedMeasure(board, network)
    if open_device(board).control() is None:
        raise UsageError(
            f"{board} has no power modes that can be set, so none can be measured; use --truth or sim:orin-agx"
        )
    records = open_store(store)
    possible = power_range(board)

    def train(mode: PowerMode) -> ModeMeasurement:
        experiment = Experiment(Workload(network), Loading(WORKERS), epochs=1, minibatches=MINIBATCHES, power_mode=mode)
        try:
            run = execute(experiment, board, records).run
        except WorkloadError as error:
            raise DeviceError(f"could not measure {mode}: {error}") from error
        found = measurements_from([summarize(records.open(run))])
        if not found:
            raise DeviceError(f"the run {run} has no power reading or no mode, so it cannot be compared with a limit")
        watts = found[0].power_w
        if not possible.least_w <= watts <= possible.most_w:
            raise DeviceError(f"the run {run} measured {watts:g} W, which is impossible on {possible.board or board}")
        return found[0]

    return train
