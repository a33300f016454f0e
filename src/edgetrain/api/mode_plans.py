"""Writes a plan of modes to profile: as a CSV, or as a campaign plan that runs as it is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from edgetrain.api.boards import is_live
from edgetrain.documents import to_document
from edgetrain.errors import UsageError
from edgetrain.prediction import MINIBATCHES, ModeTable, ProfilingPlan, write_table
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_MHZ

WORKERS = 4  # as in the published profiles


@dataclass(frozen=True, slots=True)
class _Factors:
    power_mode: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _CampaignPlan:
    """The keys of a campaign plan that profiling needs; None is left out."""

    name: str
    device: str | None
    network: str | None
    command: tuple[str, ...] | None
    epochs: int | None
    minibatches: int | None
    workers: int | None
    factors: _Factors


def modes_csv(plan: ProfilingPlan) -> str:
    """Return the planned modes as a CSV that `edgetrain predict` reads."""
    return write_table(ModeTable.of_modes([planned.power_mode for planned in plan.modes]))


def campaign_yaml(
    plan: ProfilingPlan,
    device: str | None = None,
    network: str | None = None,
    command: str | Sequence[str] | None = None,
) -> str:
    """Return a campaign plan that trains a network, or runs a command, in each of the planned modes on the device.

    A board of the catalogue is not a device that can be opened: its plan runs on the board at hand (`auto`).
    """
    where = "auto" if device is not None and not is_live(device) else device
    if (network is None) == (command is None):
        raise UsageError("a campaign plan needs to know what to train; give either --network or --command")
    modes = _Factors(tuple(spell_plan_mode(planned.power_mode) for planned in plan.modes))
    if network is not None:
        campaign = _CampaignPlan(f"modes of {network}", where, network, None, 1, MINIBATCHES, WORKERS, modes)
    else:
        words = tuple(shlex.split(command) if isinstance(command, str) else command or ())
        if not words:
            raise UsageError("the command of a campaign plan is empty; give for example --command 'python train.py'")
        campaign = _CampaignPlan(f"modes of {_script_name(words)}", where, None, words, None, None, None, modes)
    known = {key: value for key, value in to_document(campaign).items() if value is not None}
    text: str = yaml.safe_dump(known, sort_keys=False, allow_unicode=True)
    return text if where == device else f"# planned for {device}: run it on that board\n{text}"


def _script_name(words: Sequence[str]) -> str:
    script = next((word for word in words if word.endswith(".py")), words[0])
    return Path(script).stem


def spell_plan_mode(mode: PowerMode) -> str:
    """Spell a mode as campaign plans do: cores/CPU/GPU/memory in MHz; clocks that do not exist are left out."""

    def mhz(hertz: int | None) -> str:
        return "-" if hertz is None else f"{hertz / HZ_PER_MHZ:.10g}"

    words = [str(mode.cores), mhz(mode.cpu_hz), mhz(mode.gpu_hz), mhz(mode.emc_hz)]
    while words[-1] == "-":
        words.pop()
    return "/".join(words)
