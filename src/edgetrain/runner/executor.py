"""Carries out one experiment: checks it, gets its dataset, begins its record, and runs it to an end.

run = execute(experiment, "auto", Store(), progress)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgetrain.device import open_device
from edgetrain.errors import UsageError
from edgetrain.lab import as_board, limits_for
from edgetrain.runner import manifest as about
from edgetrain.runner.checks import check
from edgetrain.runner.underway import Interrupted, Progress, RunUnderWay
from edgetrain.schema import Experiment
from edgetrain.store import Store
from edgetrain.workload import generate
from edgetrain.workload.catalog import entry, is_own
from edgetrain.workload.datasets import survey

__all__ = ["Interrupted", "Progress", "execute"]


def execute(
    experiment: Experiment,
    device_spec: str = "auto",
    store: Store | None = None,
    progress: Progress | None = None,
    command: Sequence[str] | None = None,
) -> str:
    """Carry out the experiment; return the run's id."""
    store = store or Store()
    tell = progress or (lambda stage, done, total: None)
    if device_spec.startswith("sim:"):
        check(experiment, simulated=True)
        from edgetrain.runner.simulated import simulate_run

        return str(simulate_run(experiment, device_spec, store, tell, command))
    if not sys.platform.startswith("linux"):
        raise UsageError(f"training is measured on Linux, and this is {sys.platform}; records can be read here")
    check(experiment)
    experiment = as_board(experiment)
    limits = limits_for(experiment)
    device = open_device(device_spec)
    files: tuple[str, ...] = ()
    dataset, generated = experiment.workload.dataset, False
    if not is_own(experiment.workload.network):
        known = entry(experiment.workload.network)
        experiment = replace(experiment, workload=replace(experiment.workload, network=known.name))
        generated = dataset is None
        dataset = dataset or str(_generated(experiment, store, tell))
        found = survey(dataset, known)
        files = found.files
        batch_size = experiment.workload.batch_size or 16
        if found.samples < batch_size:
            raise UsageError(
                f"the dataset has {found.samples} samples, fewer than one minibatch of {batch_size}; lower "
                f"--batch-size or give a larger dataset"
            )
    first = about.first_manifest(experiment, device, command or about.ours())
    path = store.create(first)
    run = RunUnderWay(experiment, device, device_spec, path, {**first, "run": path.name}, tell)
    run.carry_out(limits, dataset, generated, files)
    return path.name


def _generated(experiment: Experiment, store: Store, tell: Progress) -> Path:
    workload = experiment.workload
    what = generate.recipe(entry(workload.network), workload.dataset_scale)
    return generate.generate(store.data / what.folder, what, lambda done, total: tell("dataset", done, total))
