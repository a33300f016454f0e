"""The JSON edge: values become documents and come back, and what is wrong in a document is named."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from edgetrain.analysis import Summary, summarize
from edgetrain.documents import (
    DocumentError,
    from_document,
    from_document_leniently,
    json_schema,
    read_json,
    to_document,
)
from edgetrain.record import FolderStore, Manifest, RunRow
from edgetrain.schema import Origin, PowerMode, Setting


@dataclass(frozen=True, slots=True)
class Window:
    from_: int
    to: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    at_s: float | None = None
    origin: Origin = Origin.MEASURED
    windows: tuple[Window, ...] = ()
    by: dict[str, float] = field(default_factory=dict)
    count: Annotated[int, Setting("How many.", minimum=0)] = 0
    hidden: str = field(default="", metadata={"document": False})


def test_a_value_comes_back_from_its_document() -> None:
    sample = Sample("a", 1.5, Origin.SIMULATED, (Window(1, 2), Window(3)), {"x": 0.5}, 7)
    document = to_document(sample)
    assert json.loads(json.dumps(document)) == document
    assert from_document(Sample, document) == sample


def test_a_keyword_loses_its_underscore_in_json_and_gets_it_back() -> None:
    assert to_document(Window(1)) == {"from": 1, "to": None}
    assert from_document(Window, {"from": 1}) == Window(1)
    assert "from" in json.dumps(json_schema(Window)) and "from_" not in json.dumps(json_schema(Window))


def test_what_json_lacks_is_null_and_what_numpy_holds_is_plain() -> None:
    values = [math.nan, math.inf, np.float64("nan"), np.int64(3), np.array([1.0, np.nan]), np.bool_(True)]
    assert to_document(values) == [None, None, None, 3, [1.0, None], True]
    assert to_document({"path": Path("/a"), 3: {Origin.MEASURED}}) == {"path": "/a", "3": ["measured"]}
    with pytest.raises(TypeError, match="cannot write a object"):
        to_document(object())


def test_a_field_may_be_kept_out_of_documents() -> None:
    assert "hidden" not in to_document(Sample("a", hidden="secret"))


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"name": 3}, "name"),
        ({}, "name"),
        ({"name": "a", "at_s": "late"}, "at_s"),
        ({"name": "a", "origin": "guessed"}, "origin"),
        ({"name": "a", "windows": [{"from": 1}, {"from": "x"}]}, r"windows\[1\]"),
        ([], "Sample"),
        (None, "Sample"),
    ],
)
def test_a_document_of_another_shape_is_refused_with_the_key(document: Any, named: str) -> None:
    with pytest.raises(DocumentError, match=named):
        from_document(Sample, document)


def test_keys_nobody_knows_are_ignored() -> None:
    assert from_document(Sample, {"name": "a", "invented": [1, 2]}) == Sample("a")


def test_a_lenient_reading_keeps_every_field_it_can_and_names_the_others() -> None:
    problems: list[str] = []
    document = {"name": "a", "at_s": "late", "origin": "guessed", "windows": [{"from": 1}], "invented": 1}
    assert from_document_leniently(Sample, document, problems) == Sample("a", windows=(Window(1),))
    assert [problem.partition(" ")[0] for problem in problems] == ["at_s", "origin"]


def test_json_that_is_nested_too_deeply_or_no_json_is_a_value_error() -> None:
    for text in ("[" * 100_000, "{", b"\xff", ""):
        with pytest.raises(ValueError):
            read_json(text)


@pytest.mark.parametrize("kind", [Manifest, Summary, RunRow, PowerMode])
def test_the_schema_of_a_type_names_exactly_the_keys_of_its_documents(kind: Any) -> None:
    schema = json_schema(kind, "title")
    assert schema["title"] == "title"
    own = schema["$defs"][kind.__name__] if "$defs" in schema else schema
    names = {item.name.rstrip("_") for item in dataclasses.fields(kind)}
    assert set(own["properties"]) == names and set(own.get("required", ())) <= names


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value has the shape that a schema asks for; as much of JSON Schema as ours use."""
    if "$ref" in schema:
        return fits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return any(fits(value, option, root) for option in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"null": type(None), "string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
    asked = schema.get("type")
    names = asked if isinstance(asked, list) else [asked]
    if asked is not None and not any(
        isinstance(value, (int, float)) if name == "number" else isinstance(value, kinds[name]) for name in names
    ):
        return False
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            fits(item, inner.get(key, rest if isinstance(rest, dict) else {}), root) for key, item in value.items()
        )
    if isinstance(value, list):
        return all(fits(item, schema.get("items") or {}, root) for item in value)
    return True


def test_a_run_and_its_summary_fit_their_schemas(record: Any) -> None:
    store = FolderStore(record.store)
    for run in (record(), record(power_w=None, epochs=0)):
        opened = store.open(run)
        for value in (summarize(opened), opened.manifest):
            schema = json_schema(type(value))
            document = json.loads(json.dumps(to_document(value)))
            assert fits(document, schema, schema)
            assert from_document(type(value), document) == value
    assert not fits({"run": 3}, json_schema(Summary), json_schema(Summary))
