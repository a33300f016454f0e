"""Reads a plan from YAML; every mistake is named with its line."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetrain.errors import BadTable, EdgetrainError, UsageError
from edgetrain.lab import media, presets, resolve_limits
from edgetrain.runner.plan import (
    MAX_EXPERIMENTS,
    PLACE_SETTINGS,
    PLAN_SETTINGS,
    SETTLE_SETTINGS,
    Placement,
    Plan,
    Settle,
    placeholders,
)
from edgetrain.runner.workloads import find_workload
from edgetrain.schema import Declared, Limits, Scalar, Setting, all_settings, settings_of
from edgetrain.workload import is_own
from edgetrain.yaml_files import Lines, Place, load_yaml

SECTIONS = ("factors", "points", "folders", "settle", "place")


def read_plan(path: Path | str) -> Plan:
    """Read a plan from a file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise BadTable(f"cannot read the plan {path}: {reason}; give the path of a YAML file") from error
    return plan_from_text(text, path.name)


def plan_from_text(text: str, name: str = "plan") -> Plan:
    """Read a plan from YAML text."""
    document, lines = load_yaml(text, name)
    reader = _PlanReader(document, lines)
    plan = reader.read()
    if plan.count > MAX_EXPERIMENTS:
        raise lines.mistake(("factors",), f"the grid has {plan.count} runs, more than {MAX_EXPERIMENTS}")
    _check_names(plan, lines)
    return plan


class _PlanReader:
    """Checks a document value by value."""

    def __init__(self, document: dict[Any, Any], lines: Lines) -> None:
        self.document, self.lines = document, lines
        self.command: tuple[str, ...] | None = None
        if "command" in document:
            self.command = self._checked(("command",), PLAN_SETTINGS["command"], document["command"])
        self.free = placeholders(self.command)  # names of the command's own, besides settings
        self.known = {**all_settings(), **{name: _anything(name) for name in self.free - set(all_settings())}}

    def read(self) -> Plan:
        document, lines = self.document, self.lines
        own: dict[str, Any] = {}
        base: dict[str, Scalar] = {}
        for key, value in document.items():
            if key in PLAN_SETTINGS:
                own[key] = self._checked((key,), PLAN_SETTINGS[key], value)
            elif key in self.known:
                if isinstance(value, list):
                    raise lines.mistake((key,), f"{key} has several values here; put it under `factors:` to vary it")
                base[key] = self._checked((key,), self.known[key], value)
            elif key not in SECTIONS:
                raise self._unknown((), key, {*PLAN_SETTINGS, *self.known, *SECTIONS})
        if not own.get("name"):
            raise lines.mistake((), "the plan has no name; begin it with `name: my-campaign`")
        factors, points = self._factors(), self._points()
        named: list[Mapping[str, Any]] = [base, factors, *points]
        if self.command is None and not any("network" in each for each in named):
            raise lines.mistake((), "the plan trains nothing; add `network: mobilenet_v3` or a `command:`")
        if self.command is not None and any("network" in each for each in named):
            raise lines.mistake(("command",), "the plan has both a command and a network; keep one")
        for name in sorted(self.free):
            if name in PLAN_SETTINGS or name in SECTIONS:
                raise lines.mistake(
                    ("command",), f"{{{name}}} cannot be filled in, because {name} is a key of plans; rename it"
                )
            if name not in base and name not in factors and not all(name in point for point in points or [{}]):
                raise lines.mistake(
                    ("command",), f"the command leaves {{{name}}} open; give {name} a value or a factor"
                )
        self._check_effects(base, factors, points)
        settle = Settle(**self._mapping(("settle",), document.get("settle", {}), SETTLE_SETTINGS))
        place = Placement(**self._mapping(("place",), document.get("place", {}), PLACE_SETTINGS))
        return Plan(
            base=base, factors=factors, points=points, settle=settle, folders=self._folders(), place=place, **own
        )

    def _check_effects(
        self, base: Mapping[str, Scalar], factors: Mapping[str, list[Scalar]], points: tuple[dict[str, Scalar], ...]
    ) -> None:
        """Refuse settings of a network beside a command: unless the command names them, they would change nothing."""
        if self.command is None:
            return
        places: list[Place] = [(name,) for name in base]
        places += [("factors", name) for name in factors]
        places += [("points", at, name) for at, point in enumerate(points) for name in point]
        for place in places:
            name = place[-1]
            if name not in self.free and not self.known[str(name)].about.for_commands:
                raise self.lines.mistake(
                    place, f"{name} has no effect on a command; put {{{name}}} into the command, or leave {name} out"
                )

    def _factors(self) -> dict[str, list[Scalar]]:
        if "factors" not in self.document:
            return {}
        value, lines = self.document["factors"], self.lines
        if not isinstance(value, dict) or not value:
            raise lines.mistake(("factors",), "factors maps settings to lists of values, such as workers: [0, 1, 2]")
        factors: dict[str, list[Scalar]] = {}
        for name, items in value.items():
            if name not in self.known:
                raise self._unknown(("factors",), name, self.known)
            if not isinstance(items, list) or not items:
                raise lines.mistake(("factors", name), f"{name} must be a list of values, for example [{items}]")
            read = [self._checked(("factors", name, at), self.known[name], item) for at, item in enumerate(items)]
            if any(read.index(item) != at for at, item in enumerate(read)):
                raise lines.mistake(("factors", name), f"{name} has the same value twice")
            factors[name] = read
        return factors

    def _points(self) -> tuple[dict[str, Scalar], ...]:
        if "points" not in self.document:
            return ()
        points = self.document["points"]
        if not isinstance(points, list) or not points:
            raise self.lines.mistake(("points",), "points is a list of mappings, one per experiment")
        return tuple(self._mapping(("points", at), point, self.known) for at, point in enumerate(points))

    def _folders(self) -> dict[str, str]:
        folders, lines = self.document.get("folders", {}), self.lines
        if not isinstance(folders, dict) or not all(isinstance(path, str) for path in folders.values()):
            raise lines.mistake(("folders",), "folders maps a medium to the folder where the dataset lies on it")
        for medium, path in folders.items():
            if not Path(path).expanduser().is_dir():
                raise lines.mistake(("folders", medium), f"{path} is not a folder; mount the medium first")
        return {str(medium): str(Path(path).expanduser()) for medium, path in folders.items()}

    def _mapping(self, place: Place, value: Any, settings: Mapping[str, Declared]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.lines.mistake(place, f"{place[0]} must be a mapping of names to values")
        for name in value:
            if name not in settings:
                raise self._unknown(place, name, settings)
        return {name: self._checked((*place, name), settings[name], item) for name, item in value.items()}

    def _checked(self, place: Place, declared: Declared, value: Any) -> Any:
        """Read one value, or name it with its line."""
        try:
            return declared.read(value)
        except UsageError as error:
            name = place[-2] if isinstance(place[-1], int) else place[-1]
            raise self.lines.mistake(place, f"{name} {error}") from error

    def _unknown(self, place: Place, name: Any, known: Iterable[str]) -> BadTable:
        """Return the error for an unknown name, with the nearest known one."""
        near = difflib.get_close_matches(str(name), list(known), 1, 0.6)
        hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(known))}"
        return self.lines.mistake((*place, name), f"there is no setting '{name}'{hint}")


