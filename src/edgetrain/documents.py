"""The JSON edge: typed values to plain documents and back, and the JSON Schema of a type.

    to_document(summary)                 dataclasses become objects; NaN becomes null
    result_document(summary)             the same with the schema version first: what --json prints
    from_document(Manifest, document)    the reverse; DocumentError names the key that is wrong
    json_schema(Summary)                 what a reader of that document may rely on

A field whose name is a Python keyword is written with a trailing underscore (`from_`); in JSON the underscore is gone.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from edgetrain.errors import EdgetrainError
from edgetrain.schema import SCHEMA

T = TypeVar("T")


class DocumentError(EdgetrainError):
    """A document that does not have the shape of its type."""


def to_document(value: Any) -> Any:
    """Return a value as JSON can hold it: what was not measured (None, NaN, infinity) is null."""
    if value is None or isinstance(value, (str, bool, int)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            item.name.rstrip("_"): to_document(getattr(value, item.name))
            for item in dataclasses.fields(value)
            if item.metadata.get("document", True)
        }
    if isinstance(value, Mapping):
        return {str(key): to_document(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return to_document(value.value)
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return to_document(value.tolist())
    if isinstance(value, (Sequence, Set)):
        return [to_document(item) for item in value]
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def result_document(result: Any) -> Any:
    """Return a result as the command with --json prints it: an object has the schema version as its first key."""
    document = to_document(result)
    return {"schema": document.pop("schema", SCHEMA), **document} if isinstance(document, dict) else document


def from_document(kind: type[T], document: Any) -> T:
    """Read a typed value from a document; keys that this version does not know are ignored."""
    try:
        return msgspec.convert(_with_underscores(document), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise DocumentError(f"not a {kind.__name__}: {error}") from error


def from_document_leniently(kind: type[T], document: Mapping[str, Any], problems: list[str]) -> T:
    """Read a dataclass field by field; a field that cannot be read keeps its default and is named in `problems`."""
    known: dict[str, Any] = {}
    for name, expected in typing.get_type_hints(kind, include_extras=True).items():
        key = name.rstrip("_")
        if key not in document:
            continue
        try:
            known[name] = msgspec.convert(_with_underscores(document[key]), expected)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            problems.append(f"{key} cannot be read ({error})")
    return kind(**known)


def json_schema(kind: Any, title: str | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a type, as to_document writes it."""
    document = msgspec.json.schema(kind, schema_hook=_schema_of_array)
    found: dict[str, Any] = _without_underscores(document)
    if title:
        found = {"title": title, **found}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def read_json(text: str | bytes) -> Any:
    """Read JSON text; ValueError where it is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _schema_of_array(kind: type) -> dict[str, Any]:
    if kind.__module__.partition(".")[0] == "numpy":
        return {"type": "array", "items": {"type": ["number", "boolean", "null"]}}
    raise NotImplementedError


_KEYWORDS = ("from",)


def _with_underscores(document: Any) -> Any:
    if isinstance(document, Mapping):
        return {(f"{key}_" if key in _KEYWORDS else key): _with_underscores(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_with_underscores(value) for value in document]
    return document


def _without_underscores(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        found = {key: _without_underscores(value) for key, value in schema.items()}
        if isinstance(found.get("properties"), dict):
            found["properties"] = {key.rstrip("_"): value for key, value in found["properties"].items()}
            found["required"] = [key.rstrip("_") for key in found.get("required", ())]
        return found
    if isinstance(schema, list):
        return [_without_underscores(value) for value in schema]
    return schema
