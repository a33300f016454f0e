"""The JSON Schema of a plan, for editors; made of the declared settings."""

from __future__ import annotations

from typing import Any

from edgetrain.runner.plan import PLACE_SETTINGS, PLAN_SETTINGS, SETTLE_SETTINGS
from edgetrain.schema import all_settings


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan."""
    settings = {name: declared.json_schema() for name, declared in all_settings().items()}
    # A factor may be anything a setting can be, several times; names of a command's placeholders are factors too.
    factors = {
        name: {"type": "array", "minItems": 1, "items": schema, "description": schema["description"]}
        for name, schema in settings.items()
    }
    scalar = {"type": ["string", "number", "boolean"]}
    properties: dict[str, Any] = {name: declared.json_schema() for name, declared in PLAN_SETTINGS.items()}
    properties.update(settings)
    properties["factors"] = {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1, "items": scalar},
        "properties": factors,
        "description": "What is varied: every combination of the values is run. Besides settings, any {placeholder} of "
        "the command.",
    }
    properties["points"] = {
        "type": "array",
        "items": {"type": "object", "additionalProperties": scalar, "properties": settings},
        "description": "Experiments listed one by one, beside or instead of the grid.",
    }
    properties["folders"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "On a board: where the dataset lies on each real medium, by name.",
    }
    properties["settle"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: declared.json_schema() for name, declared in SETTLE_SETTINGS.items()},
        "description": "What must be quiet before a run starts.",
    }
    properties["place"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: declared.json_schema() for name, declared in PLACE_SETTINGS.items()},
        "description": "On a fleet (`--on fleet.yaml`): which boards, and what becomes of the runs of a lost one.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edgetrain campaign plan",
        "type": "object",
        "required": ["name"],
        "anyOf": [
            {"required": ["network"]},
            {"required": ["command"]},
            {"properties": {"factors": {"required": ["network"]}}, "required": ["factors"]},
            {"required": ["points"]},
        ],
        # Without a command there are no placeholders, so that every other name is a mistake.
        "if": {"required": ["command"]},
        "else": {
            "propertyNames": {"enum": sorted(properties)},
            "properties": {
                "factors": {"propertyNames": {"enum": sorted(settings)}},
                "points": {"items": {"propertyNames": {"enum": sorted(settings)}}},
            },
        },
        "properties": properties,
    }
