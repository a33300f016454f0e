"""Figures for papers from a campaign, some runs or a table of power modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.api.mode_pages import is_mode_table, mode_content
from edgetrain.api.records import StoreLike, open_run, open_store
from edgetrain.api.reports import campaign_runs
from edgetrain.errors import UsageError
from edgetrain.report import SettingRun, campaign_figures, mode_figures, write_figures

FORMATS = ("pdf", "svg", "png")


@dataclass(frozen=True, slots=True)
class FiguresWritten:
    """Figures that were written, each in every format and with its CSV."""

    folder: str
    figures: tuple[str, ...]
    files: tuple[str, ...]


def figures(
    chosen: Sequence[str],
    folder: Path | str,
    store: StoreLike = None,
    formats: Sequence[str] = ("pdf", "svg"),
    board: str | None = None,
) -> FiguresWritten:
    """Write the figures of a campaign, of some runs, or of a table of power modes into a folder."""
    unknown = [form for form in formats if form not in FORMATS]
    if unknown:
        raise UsageError(f"there is no format {unknown[0]!r}; known: {', '.join(FORMATS)}")
    place, names = open_store(store), list(chosen)
    if len(names) == 1 and is_mode_table(names[0], place):
        content = mode_content(names[0], place, board)
        found = mode_figures(content.cloud, str(content.origin))
    else:
        runs = [open_run(run, place) for name in names for run in campaign_runs(name, place) or [name]]
        found = campaign_figures([SettingRun(summarize(run), run) for run in runs])
    if not found:
        raise UsageError(f"{', '.join(names)}: no epoch was recorded, so there is nothing to draw")
    target = Path(folder)
    try:
        files = write_figures(found, target, formats)
    except OSError as error:
        raise UsageError(f"cannot write into {target} ({error.strerror}); choose another folder with -o") from error
    return FiguresWritten(str(target), tuple(one.name for one in found), tuple(file.name for file in files))
