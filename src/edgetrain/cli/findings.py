"""edgetrain findings: whether what the papers found holds in your own runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import findings, write_text
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report import console, emit, findings_markdown, show_findings


class JudgedPaper(str, Enum):
    """Papers whose statements are judged."""

    hipc = "hipc"
    sigmetrics = "sigmetrics"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("findings")(judge_findings)


def judge_findings(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...",
            help="Campaigns whose runs are judged, by id or by their plan's name; left out, every run of the store.",
            show_default=False,
        ),
    ] = None,
    paper: Annotated[
        list[JudgedPaper] | None,
        typer.Option(help="Judge only this paper's statements; repeat the option for several.", show_default=False),
    ] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Show every comparison behind each verdict.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Also write the report as Markdown to this file.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Check which of the papers' findings hold in your own runs: 24 of SIGMETRICS 2023, six of HiPC 2021.

    The verdict on each is holds, does not hold, or cannot say; in the last case the runs that would decide it are
    named. A difference inside its 95 % interval, or a single run near a limit, is not judged: repeat each run three
    times.

    Example: edgetrain findings my-campaign --paper sigmetrics
    """
    papers = [one.value for one in paper or JudgedPaper]
    report = findings(campaigns or (), papers, store)
    if markdown is not None:
        words = ["edgetrain findings", *(campaigns or ()), *(f"--paper {one.value}" for one in paper or ())]
        write_text(markdown, findings_markdown(report, " ".join(words)))
    if json:
        emit(report)
    else:
        console().print(show_findings(report, evidence))
