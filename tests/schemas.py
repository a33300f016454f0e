"""Checks a document that a command printed against the schema that is published for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgetrain.api import document_names, document_schema


def document_name(arguments: Sequence[str]) -> str:
    """Return the name under which the schema of what these arguments print is published."""
    known = set(document_names())
    words = [word for word in arguments[:2] if " ".join(arguments[:2]) in known] or arguments[:1]
    name = " ".join(words)
    return next((f"{name} {flag}" for flag in arguments if f"{name} {flag}" in known and flag[:2] == "--"), name)


def check_document(arguments: Sequence[str], document: object) -> None:
    """Fail where a document does not fit its schema."""
    jsonschema = pytest.importorskip("jsonschema")
    if "--schema" in arguments:  # the document is a schema itself
        jsonschema.Draft202012Validator.check_schema(document)
        return
    jsonschema.validate(document, document_schema(document_name(arguments)))
