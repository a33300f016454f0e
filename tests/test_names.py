"""One public class name denotes one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "edgetrain"


def clashes() -> dict[str, list[str]]:
    """Return the public class names that more than one module has, and those modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_public_class_name_occurs_once_in_the_package() -> None:
    assert clashes() == {}
