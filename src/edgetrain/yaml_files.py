"""Reads YAML files with the line of every value, so that a mistake is named with its file and line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from edgetrain.errors import BadTable

MAX_BYTES = 1_000_000
MAX_DEPTH = 6
Place = tuple[str | int, ...]  # where in the document: ("factors", "workers", 0)
LEAST = {"plan": "a name and a network"}  # what each kind of file must hold; else a name


@dataclass
class Lines:
    """The line of each value in a file."""

    name: str
    of: dict[Place, int] = field(default_factory=dict)

    def mistake(self, place: Place, text: str) -> BadTable:
        """Return the error that names file and line."""
        while place and place not in self.of:
            place = place[:-1]
        line = self.of.get(place, 1)
        return BadTable(f"{self.name} line {line}: {text}", file=self.name, line=line)


def read_yaml(path: Path | str, what: str) -> tuple[dict[Any, Any], Lines]:
    """Read a YAML file that holds a mapping; `what` names its kind in errors."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise BadTable(f"cannot read the {what} {path}: {reason}; give the path of a YAML file") from error
    return load_yaml(text, path.name, what)


def load_yaml(text: str, name: str, what: str = "plan") -> tuple[dict[Any, Any], Lines]:
    """Return a YAML document and the line of everything in it; `what` names its kind in errors."""
    if len(text.encode()) > MAX_BYTES:
        raise BadTable(f"{name} is over 1 MB, too large for a {what}; give the YAML file of a {what}")
    lines = Lines(name)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        raise BadTable(f"{name} line {line}: not YAML: {problem}", file=name, line=line) from error
    except RecursionError as error:
        raise BadTable(f"{name}: nested too deeply for a {what}") from error
    if root is None:
        raise BadTable(f"{name} is empty; a {what} has at least {LEAST.get(what, 'a name')}")
    if not isinstance(root, yaml.MappingNode):
        raise BadTable(f"{name} line 1: a {what} is a mapping, `name: ...` on its first line")
    loader = yaml.SafeLoader("")
    try:
        document = _value(root, (), lines, loader, 0)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise BadTable(f"{name}: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    assert isinstance(document, dict)
    return document, lines


def _value(node: yaml.Node, place: Place, lines: Lines, loader: yaml.SafeLoader, depth: int) -> Any:
    lines.of[place] = node.start_mark.line + 1
    if depth > MAX_DEPTH:
        raise lines.mistake(place, "nested too deeply")
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise lines.mistake(place, "a key must be a word")
            key = loader.construct_object(key_node)
            here = (*place, key)
            lines.of[here] = key_node.start_mark.line + 1
            if key in found:
                raise lines.mistake(here, f"'{key}' occurs a second time here")
            found[key] = _value(value_node, here, lines, loader, depth + 1)
            lines.of[here] = key_node.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, at), lines, loader, depth + 1) for at, item in enumerate(node.value)]
    return loader.construct_object(node)
