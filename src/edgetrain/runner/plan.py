"""A plan: which experiments, how often, in which order. Pure; `campaign` carries it out."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from edgetrain.documents import to_document
from edgetrain.errors import UsageError
from edgetrain.runner.command_trainee import command_label
from edgetrain.runner.modes import visit_order
from edgetrain.schema import Experiment, PowerMode, Scalar, Setting, all_settings, build_experiment, settings_of

MAX_EXPERIMENTS = 100_000
ReadMode = Callable[[str], PowerMode]


@dataclass(frozen=True, slots=True)
class Settle:
    """What must be quiet before a run starts."""

    busy: Annotated[
        float | None, Setting("Largest share of the CPUs that other processes may use.", above=0, maximum=1)
    ] = None
    temp_c: Annotated[float | None, Setting("Highest temperature, in °C.", above=0, maximum=150)] = None
    wait_s: Annotated[float, Setting("Longest wait for that, in s; the run then starts with a doubt.", minimum=0)] = (
        60.0
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Which boards of a fleet carry the plan out, and what becomes of the runs of a board that is lost."""

    board: Annotated[str | None, Setting("Only boards of this kind: orin-nano.")] = None
    medium: Annotated[str | None, Setting("Only boards with this storage medium in the inventory: ssd.")] = None
    units: Annotated[tuple[str, ...] | None, Setting("Only these boards, by their names in the inventory.")] = None
    label: Annotated[tuple[str, ...] | None, Setting("Only boards with all of these labels: [rack=1, cooled].")] = None
    every_unit: Annotated[bool, Setting("Make every run on every fitting board, instead of on any one.")] = False
    when_lost: Annotated[
        str,
        Setting("What becomes of the open run of a board that is lost.", choices=("wait", "elsewhere")),
    ] = "wait"
    wait_s: Annotated[float, Setting("With elsewhere: how long the board may be disconnected, in s.", minimum=0)] = 60.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One run to be made: the journal knows it by its key."""

    key: str
    position: int
    repeat: int
    factors: Mapping[str, Scalar]
    experiment: Experiment


@dataclass(frozen=True)
class Plan:
    """A grid and listed points over base settings, repeated, in an order."""

    name: Annotated[str, Setting("Name of the campaign.")]
    base: Mapping[str, Scalar] = field(default_factory=dict)
    factors: Mapping[str, list[Scalar]] = field(default_factory=dict)
    points: tuple[Mapping[str, Scalar], ...] = ()
    device: Annotated[str | None, Setting("Device to run on: auto, host, jetson, or sim:orin-agx (simulated).")] = None
    command: Annotated[
        tuple[str, ...] | None,
        Setting('Training script instead of a network: [python, train.py, --lr, "{lr}"]; {lr} is then a factor.'),
    ] = None
    like: Annotated[str | None, Setting("With command, on a simulated board: the network whose response it shows.")] = (
        None
    )
    repeats: Annotated[int, Setting("How often each experiment is run.", minimum=1, maximum=10_000)] = 1
    order: Annotated[str, Setting("Order of the runs.", choices=("random", "listed"))] = "random"
    order_seed: Annotated[int, Setting("Random seed of the order.", minimum=0)] = 0
    cool_down_s: Annotated[float, Setting("Pause between runs, in s.", minimum=0)] = 0.0
    retries: Annotated[int, Setting("How often a failed run is tried again, at the end.", minimum=0)] = 1
    settle: Settle = field(default_factory=Settle)
    folders: Mapping[str, str] = field(default_factory=dict)  # medium: where the dataset lies on it
    place: Placement = field(default_factory=Placement)  # on a fleet

    @property
    def id(self) -> str:
        """The campaign's id: the same plan is the same campaign, so starting it again resumes it."""
        what: list[Any] = [
            self.base,
            self.factors,
            self.points,
            self.repeats,
            self.order,
            self.order_seed,
            self.folders,
        ]
        if self.command is not None or self.device is not None:
            what += [self.command, self.device, self.like]
        if self.place != Placement():
            what.append(to_document(self.place))
        digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
        return f"{slug(self.name)}-{digest}"

    @property
    def varies_modes(self) -> bool:
        """Whether any run holds a power mode."""
        return "power_mode" in {*self.factors, *self.base, *(name for point in self.points for name in point)}

    @property
    def count(self) -> int:
        """How many runs the plan has at most."""
        product = 1
        for values in self.factors.values():
            product *= len(values)
        return self.repeats * (len(self.points) + product)

    def settings(self) -> list[dict[str, Scalar]]:
        """Return the varied settings of every experiment, grid first, then points, each once."""
        grid = [dict(zip(self.factors, values, strict=True)) for values in itertools.product(*self.factors.values())]
        if not self.factors and self.points:
            grid = []
        chosen: dict[str, dict[str, Scalar]] = {}
        for one in [*grid, *map(dict, self.points)]:
            chosen.setdefault(json.dumps(one, sort_keys=True, default=str), one)
        return list(chosen.values())

    def runs(self, campaign: str | None = None, read_mode: ReadMode | None = None) -> list[Planned]:
        """Return every run in the order it will be made; `read_mode` knows the board's power modes by name."""
        pairs = [(repeat, one) for repeat in range(self.repeats) for one in self.settings()]
        if self.order == "random":
            random.Random(self.order_seed).shuffle(pairs)
        if "power_mode" in self.factors:
            pairs = _by_mode(pairs, read_mode)
        planned = []
        for position, (repeat, varied) in enumerate(pairs):
            key = json.dumps([varied, repeat], sort_keys=True, default=str)
            experiment = self._build(varied, campaign or self.id, repeat, position, read_mode)
            planned.append(Planned(key, position, repeat, varied, experiment))
        return planned

    def _build(
        self,
        varied: Mapping[str, Scalar],
        campaign: str,
        repeat: int,
        position: int,
        read_mode: ReadMode | None,
    ) -> Experiment:
        settings: dict[str, Scalar] = {**self.base, **varied}
        spelled_out = {name: str(value) for name, value in settings.items()}
        storage = settings.get("storage")
        if storage in self.folders:
            # A real medium: the dataset lies on it, nothing is emulated.
            settings["dataset"] = self.folders[str(storage)]
            del settings["storage"]
        mode, spelled = None, settings.pop("power_mode", None)
        if spelled is not None:
            if read_mode is None:
                raise UsageError("the plan holds power modes, and this device has none that can be set")
            mode = read_mode(str(spelled))
        command = None
        if self.command is not None:
            command = tuple(_filled(word, spelled_out) for word in self.command)
            settings = {name: value for name, value in settings.items() if name in all_settings()}
            settings["network"] = command_label(command)
        return build_experiment(settings, mode, command, campaign, varied, repeat, position)


