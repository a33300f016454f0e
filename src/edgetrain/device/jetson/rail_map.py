"""The owner's description of a custom carrier, `/etc/edgetrain/rails.yaml`: labels, shunts, total and scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetrain.device.tree import Tree
from edgetrain.errors import BadTable

RAIL_MAP = "/etc/edgetrain/rails.yaml"
MAX_MAP_BYTES = 1 << 16
_SHAPES = {"labels": dict, "shunts_ohm": dict, "total": list, "contains": dict, "scope": str}
_EXAMPLE = (
    "labels: {1-0040.1: CARRIER_IN, 1-0040.2: GPU}; shunts_ohm: {1-0040.1: 0.002}; total: [CARRIER_IN]; "
    "contains: {CARRIER_IN: [GPU]}; scope: board"
)


@dataclass(frozen=True, slots=True)
class RailMap:
    """What the owner says; places are bus, address and channel (`1-0040.2`), all else labels."""

    labels: Mapping[str, str] = field(default_factory=dict)  # by place
    shunts_ohm: Mapping[str, float] = field(default_factory=dict)  # by place
    total: tuple[str, ...] | None = None
    contains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scope: str | None = None


def read_rail_map(tree: Tree) -> RailMap:
    """Read the owner's description; an empty one where there is none, BadTable where it cannot be meant so."""
    text = tree.text(RAIL_MAP)
    if text is None:
        return RailMap()
    import yaml  # only where there is a map

    if len(text) > MAX_MAP_BYTES:
        raise BadTable(f"{RAIL_MAP} is longer than {MAX_MAP_BYTES} bytes")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadTable(f"cannot read {RAIL_MAP}: {error}") from error
    if not isinstance(document, dict) or any(
        name not in _SHAPES or not isinstance(value, _SHAPES[name]) for name, value in document.items()
    ):
        raise BadTable(f"{RAIL_MAP} must map {', '.join(_SHAPES)}; an example: {_EXAMPLE}")
    try:
        labels = {str(place): str(label) for place, label in document.get("labels", {}).items()}
        shunts = {str(place): float(ohm) for place, ohm in document.get("shunts_ohm", {}).items()}
        contains = {str(name): tuple(map(str, inner)) for name, inner in document.get("contains", {}).items()}
    except (TypeError, ValueError) as error:
        raise BadTable(f"{RAIL_MAP}: {error}; an example: {_EXAMPLE}") from error
    if len(set(labels.values())) != len(labels):
        raise BadTable(f"{RAIL_MAP} gives one label to two rails: {', '.join(sorted(labels.values()))}")
    total = document.get("total")
    return RailMap(
        labels, shunts, tuple(map(str, total)) if total is not None else None, contains, document.get("scope")
    )
