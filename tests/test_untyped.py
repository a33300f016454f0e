"""Types cross boundaries, dictionaries do not: which modules may hold mappings whose values are of any type."""

from __future__ import annotations

import ast
import functools
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
    "device/simulated/kernel.py": "reads injected faults from JSON",
    "device/simulated/physics.py": "reads coefficients from JSON",
    "device/simulated/shapes.py": "reads and writes the shape of a board as JSON",
    "documents.py": "typed values to JSON and back",
    "live/guard.py": "speaks ASGI, whose messages are mappings",
    "record/reader.py": "reads manifest.json and the facts beside it",
    "inside/cached_step.py": "the state of an object as pickle asks for it",
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
    "runner/trial_watch.py": "reads the events of the hook as lines of JSON",
    "runner/plan_json_schema.py": "the JSON Schema of a plan",
    "yaml_files.py": "reads YAML with the line of every value",
    "schema/setting.py": "the JSON Schema of a setting",
}

# Where keyword arguments of any type are passed on, or become JSON.
KEYWORDS = {
    "cli/app.py": "passes them on to click",
    "cli/groups.py": "receives options from typer, by the signature it gave",
    "cli/settings.py": "receives options from typer, by the signature it gave",
    "device/sessions.py": "writes a request as JSON",
    "federated/strategy.py": "passes them on to Flower",
    "inside/accelerator.py": "passes them on to torch",
    "inside/cached_step.py": "passes them on to a function of the user's",
    "inside/callbacks/for_hugging_face.py": "takes what a trainer gives its callbacks",
    "inside/loaders.py": "passes them on to torch",
    "inside/overrides.py": "passes them on to torch",
    "inside/session.py": "collects the facts of a process for JSON",
    "inside/steps.py": "passes them on to torch",
    "inside/stream.py": "writes an event as JSON",
    "inside/worker.py": "passes them on to torch",
    "inside/writes.py": "passes them on to torch",
    "report/page/shell.py": "fills a template",
    "report/terminal.py": "passes them on to rich",
    "sampling/sampler.py": "writes an event as JSON",
    "schema/setting.py": "fills a dataclass by its declared fields",
    "device/simulated/shapes.py": "fills the shape of a board by its fields",
    "workload/slow_reads.py": "passes them on to open()",
}
WRAPPERS = {"list", "List", "tuple", "Tuple", "Sequence", "Iterable", "Optional", "Union", "set", "frozenset"}


def last_name(node: ast.AST | None) -> str | None:
    """Return `Any` of `Any` and of `typing.Any`."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def is_any(node: ast.AST, aliases: set[str]) -> bool:
    """Whether a type is Any or object, or a collection or a choice of such: `list[Any]`, `Any | None`."""
    if isinstance(node, ast.BinOp):
        return is_any(node.left, aliases) or is_any(node.right, aliases)
    if isinstance(node, ast.Subscript) and last_name(node.value) in WRAPPERS:
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return any(is_any(each, aliases) for each in inner)
    return last_name(node) in {"Any", "object", *aliases}


def is_untyped(node: ast.AST, aliases: set[str]) -> bool:
    """Whether a type is a mapping to values of any type: `dict[str, Any]`, `Mapping[str, object]`, an alias of one."""
    if isinstance(node, ast.Subscript) and last_name(node.value) in MAPPINGS:
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return is_any(arguments[-1], aliases)
    return False


def annotations(tree: ast.AST) -> list[ast.AST]:
    """Return every node of a module, with types that are written as text read as code."""
    nodes = list(ast.walk(tree))
    for node in list(nodes):
        written = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.Call) and last_name(node.func) == "cast":
            written.append(node.args[0])
        for text in written:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                nodes += ast.walk(ast.parse(text.value, mode="eval"))
    return nodes


def bare_mappings(tree: ast.AST) -> bool:
    """Whether an annotation holds a mapping without any argument, or a class is a TypedDict."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(last_name(base) == "TypedDict" for base in node.bases):
            return True
        for name in ("annotation", "returns"):
            written = getattr(node, name, None)
            parts = list(ast.walk(written)) if isinstance(written, ast.AST) else []
            argued = {id(part.value) for part in parts if isinstance(part, ast.Subscript)}
            if any(last_name(part) in MAPPINGS and id(part) not in argued for part in parts):
                return True
    return False


def takes_any_keywords(tree: ast.AST) -> bool:
    """Whether a function takes keyword arguments of any type: inside it they are a `dict[str, Any]`."""
    found = [node.args.kwarg for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return any(each is not None and (each.annotation is None or is_any(each.annotation, set())) for each in found)


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
                if isinstance(target, ast.Name) and node.value is not None:
                    value = node.value
                    if last_name(value) in {"Any", "object", *found} or is_untyped(value, found):
                        found.add(target.id)
        if len(found) == before:
            return found


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Return every module of the package, parsed, by its path."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


@functools.cache
def untyped_modules() -> set[str]:
    """Return the modules that hold mappings whose values are of any type."""
    trees = sources()
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


def test_keyword_arguments_of_any_type_are_passed_on_or_become_json() -> None:
    assert {module for module, tree in sources().items() if takes_any_keywords(tree)} - set(KEYWORDS) == set()


def test_the_lists_of_modules_only_shrink() -> None:
    gone = set(EDGES) - untyped_modules()
    gone |= set(KEYWORDS) - {module for module, tree in sources().items() if takes_any_keywords(tree)}
    assert not gone, f"these modules hold none any more: take {sorted(gone)} off the lists"


def test_such_mappings_are_found_in_every_spelling() -> None:
    for text in (
        "x: dict[str, Any] = {}",
        "def f(a: Mapping[str, object]) -> None: ...",
        "def f() -> list[typing.Dict[str, typing.Any]]: ...",
        "def f(a: 'dict[str, Any]') -> None: ...",
        "x: dict[str, list[Any]] = {}",
        "x: Mapping[str, Any | None]",
        "x = cast('dict[str, object]', y)",
    ):
        assert any(is_untyped(node, set()) for node in annotations(ast.parse(text))), text
    trees = {"a": ast.parse("Values = Any\nDocument: TypeAlias = dict[str, Values]\nScalar = str | int\n")}
    assert any_aliases(trees) == {"Values", "Document"}
    for text in ("def f(a: dict) -> None: ...", "x: list[dict] | None = None", "class A(TypedDict): ..."):
        assert bare_mappings(ast.parse(text)), text
    assert not bare_mappings(ast.parse("x: list[dict[str, int]] | None = None"))
    assert takes_any_keywords(ast.parse("def f(**known: object) -> None: ..."))
    assert not takes_any_keywords(ast.parse("def f(**known: int) -> None: ..."))
    for text in ("x: dict[str, int] = {}", "x: Mapping[str, Scalar]", "x: tuple[Any, ...]", "x = {}"):
        assert not any(is_untyped(node, set()) for node in annotations(ast.parse(text))), text
