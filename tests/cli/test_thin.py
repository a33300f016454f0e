"""A command parses, calls the API and reports: none of its functions is long or does the work of other packages."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "src" / "edgetrain" / "cli"
MAX_LINES = 60
TREES = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.py"))}
# What a command may use of packages below the API: names that its arguments, progress and messages need.
ALSO = {
    "edgetrain.analysis": {"CampaignResult", "SectionCost", "StudyReport", "label", "verdict_sentence"},
    "edgetrain.runner": {"Interrupted", "Progress", "CampaignProgress", "plan_schema", "sudo_user", "use_store_of"},
    "edgetrain.workload": {"CATALOG"},
}
ANYTHING_OF = {"api", "cli", "documents", "errors", "report", "schema", "units", "version"}


def test_no_function_of_a_command_is_long() -> None:
    long = [
        f"{name}: {node.name} has {(node.end_lineno or 0) - node.lineno + 1} lines"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MAX_LINES
    ]
    assert not long


def test_commands_use_the_api_and_report_and_little_else() -> None:
    found = [
        f"{name}: {node.module}.{each.name}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edgetrain.")
        for each in node.names
        if node.module.split(".")[1] not in ANYTHING_OF and each.name not in ALSO.get(node.module, set())
    ]
    assert not found
