"""One JSON document on stdout: its version first, nulls for what was not measured, readable by any program."""

from __future__ import annotations

import io
import json
import math
import sys
from dataclasses import dataclass

import pytest

from edgetrain.report.document import emit
from edgetrain.schema import SCHEMA, Origin
from tests.summaries import make_epoch, make_summary


@dataclass(frozen=True)
class Result:
    value: float
    note: str = ""


def test_a_result_is_one_document_with_its_version_first(capsys: pytest.CaptureFixture[str]) -> None:
    emit(make_summary(make_epoch()))
    document = json.loads(capsys.readouterr().out)
    assert next(iter(document)) == "schema" and document["schema"] == SCHEMA
    assert document["origin"] == Origin.EMULATED.value and document["epochs"][0]["copy_s"] is None
    emit(Result(1.5))
    assert json.loads(capsys.readouterr().out) == {"schema": SCHEMA, "value": 1.5, "note": ""}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_null(value: float, capsys: pytest.CaptureFixture[str]) -> None:
    emit(Result(value))
    assert '"value": null' in capsys.readouterr().out


@pytest.mark.parametrize(("encoding", "note"), [("utf-8", "ü – \ud800"), ("ascii", "ü"), ("latin-1", "–")])
def test_any_name_is_written_to_any_stdout(encoding: str, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
    emit(Result(1.0, note))
    assert json.loads(out.getvalue().decode(encoding))["note"] == note


def test_marks_that_terminals_obey_are_escaped(capsys):
    emit({"name": "\x1b[31m \x9b2J \u202eevil \x7f é 火"})
    text = capsys.readouterr().out
    assert not any(mark in text for mark in "\x1b\x9b\u202e\x7f") and "é 火" in text
    assert json.loads(text)["name"] == "\x1b[31m \x9b2J \u202eevil \x7f é 火"
