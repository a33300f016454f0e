"""Carries out one experiment: checks it, gets its dataset, begins its record, and runs it to an end.

    executed = execute(experiment, "auto", FolderStore(), progress)

The experiment's workload is a network (ours or the user's) or a user's command; both are recorded the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.device import Device, open_device
from edgetrain.errors import UsageError
from edgetrain.lab import as_board, limits_for
from edgetrain.record import FolderStore
from edgetrain.runner.checks import check
from edgetrain.runner.command_trainee import CommandTrainee, check_command
from edgetrain.runner.manifest import current_command, first_manifest
from edgetrain.runner.recording import Progress, Recording, Trainee
from edgetrain.runner.signals import stop_on_signal
from edgetrain.runner.simulated import simulate_run
from edgetrain.runner.simulated_command import SimulatedLoad
from edgetrain.runner.user import SudoUser, give, owned_by, sudo_user
from edgetrain.runner.workload_trainee import WorkloadTrainee
from edgetrain.runner.workloads import dataset_recipe, find_workload, generate_dataset, survey_dataset
from edgetrain.schema import DEFAULT_BATCH_SIZE, Experiment
from edgetrain.workload import is_own


@dataclass(frozen=True, slots=True)
class Executed:
    """The record of a run, and the exit status of a user's command (0 for a built-in workload)."""

    run: str
    status: int = 0


@dataclass(frozen=True, slots=True)
class DatasetUsed:
    """Where the dataset lies, whether we generated it, and its files where its layout is known."""

    path: str | None
    generated: bool = False
    files: tuple[str, ...] = ()


def execute(
    experiment: Experiment,
    device_name: str = "auto",
    store: FolderStore | None = None,
    progress: Progress | None = None,
    command: Sequence[str] | None = None,
    stdout: int | None = None,
    like: str | None = None,
) -> Executed:
    """Carry out the experiment and record it.

    `command` is what the record names as the command that made it; `stdout` the descriptor a user's command prints to;
    `like` the network whose response a simulated board shows for a user's command.
    """
    store = store or FolderStore()
    report = progress or (lambda stage, done, total: None)
    said = tuple(command or current_command())
    simulated = device_name.partition(":")[0] == "sim"
    check(experiment, simulated)
    user = sudo_user()
    with owned_by(user, store.path):
        if simulated and experiment.workload.command is None:
            with stop_on_signal():
                return Executed(simulate_run(experiment, device_name, store, report, said))
        if not sys.platform.startswith("linux"):
            raise UsageError(f"training is measured on Linux, and this is {sys.platform}; records can be read here")
        if experiment.workload.command is not None:
            return _execute_command(experiment, device_name, store, report, stdout, like, user)
        return _execute_workload(experiment, device_name, store, report, said, user)


def _execute_workload(
    experiment: Experiment,
    device_name: str,
    store: FolderStore,
    progress: Progress,
    said: tuple[str, ...],
    user: SudoUser | None,
) -> Executed:
    experiment = as_board(experiment)
    device = open_device(device_name)
    experiment, dataset = with_dataset(experiment, store, progress, user)
    manifest = first_manifest(experiment, device, said)
    writer = store.create(manifest)
    trainee = WorkloadTrainee(experiment, writer.path, dataset.generated, user)
    recording = Recording(experiment, device, device_name, writer, manifest, progress, trainee, user=user)
    with stop_on_signal():
        recording.carry_out(limits_for(experiment), dataset.path, dataset.files)
    return Executed(writer.id)


def _execute_command(
    experiment: Experiment,
    device_name: str,
    store: FolderStore,
    progress: Progress,
    stdout: int | None,
    like: str | None,
    user: SudoUser | None,
) -> Executed:
    command = experiment.workload.command or ()
    check_command(command)
    dataset = experiment.workload.dataset
    if dataset is not None and not Path(dataset).exists():
        raise UsageError(f"there is no dataset at {dataset}")
    experiment = as_board(experiment)
    device: Device = open_device(device_name)
    board = SimulatedLoad.of(device_name, device, experiment, like)
    if board is not None and experiment.limits:
        raise UsageError(f"lab limits do not apply to a simulated board ({experiment.limits}); leave them out")
    manifest = first_manifest(experiment, device, command)
    writer = store.create(manifest)
    trainee: Trainee = CommandTrainee(experiment, writer.path, stdout, board, user)
    sampled = board.sampled_device if board else device_name
    recording = Recording(experiment, device, sampled, writer, manifest, progress, trainee, user=user)
    with stop_on_signal():
        ending = recording.carry_out(limits_for(experiment), dataset, ())
    return Executed(writer.id, ending.status or 0)


def with_dataset(
    experiment: Experiment, store: FolderStore, progress: Progress, user: SudoUser | None
) -> tuple[Experiment, DatasetUsed]:
    """Find or generate the dataset of a network of the catalogue; a user's own network brings its own."""
    workload = experiment.workload
    if is_own(workload.network):
        return experiment, DatasetUsed(workload.dataset)
    known = find_workload(workload.network)
    experiment = replace(experiment, workload=replace(workload, network=known.name))
    path = workload.dataset
    if path is None:
        recipe = dataset_recipe(known, workload.dataset_scale)
        folder = store.data / recipe.folder
        try:
            generate_dataset(folder, recipe, lambda done, total: progress("dataset", done, total))
        finally:
            if user is not None:
                give(folder, user)
        path = str(folder)
    found = survey_dataset(path, known)
    batch_size = workload.batch_size or DEFAULT_BATCH_SIZE
    if found.samples < batch_size:
        raise UsageError(
            f"the dataset has {found.samples} samples, fewer than one minibatch of {batch_size}; lower --batch-size or "
            "give a larger dataset"
        )
    return experiment, DatasetUsed(path, workload.dataset is None, tuple(found.files))
