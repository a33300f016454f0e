"""edgetrain schema: what the JSON documents of the commands look like."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import SchemaList, document_names, document_schema, write_text
from edgetrain.cli.options import JsonOption
from edgetrain.report import console, emit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema")(schema)


def schema(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="A command, such as `show` or `predict table`; or `plan`, for campaign plans.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the schema of the command's output with --dry-run.")
    ] = False,
    all_to: Annotated[
        Path | None, typer.Option("--all-to", help="Write all schemas into this folder.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the JSON Schema of the JSON document that a command prints.

    Without a command, it lists the commands that have one.

    Example: edgetrain schema show
    """
    if all_to is not None:
        all_to.mkdir(parents=True, exist_ok=True)
        for name in document_names():
            file = all_to / (name.replace(" --", "-").replace(" ", "-").lstrip("-") + ".json")
            write_text(file, json_text.dumps(document_schema(name), indent=1) + "\n")
    elif command:
        print(json_text.dumps(document_schema(" ".join([*command, *(["--dry-run"] if dry_run else [])])), indent=2))
    elif json:
        emit(SchemaList(document_names()))
    else:
        console().print("\n".join(document_names()))
