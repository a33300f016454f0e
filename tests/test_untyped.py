"""Types cross boundaries, dictionaries do not: which modules may hold mappings whose values are of any type."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "edgetrain"
MAPPINGS = {"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict", "TypedDict"}

# Where JSON or YAML is read or written.
EDGES = {
    "api/round_files.py": "reads a round from YAML",
    "api/schemas.py": "the JSON Schemas of documents",
    "device/catalog.py": "reads the catalogue of boards from YAML",
    "device/privileged/journal.py": "reads and writes the journal of a board as JSON",
    "device/privileged/program.py": "answers requests as lines of JSON",
    "device/simulated/kernel.py": "reads planted faults from JSON",
    "device/simulated/physics.py": "reads coefficients from JSON",
    "device/simulated/shapes.py": "reads and writes the shape of a board as JSON",
    "documents.py": "typed values to JSON and back",
    "live/guard.py": "speaks ASGI, whose messages are mappings",
    "record/reader.py": "reads manifest.json and the facts beside it",
    "inside/facts.py": "the facts of a process as JSON",
    "inside/place.py": "the manifest of a run that `watch` records, as JSON",
    "inside/session.py": "collects the facts of a process for JSON",
    "inside/stream.py": "writes facts and events as JSON",
    "inside/worker.py": "the state of an object as pickle asks for it",
    "lab/server.py": "reads the model of a medium from JSON",
    "lab/tables.py": "reads media and presets from YAML",
    "fleet/inventory.py": "reads an inventory from YAML",
    "report/export/trace.py": "writes Chrome's JSON trace",
    "report/page/packed.py": "writes the pictures of a page as JSON",
    "runner/plan_reading.py": "reads a plan from YAML",
    "runner/plan_json_schema.py": "the JSON Schema of a plan",
    "yaml_files.py": "reads YAML with the line of every value",
    "schema/setting.py": "the JSON Schema of a setting",
}


def last_name(node: ast.AST | None) -> str | None:
    """Return `Any` of `Any` and of `typing.Any`."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def is_any(node: ast.AST, aliases: set[str]) -> bool:
    return last_name(node) in {"Any", "object", *aliases}


def is_untyped(node: ast.AST, aliases: set[str]) -> bool:
    """Whether a type is a mapping to values of any type: `dict[str, Any]`, `Mapping[str, object]`, an alias of one."""
    if isinstance(node, ast.Subscript) and last_name(node.value) in MAPPINGS:
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return is_any(arguments[-1], aliases)
    return False


def annotations(tree: ast.AST) -> list[ast.AST]:
    """Return every node of a module, with annotations that are written as text read as code."""
    nodes = list(ast.walk(tree))
    for node in list(nodes):
        written = [getattr(node, name, None) for name in ("annotation", "returns")]
        for text in written:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                nodes += ast.walk(ast.parse(text.value, mode="eval"))
    return nodes


def bare_mappings(tree: ast.AST) -> bool:
    """Whether an annotation is a mapping without any argument."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if last_name(getattr(node, name, None)) in MAPPINGS - {"TypedDict"}:
                return True
    return False


def any_aliases(trees: dict[str, ast.Module]) -> set[str]:
    """Return the names that stand for Any, object or an untyped mapping, anywhere in the package."""
    found: set[str] = set()
    while True:
        before = len(found)
        for tree in trees.values():
            for node in tree.body:
                target = None
                if isinstance(node, ast.Assign) and len(node.targets) == 1:
                    target = node.targets[0]
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    target = node.target
                if isinstance(target, ast.Name) and node.value is not None:  # type: ignore[union-attr]
                    value = node.value  # type: ignore[union-attr]
                    if is_any(value, found) or is_untyped(value, found):
                        found.add(target.id)
        if len(found) == before:
            return found


def untyped_modules() -> set[str]:
    """Return the modules that hold mappings whose values are of any type."""
    trees = {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")
    }
    aliases = any_aliases(trees)
    return {
        module
        for module, tree in trees.items()
        if bare_mappings(tree)
        or any(is_untyped(node, aliases) or last_name(node) in aliases for node in annotations(tree))
    }


def test_mappings_of_any_type_stand_only_where_json_or_yaml_is_read_or_written() -> None:
    allowed = set(EDGES)
    assert untyped_modules() - allowed == set()


def test_the_lists_of_modules_only_shrink() -> None:
    gone = set(EDGES) - untyped_modules()
    assert not gone, f"these modules hold none any more: take {sorted(gone)} off the lists"


def test_such_mappings_are_found_in_every_spelling() -> None:
    for text in (
        "x: dict[str, Any] = {}",
        "def f(a: Mapping[str, object]) -> None: ...",
        "def f() -> list[typing.Dict[str, typing.Any]]: ...",
        "def f(a: 'dict[str, Any]') -> None: ...",
    ):
        assert any(is_untyped(node, set()) for node in annotations(ast.parse(text))), text
    trees = {"a": ast.parse("Values = Any\nDocument: TypeAlias = dict[str, Values]\nScalar = str | int\n")}
    assert any_aliases(trees) == {"Values", "Document"}
    assert bare_mappings(ast.parse("def f(a: dict) -> None: ..."))
    for text in ("x: dict[str, int] = {}", "x: Mapping[str, Scalar]", "x: tuple[Any, ...]", "x = {}"):
        assert not any(is_untyped(node, set()) for node in annotations(ast.parse(text))), text
