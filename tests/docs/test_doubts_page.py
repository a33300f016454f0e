"""docs/doubts.md lists every kind of doubt that the source can raise, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "edgetrain"
PAGE = ROOT / "docs" / "doubts.md"
# Calls that make a doubt of a kind given elsewhere, and the kinds that only they name.
PASSED_ON = {
    "analysis/doubts.py": {"failed", "interrupted", "doubt"},  # states of a run; events without a kind of their own
    "analysis/loop_doubts.py": set(),
    "recommendation/rounds_planning.py": set(),
    "runner/recording.py": set(),
    "runner/command_trainee.py": set(),
    "sampling/sampler.py": {"clock_jumped", "machine_slept"},  # ClockCheck.check returns them
    "record/memory.py": set(),
    "record/store.py": set(),
}


def called(node: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def kinds_of(path: Path) -> Iterator[str | None]:
    """Yield the kind of each doubt that a module makes; None where another module names it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def named(node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        return constants.get(getattr(node, "id", ""))

    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if (called(node) == "Doubt" and node.args) or (called(node) == "doubt" and len(node.args) > 1):
            yield named(node.args[0])
        elif called(node) == "_counted":
            yield named(node.args[1])
        for keyword in node.keywords:
            if keyword.arg == "doubt" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None):
                yield named(keyword.value)


def kinds_in_source() -> set[str]:
    """Return every kind of doubt, and fail where a module passes on kinds that this test does not know."""
    found: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        kinds = set(kinds_of(path))
        place = str(path.relative_to(SOURCE))
        if None in kinds:
            assert place in PASSED_ON, f"{place} makes a doubt of a kind that is not a constant: list its kinds here"
            kinds |= PASSED_ON[place]
        found |= {kind for kind in kinds if kind is not None}
    return found


def test_the_page_lists_every_kind_of_doubt_and_no_other() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| .+ \| .+ \|$", PAGE.read_text(), re.M)
    listed = [kind for row in rows for kind in re.findall(r"`(\w+)`", row)]
    assert len(listed) == len(set(listed))
    assert set(listed) == kinds_in_source()
