"""Reads a plan from YAML so that every mistake can be named with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from edgetrain.errors import BadTable, UsageError
from edgetrain.runner.plan_settings import PLAN, SETTINGS, SETTLE, Setting

_MOST_BYTES = 1_000_000
_MOST_DEPTH = 6

Place = tuple[Any, ...]


class Lines:
    """Where in the file each value stands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.of: dict[Place, int] = {}

    def mistake(self, place: Place, text: str) -> BadTable:
        """Return the error that names file and line."""
        while place and place not in self.of:
            place = place[:-1]
        line = self.of.get(place, 1)
        return BadTable(f"{self.name} line {line}: {text}", file=self.name, line=line)


def load(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """Return a YAML document and the lines of everything in it."""
    lines = Lines(name)
    if len(text.encode()) > _MOST_BYTES:
        raise BadTable(f"{name} is over 1 MB: not a plan")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        raise BadTable(f"{name} line {line}: not YAML: {problem}", file=name, line=line) from error
    if root is None:
        raise BadTable(f"{name} is empty; a plan has at least a name and a network")
    if not isinstance(root, yaml.MappingNode):
        raise BadTable(f"{name} line 1: a plan is a mapping, `name: ...` on its first line")
    loader = yaml.SafeLoader("")
    try:
        document = _value(root, (), lines, loader, 0)
    except (yaml.YAMLError, ValueError) as error:
        raise BadTable(f"{name}: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    assert isinstance(document, dict)
    return document, lines


def _value(node: yaml.Node, place: Place, lines: Lines, loader: yaml.SafeLoader, depth: int) -> Any:
    lines.of[place] = node.start_mark.line + 1
    if depth > _MOST_DEPTH:
        raise lines.mistake(place, "nested too deep for a plan")
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise lines.mistake(place, "a key must be a word")
            key = loader.construct_object(key_node)
            here = (*place, key)
            lines.of[here] = key_node.start_mark.line + 1
            if key in found:
                raise lines.mistake(here, f"'{key}' stands here a second time")
            found[key] = _value(value_node, here, lines, loader, depth + 1)
            lines.of[here] = key_node.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, at), lines, loader, depth + 1) for at, item in enumerate(node.value)]
    return loader.construct_object(node)


def unknown(lines: Lines, place: Place, name: Any, known: Iterable[str]) -> BadTable:
    """Return the error for a name nobody knows, with the nearest one that is known."""
    near = difflib.get_close_matches(str(name), list(known), 1, 0.6)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(known))}"
    return lines.mistake((*place, name), f"there is no setting '{name}'{hint}")


def checked(lines: Lines, place: Place, setting: Setting, value: Any) -> Any:
    """Read one value, or name it with its line."""
    try:
        return setting.read(value)
    except UsageError as error:
        text = str(error)
        raise lines.mistake(place, f"{place[-2] if isinstance(place[-1], int) else place[-1]} {text}") from error


def mapping(lines: Lines, place: Place, value: Any, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Read a mapping of settings."""
    if not isinstance(value, dict):
        raise lines.mistake(place, f"{place[-1]} must be a mapping of names to values")
    found = {}
    for name, item in value.items():
        if name not in settings:
            raise unknown(lines, place, name, settings)
        found[name] = checked(lines, (*place, name), settings[name], item)
    return found


def read_document(text: str, name: str) -> dict[str, Any]:
    """Read a whole plan; return base, factors, points and the rest, every value checked."""
    document, lines = load(text, name)
    known = {*PLAN, *SETTINGS, "factors", "points", "folders", "settle"}
    plan: dict[str, Any] = {"base": {}, "factors": {}, "points": [], "folders": {}, "settle": {}, "lines": lines}
    for key, value in document.items():
        if key in PLAN:
            plan[key] = checked(lines, (key,), PLAN[key], value)
        elif key in SETTINGS:
            if isinstance(value, list):
                raise lines.mistake((key,), f"{key} has several values here; put it under `factors:` to vary it")
            plan["base"][key] = checked(lines, (key,), SETTINGS[key], value)
        elif key not in known:
            raise unknown(lines, (), key, known)
    if "factors" in document:
        plan["factors"] = _factors(lines, document["factors"])
    if "points" in document:
        points = document["points"]
        if not isinstance(points, list) or not points:
            raise lines.mistake(("points",), "points is a list of mappings, one an experiment")
        plan["points"] = [mapping(lines, ("points", at), point, SETTINGS) for at, point in enumerate(points)]
    if "folders" in document:
        folders = document["folders"]
        if not isinstance(folders, dict) or not all(isinstance(path, str) for path in folders.values()):
            raise lines.mistake(("folders",), "folders maps a medium's name to the folder where the dataset lies on it")
        for medium, path in folders.items():
            if not Path(path).expanduser().is_dir():
                raise lines.mistake(("folders", medium), f"{path} is not a folder; mount the medium first")
        plan["folders"] = {str(medium): str(Path(path).expanduser()) for medium, path in folders.items()}
    if "settle" in document:
        plan["settle"] = mapping(lines, ("settle",), document["settle"], SETTLE)
    if not plan.get("name"):
        raise lines.mistake((), "the plan has no name; begin it with `name: my-campaign`")
    for what in [plan["base"], *plan["points"]]:
        if "network" in what or "network" in plan["factors"] or "network" in plan["base"]:
            break
    else:
        raise lines.mistake((), "the plan trains nothing; add `network: mobilenet_v3`")
    return plan


def _factors(lines: Lines, value: Any) -> dict[str, list[Any]]:
    if not isinstance(value, dict) or not value:
        raise lines.mistake(("factors",), "factors maps settings to lists of values, for example workers: [0, 1, 2]")
    factors: dict[str, list[Any]] = {}
    for name, items in value.items():
        if name not in SETTINGS:
            raise unknown(lines, ("factors",), name, SETTINGS)
        if not isinstance(items, list) or not items:
            raise lines.mistake(("factors", name), f"{name} must be a list of values, for example [{items}]")
        read = [checked(lines, ("factors", name, at), SETTINGS[name], item) for at, item in enumerate(items)]
        if any(read.index(item) != at for at, item in enumerate(read)):
            raise lines.mistake(("factors", name), f"{name} has the same value twice")
        factors[name] = read
    return factors
