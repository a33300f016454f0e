"""Writes the reference pages of the documentation site from the code: commands with their options, and JSON Schemas.

python scripts/reference.py docs/reference
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from edgetrain.api import document_names, document_schema
from edgetrain.cli.app import build
from edgetrain.cli.commands import COMMANDS
from edgetrain.cli.help_document import command_list


def main(folder: Path) -> None:
    """Write the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Commands", "", "Generated from the code. `edgetrain COMMAND --help` prints the same.", ""]
    for one in command_list(typer.main.get_command(build(COMMANDS))).commands:
        lines += [f"## edgetrain {one.command}", "", one.help, "", "| option | what it does |", "|---|---|"]
        for option in one.options:
            text = option.help.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
            lines.append(f"| `{', '.join(option.names)}` | {text} |")
        lines.append("")
    (folder / "commands.md").write_text("\n".join(lines), encoding="utf-8")
    schemas = ["# JSON documents", "", "The schema of what each command prints with `--json`.", ""]
    for name in document_names():
        text = json.dumps(document_schema(name), indent=1)
        schemas += [f"## {name}", "", f"```json\n{text}\n```", ""]
    (folder / "schemas.md").write_text("\n".join(schemas), encoding="utf-8")
    (folder / "python.md").write_text(
        "# Python API\n\nSee [the walk through it](../api.md).\n\n::: edgetrain.api\n    options:\n"
        "      show_root_heading: false\n      members_order: alphabetical\n      show_source: false\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
