"""Ways to damage a plan, a JSON document or any file, drawn at random."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.torture.mutation_values import ESCAPES, JSON_VALUES, LINES, NUMBERS, WORDS, YAML


def plan_value(data: bytes, draw: random.Random) -> bytes:
    """Replace the value of one key of a plan."""
    lines = data.decode(errors="surrogateescape").split("\n")
    places = [at for at, line in enumerate(lines) if re.match(r" *[a-z_]+: *\S", line)]
    if not places:
        return data
    at = draw.choice(places)
    value = draw.choice((*YAML, *NUMBERS, *WORDS, *(json.dumps(text) for text in (*ESCAPES, *WORDS))))
    lines[at] = lines[at].partition(":")[0] + ": " + value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return "\n".join(lines).encode(errors="surrogateescape")


def plan_lines(data: bytes, draw: random.Random) -> bytes:
    """Remove, repeat, move, indent or add a line of a plan."""
    lines = data.split(b"\n")
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at] = b" " * draw.randrange(6) + lines[at].strip()
    elif kind == 3:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, draw.choice(LINES).encode())
    return b"\n".join(lines)


def nest(data: bytes, draw: random.Random) -> bytes:
    """Add a deeply nested value to a plan."""
    depth = draw.choice((3, 50, 900, 2000, 20_000))
    opening, closing = draw.choice((("[", "]"), ("{a: ", "}"), ("- ", ""), ("!!seq [", "]")))
    return data + b"extra: " + (opening * depth + "1" + closing * depth).encode()


def damage_bytes(data: bytes, draw: random.Random) -> bytes:
    """Damage a file as disks and editors do."""
    at = draw.randrange(max(1, len(data)))
    kind = draw.randrange(7)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes(draw.randrange(256) for _ in range(draw.choice((1, 4, 300)))) + data[at:]
    if kind == 2:
        return data.decode(errors="replace").encode(draw.choice(("utf-16", "utf-8-sig", "utf-32")))
    if kind == 3:
        return data.replace(b"\n", draw.choice((b"\r\n", b"\r", b"")))
    if kind == 4:
        return data[:at] + bytes(draw.choice((1, 4096))) + data[at:]
    if kind == 5:
        return b""
    return data[:at] + draw.choice(ESCAPES).encode() + data[at:]


def damage_json(document: Any, draw: random.Random) -> None:
    """Replace, remove or nest one value somewhere in a document."""
    places = list(_places(document))
    if not places:
        return
    inside, key = draw.choice(places)
    kind = draw.random()
    if kind < 0.1:
        del inside[key]
    elif kind < 0.2:
        inside[key] = [inside[key]]
    else:
        inside[key] = draw.choice((*JSON_VALUES, *ESCAPES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = range(len(value)) if isinstance(value, list) else value.keys() if isinstance(value, dict) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
