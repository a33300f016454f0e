"""Every name that a benchmark takes from edgetrain exists: benchmarks are run by hand, long after a name has moved."""

import ast
import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.name)
def test_every_import_from_edgetrain_resolves(script):
    try:
        resolve_imports(script)
    except ModuleNotFoundError as error:
        if (error.name or "edgetrain").partition(".")[0] == "edgetrain":
            raise
        pytest.skip(f"needs {error.name}, which is not installed here")


def resolve_imports(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "edgetrain":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "edgetrain":
                    importlib.import_module(name.name)
