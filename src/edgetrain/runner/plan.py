"""A plan: which experiments, how often, in which order. Pure; carrying it out is `campaign`'s business."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgetrain.errors import BadTable, EdgetrainError, UsageError
from edgetrain.lab import media, presets, read_limits
from edgetrain.runner.plan_reading import Lines, Place, read_document
from edgetrain.runner.plan_settings import LIMITS
from edgetrain.schema import Experiment, Loading, PowerMode, Workload
from edgetrain.workload.catalog import entry, is_own

MOST_EXPERIMENTS = 100_000
ReadMode = Callable[[str], PowerMode]
_WORKLOAD = ("network", "dataset", "dataset_scale", "batch_size", "learning_rate", "optimizer")
_LOADING = ("workers", "prefetch", "pin_memory", "persistent", "start_method", "cache")
_PLAIN = ("epochs", "timing", "compute", "compute_ms", "preset", "shrink", "seed", "baseload_s")


@dataclass(frozen=True, slots=True)
class Settle:
    """What must be quiet before a run starts."""

    busy: float | None = None
    temp_c: float | None = None
    wait_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One run to be made: its key is what the journal knows it by."""

    key: str
    position: int
    repeat: int
    factors: Mapping[str, Any]
    experiment: Experiment


@dataclass(frozen=True)
class Plan:
    """A grid and listed points over base settings, repeated, in an order."""

    name: str
    base: Mapping[str, Any]
    factors: Mapping[str, list[Any]] = field(default_factory=dict)
    points: tuple[Mapping[str, Any], ...] = ()
    repeats: int = 1
    order: str = "random"
    order_seed: int = 0
    cool_down_s: float = 0.0
    retries: int = 1
    settle: Settle = field(default_factory=Settle)
    folders: Mapping[str, str] = field(default_factory=dict)  # medium: where the dataset lies on it

    @property
    def id(self) -> str:
        """Return the campaign's id: the same plan is the same campaign, so starting it again resumes it."""
        what = [self.base, self.factors, self.points, self.repeats, self.order, self.order_seed, self.folders]
        digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', self.name).strip('-.') or 'campaign'}-{digest}"

    def settings(self) -> list[dict[str, Any]]:
        """Return the varied settings of every experiment, grid first, then points, each once."""
        grid = [dict(zip(self.factors, values, strict=True)) for values in itertools.product(*self.factors.values())]
        if not self.factors and self.points:
            grid = []
        chosen = []
        for one in [*grid, *map(dict, self.points)]:
            if one not in chosen:
                chosen.append(one)
        return chosen

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
            settings = {**self.base, **varied}
            experiment = build(settings, self.folders, campaign or self.id, varied, repeat, position, read_mode)
            planned.append(Planned(key, position, repeat, varied, experiment))
        return planned


def _by_mode(pairs: list[tuple[int, dict[str, Any]]], read_mode: ReadMode | None) -> list[tuple[int, dict[str, Any]]]:
    """Order by power mode first: boards are slow to switch, and some refuse to go up."""
    if read_mode is None:
        raise UsageError("the plan varies power modes, and this device has none that can be set")
    from edgetrain.runner.modes import visit_order

    modes = {
        str(varied["power_mode"]): read_mode(str(varied["power_mode"])) for _, varied in pairs if "power_mode" in varied
    }
    ranks = {mode: rank for rank, mode in enumerate(visit_order(list(modes.values())))}
    return sorted(
        pairs, key=lambda pair: ranks.get(modes[str(pair[1]["power_mode"])], 0) if "power_mode" in pair[1] else -1
    )


def build(
    settings: Mapping[str, Any],
    folders: Mapping[str, str],
    campaign: str | None,
    factors: Mapping[str, Any],
    repeat: int = 0,
    position: int | None = None,
    read_mode: ReadMode | None = None,
) -> Experiment:
    """Make one experiment of settings."""
    workload = {name: settings[name] for name in _WORKLOAD if name in settings}
    limits = {name: settings[name] for name in LIMITS if name in settings}
    storage = limits.get("storage")
    if storage in folders:
        # A real medium: the dataset lies on it, nothing is emulated.
        workload["dataset"] = folders[str(storage)]
        del limits["storage"]
    mode = settings.get("power_mode")
    if mode is not None:
        if read_mode is None:
            raise UsageError("the plan holds power modes, and this device has none that can be set")
        mode = read_mode(str(mode))
    return Experiment(
        workload=Workload(**workload),
        loading=Loading(**{name: settings[name] for name in _LOADING if name in settings}),
        max_minibatches=settings.get("minibatches"),
        limits=limits or None,
        power_mode=mode,
        campaign=campaign,
        factors=dict(factors),
        repeat=repeat,
        position=position,
        **{name: settings[name] for name in _PLAIN if name in settings},
    )


def read_plan(path: Path | str) -> Plan:
    """Read a plan from a file; every mistake is named with its line."""
    path = Path(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise BadTable(f"cannot read the plan {path}: {reason}; give the path of a YAML file") from error
    return plan_from_text(text, path.name)


def plan_from_text(text: str, name: str = "plan") -> Plan:
    """Read a plan from YAML text."""
    found = read_document(text, name)
    lines: Lines = found["lines"]
    keys = ("repeats", "order", "order_seed", "cool_down_s", "retries")
    plan = Plan(
        found["name"],
        found["base"],
        found["factors"],
        tuple(found["points"]),
        settle=Settle(**found["settle"]),
        folders=found["folders"],
        **{key: found[key] for key in keys if key in found},
    )
    count = plan.repeats * (len(plan.points) + _product(plan.factors))
    if count > MOST_EXPERIMENTS:
        raise lines.mistake(("factors",), f"the grid has {count} runs, more than {MOST_EXPERIMENTS}")
    _check_names(plan, lines)
    return plan


def _product(factors: Mapping[str, list[Any]]) -> int:
    count = 1
    for values in factors.values():
        count *= len(values)
    return count


def _check_names(plan: Plan, lines: Lines) -> None:
    """Check what only the rooms below know: networks, media, presets, sizes."""
    places: list[tuple[Place, str, Any]] = [((name,), name, value) for name, value in plan.base.items()]
    places += [(("factors", name, at), name, value) for name, values in plan.factors.items()
               for at, value in enumerate(values)]  # fmt: skip
    places += [(("points", at, name), name, value) for at, point in enumerate(plan.points)
               for name, value in point.items()]  # fmt: skip
    for place, name, value in places:
        if name == "network" and not is_own(value):
            try:
                entry(value)
            except EdgetrainError as error:
                raise lines.mistake(place, str(error)) from error
        elif name == "storage" and value not in plan.folders and value not in media():
            known = ", ".join([*plan.folders, *media()])
            raise lines.mistake(place, f"there is no storage medium '{value}'; known: {known}")
        elif name == "preset" and value not in presets():
            raise lines.mistake(place, f"there is no preset '{value}'; known: {', '.join(presets())}")
        elif name in LIMITS and name not in ("storage", "ram"):
            try:
                read_limits({name: value})
            except EdgetrainError as error:
                raise lines.mistake(place, str(error)) from error