def _anything(name: str) -> Declared:
    """Return a setting for a placeholder of the command: any single value."""
    return Declared(name, str, False, None, Setting(f"Value for {{{name}}} in the command."))


def _check_names(plan: Plan, lines: Lines) -> None:
    """Check networks, media, presets and sizes by name."""
    places: list[tuple[Place, str, Scalar]] = [((name,), name, value) for name, value in plan.base.items()]
    places += [(("factors", name, at), name, value) for name, values in plan.factors.items()
               for at, value in enumerate(values)]  # fmt: skip
    places += [(("points", at, name), name, value) for at, point in enumerate(plan.points)
               for name, value in point.items()]  # fmt: skip
    limits = {declared.name for declared in settings_of(Limits)}
    for place, name, value in places:
        if name == "network" and not is_own(str(value)):
            with _named(lines, place):
                find_workload(str(value))
        elif name == "storage" and value not in plan.folders and value not in media():
            known = ", ".join([*plan.folders, *media()])
            raise lines.mistake(place, f"there is no storage medium '{value}'; known: {known}")
        elif name == "preset" and value not in presets():
            raise lines.mistake(place, f"there is no preset '{value}'; known: {', '.join(presets())}")
        elif name in limits and name not in ("storage", "ram"):
            with _named(lines, place):
                resolve_limits(Limits(**{name: value}))  # type: ignore[arg-type]


@contextlib.contextmanager
def _named(lines: Lines, place: Place) -> Iterator[None]:
    """Name an error with its line."""
    try:
        yield
    except EdgetrainError as error:
        raise lines.mistake(place, str(error)) from error
