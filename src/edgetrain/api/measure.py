"""Measuring: train a workload and record it; the same for an unmodified script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.api.records import StoreLike, open_store
from edgetrain.device import open_device
from edgetrain.errors import UsageError
from edgetrain.record import Run
from edgetrain.runner import Progress, check_command, command_label
from edgetrain.runner import execute as carry_out
from edgetrain.schema import Experiment, PowerMode, Scalar, all_settings, build_experiment


@dataclass(frozen=True)
class ProfiledRun:
    """The record of a command, and the exit status the command ended with."""

    run: Run
    status: int


def read_power_mode(text: Scalar | PowerMode, device: str) -> PowerMode | None:
    """Return a power mode of a device by its stock name or id, or as cores/CPU/GPU/memory clocks in MHz."""
    if text is None or isinstance(text, PowerMode):
        return text
    space = open_device(device).modes()
    if space is None:
        raise UsageError(f"--power-mode needs a board with power modes; {device} has none that can be set")
    return space.find_mode(str(text))


def execute(
    workload: str | Experiment,
    *,
    device: str = "auto",
    store: StoreLike = None,
    progress: Progress | None = None,
    power_mode: Scalar | PowerMode = None,
    campaign: str | None = None,
    **settings: Scalar,
) -> Run:
    """Train a network and record everything.

    `workload` is a name of the catalogue, `module:function` of your own, or a whole Experiment. `settings` are those of
    `edgetrain run`, by the same names: workers, batch_size, epochs, storage, ...
    """
    place = open_store(store)
    if isinstance(workload, Experiment):
        experiment = workload
    else:
        mode = read_power_mode(power_mode, device)
        experiment = build_experiment({"network": workload, **_with_path(settings)}, mode, campaign=campaign)
    return place.open(carry_out(experiment, device, place, progress).run)


def profile(
    command: Sequence[str],
    *,
    device: str = "auto",
    store: StoreLike = None,
    progress: Progress | None = None,
    power_mode: Scalar | PowerMode = None,
    campaign: str | None = None,
    like: str | None = None,
    stdout: int | None = None,
    **settings: Scalar,
) -> ProfiledRun:
    """Run an unmodified training command and record it; its output and exit status stay as they are.

    `settings` are those of `edgetrain profile`, by the same names: dataset, cache, timing, storage, cores, ... On a
    simulated board (`sim:orin-agx`) the script really runs, its steps stretched as the board's power mode asks; `like`
    names the network whose response is used.
    """
    words = tuple(str(word) for word in command)
    check_command(words)
    known = all_settings()
    for name in settings:
        if name in known and not known[name].about.for_commands:
            raise UsageError(f"{known[name].option} has no effect on a command; write it into the command itself")
    mode = read_power_mode(power_mode, device)
    asked: dict[str, Scalar] = {"network": command_label(words), **_with_path(settings)}
    experiment = build_experiment(asked, mode, words, campaign=campaign)
    place = open_store(store)
    done = carry_out(experiment, device, place, progress, stdout=stdout, like=like)
    return ProfiledRun(place.open(done.run), done.status)


def _with_path(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the settings with the path of the dataset made absolute, so that the record can be read from anywhere."""
    given = settings.get("dataset")
    return {**settings, "dataset": None if given is None else str(Path(str(given)).expanduser().absolute())}