PLAN_SETTINGS = {declared.name: declared for declared in settings_of(Plan)}
PLACE_SETTINGS = {declared.name: declared for declared in settings_of(Placement)}
SETTLE_SETTINGS = {declared.name: declared for declared in settings_of(Settle)}


def slug(name: str) -> str:
    """Return a name as it may stand in a path."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:64] or "campaign"


def placeholders(command: tuple[str, ...] | None) -> set[str]:
    """Return the names in braces that a command leaves to be filled in; `{dataset}` is filled in by the run."""
    found: set[str] = set()
    for word in command or ():
        try:
            found |= {name for _, name, _, _ in string.Formatter().parse(word) if name is not None}
        except ValueError:
            continue  # a lone brace: the word stays as it is
    return {name for name in found if name.isidentifier()} - {"dataset"}


def _filled(word: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` where the name is known; every other brace stays."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", lambda match: values.get(match[1], match[0]), word)


def _by_mode(
    pairs: list[tuple[int, dict[str, Scalar]]], read_mode: ReadMode | None
) -> list[tuple[int, dict[str, Scalar]]]:
    """Order by power mode first: boards are slow to switch, and some refuse to go up."""
    if read_mode is None:
        raise UsageError("the plan varies power modes, and this device has none that can be set")
    modes = {
        str(varied["power_mode"]): read_mode(str(varied["power_mode"])) for _, varied in pairs if "power_mode" in varied
    }
    ranks = {mode: rank for rank, mode in enumerate(visit_order(list(modes.values())))}
    return sorted(
        pairs, key=lambda pair: ranks.get(modes[str(pair[1]["power_mode"])], 0) if "power_mode" in pair[1] else -1
    )
