"""What was imported, for the terminal: one line each, then what was wrong in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.importers import Imported
from edgetrain.report.text import plain_table

MAX_PROBLEMS = 12  # shown of one import; --json has all


def show_imports(found: Sequence[Imported]) -> RenderableType:
    """Return the imports and their problems."""
    table = plain_table("imported", "as", "minibatches", "rows", "problems", title="origin: replayed")
    for each in found:
        minibatches = "–" if each.minibatches is None else f"{each.minibatches}"
        name = PurePath(each.source).name
        table.add_row(name, f"{each.kind} {each.id}", minibatches, f"{each.samples}", f"{len(each.problems)}")
    parts: list[RenderableType] = [table]
    for each in found:
        if each.problems:
            parts.append(Text(f"\n{each.id}: what was wrong in {PurePath(each.source).name}", style="yellow"))
            parts += [Text(f"  {problem}") for problem in each.problems[:MAX_PROBLEMS]]
            if len(each.problems) > MAX_PROBLEMS:
                parts.append(Text(f"  … and {len(each.problems) - MAX_PROBLEMS} more; --json lists all"))
    runs = [each.id for each in found if each.kind == "run"]
    tables = [each.id for each in found if each.kind == "campaign"]
    if runs:
        parts.append(Text(f"\nnext: edgetrain show {runs[-1]}"))
    elif tables:
        parts.append(Text(f"\nnext: edgetrain predict table --profiled {tables[-1]}"))
    return Group(*parts)
