"""Refuses an experiment that makes no sense, before anything is started."""

from __future__ import annotations

import shutil

from edgetrain.errors import UsageError
from edgetrain.runner.workloads import find_workload
from edgetrain.schema import SECTIONS, Experiment, settings_of
from edgetrain.workload import is_own


def check(experiment: Experiment, simulated: bool = False) -> None:
    """Raise UsageError with the values and what would be right; a simulated board has its own list of networks."""
    parts = dict(zip(SECTIONS, (experiment.workload, experiment.loading, experiment.limits, experiment), strict=True))
    for kind, part in parts.items():
        for declared in settings_of(kind):
            try:
                declared.read(getattr(part, declared.name))
            except UsageError as error:
                raise UsageError(f"{declared.option} {error}") from None
    if experiment.compute == "paced" and experiment.preset is None and experiment.compute_ms is None:
        raise UsageError("paced compute needs the duration of a step in milliseconds: --compute paced --compute-ms 30")
    if experiment.python is not None:
        _check_python(experiment.python, simulated, experiment.workload.command is not None)
    network = experiment.workload.network
    if simulated or experiment.workload.command is not None:
        return
    if not is_own(network):
        find_workload(network)
    elif not all(part.isidentifier() for part in network.replace(":", ".").split(".")):
        raise UsageError(f"{network!r} names no function; write module:function, for example train:make_workload")


def _check_python(python: str, simulated: bool, is_command: bool) -> None:
    if simulated:
        raise UsageError(f"--python {python!r} has no effect on a simulated board, which trains nothing; leave it out")
    if is_command:
        raise UsageError(f"--python {python!r} has no effect on a command; name the Python in the command itself")
    if shutil.which(python) is None:
        raise UsageError(
            f"--python {python!r} cannot be run; give a Python that has torch, for example /usr/bin/python3"
        )
