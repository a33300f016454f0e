"""A setting: one thing an experiment can be asked for, declared once as an annotated dataclass field.

    workers: Annotated[int, Setting("Loader workers; 0: the loop fetches by itself.", minimum=0)] = 2

The command-line option, the plan key, the check and the JSON Schema all derive from the field: `settings_of` lists
what a dataclass declares, `Declared.read` checks one value.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeAlias, TypeVar

from edgetrain.errors import UsageError
from edgetrain.units import parse_bytes

Scalar: TypeAlias = str | int | float | bool | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a field means and which values it takes."""

    help: str
    minimum: float | None = None
    above: float | None = None  # exclusive minimum
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    size: bool = False  # a number of bytes, written `4GiB`
    panel: str = "Training"  # group in `--help`
    for_commands: bool = False  # applies to a user's own command too, not only to a network


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared setting: the field it comes from, its type and its default."""

    name: str  # field and plan key; the option is the same with hyphens
    kind: type  # str, int, float, bool or tuple
    optional: bool  # None is a value: not asked for
    default: Any
    about: Setting

    @property
    def option(self) -> str:
        """The command-line option: `--learning-rate`."""
        return "--" + self.name.replace("_", "-")

    def read(self, value: Any) -> Any:
        """Return the value as the field takes it; UsageError says what is wrong with it, without the name."""
        if value is None:
            if self.optional:
                return None
            raise UsageError("has no value")
        if self.kind is bool:
            if not isinstance(value, bool):
                raise UsageError(f"is {_shown(value)}; write true or false")
            return value
        if self.kind in (int, float):
            return self._read_number(value)
        if self.kind is tuple:
            if isinstance(value, str) or not isinstance(value, Sequence) or not value:
                raise UsageError(f"is {_shown(value)}; write a list in brackets, such as [first, second]")
            return tuple(str(word) for word in value)
        if isinstance(value, (dict, list, tuple, bool)):
            raise UsageError(f"is {_shown(value)}; write a word")
        text = str(value)
        if self.about.size:
            parse_bytes(text)
        if self.about.choices and text not in self.about.choices:
            raise UsageError(f"is {_shown(text)}; it is one of {', '.join(self.about.choices)}")
        return text

    def _read_number(self, value: Any) -> int | float:
        about = self.about
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"is {_shown(value)}; write a number")
        if not math.isfinite(value):
            raise UsageError(f"is {value}; write a finite number")
        if self.kind is int and value != int(value):
            raise UsageError(f"is {value!r}; write a whole number")
        if about.minimum is not None and value < about.minimum:
            raise UsageError(f"is {value}; the minimum is {about.minimum:g}")
        if about.above is not None and value <= about.above:
            raise UsageError(f"is {value}; it must be above {about.above:g}")
        if about.maximum is not None and value > about.maximum:
            raise UsageError(f"is {value}; the maximum is {about.maximum:g}")
        return int(value) if self.kind is int else float(value)

    def json_schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        names = {bool: "boolean", str: "string", int: "integer", float: "number"}
        document: dict[str, Any] = {"description": self.about.help}
        if self.kind is tuple:
            document.update(type="array", items={"type": "string"}, minItems=1)
        elif self.about.size or (self.kind is str and not self.about.choices):
            document["type"] = ["string", "integer"]  # YAML reads `30` as a number
        else:
            document["type"] = names[self.kind]
        if self.about.choices:
            document["enum"] = list(self.about.choices)
        for key, bound in (
            ("minimum", self.about.minimum),
            ("exclusiveMinimum", self.about.above),
            ("maximum", self.about.maximum),
        ):
            if bound is not None:
                document[key] = bound
        return document


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@functools.cache
def settings_of(kind: type) -> tuple[Declared, ...]:
    """Return the settings that a dataclass declares, in order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for item in fields(kind):
        hint = hints[item.name]
        about = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Setting)), None)
        if about is None:
            continue
        inner, optional = _unwrap(hint.__origin__)
        default = item.default if item.default is not MISSING else None
        found.append(Declared(item.name, inner, optional, default, about))
    return tuple(found)


def take_settings(kind: type[T], values: dict[str, Scalar], **fixed: Any) -> T:
    """Make a dataclass of its settings in `values`, checked and taken out of it; `fixed` are its other fields."""
    declaring: type = kind
    for declared in settings_of(declaring):
        if declared.name in values:
            try:
                fixed[declared.name] = declared.read(values.pop(declared.name))
            except UsageError as error:
                raise UsageError(f"{declared.option} {error}") from None
    return kind(**fixed)


def _unwrap(hint: Any) -> tuple[type, bool]:
    """Return the plain type of a hint, and whether it may be None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        kind, _ = _unwrap(parts[0])
        return kind, True
    origin = typing.get_origin(hint)
    return (origin or hint), False
