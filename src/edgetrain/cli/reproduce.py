"""`edgetrain reproduce`: a paper's experiments, and whether its findings hold here."""

from __future__ import annotations

import os
import platform
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.analysis import SectionCost, StudyReport, label
from edgetrain.api import StudyCosts, cache_curves, reproduce, reproduce_preview, write_study_page
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import ProgressLine
from edgetrain.errors import EdgetrainError
from edgetrain.report import console, costs_text, emit, factor_table, findings_text, study_markdown
from edgetrain.runner import Interrupted
from edgetrain.units import spell_count, spell_seconds


class Paper(str, Enum):
    """Papers whose experiments can be made here."""

    hipc = "hipc"
    sigmetrics = "sigmetrics"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce_paper)


def reproduce_paper(
    paper: Annotated[
        Paper,
        typer.Argument(
            help="hipc: HiPC-SRS 2021, storage, loader workers and caching, in the lab. sigmetrics: SIGMETRICS 2023, "
            "24 take-aways, on simulated boards and by its published numbers."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer combinations: hipc takes about 5 minutes instead of 20.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(help="Number of repeats of each run; 3 or more show the spread between runs.", min=1, max=100),
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these sections, repeat for several. hipc: workers, sizes, ram, batch, networks; sigmetrics: "
            "loading, slow-gpu, nx, batch, dvfs, modes.",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the report as Markdown to this file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Also write the charts as one HTML page to this file.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat all runs, including those that are already recorded.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the number of runs, their time and their data; write nothing.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Repeat a paper's experiments here and judge each of its findings.

    For hipc this machine is limited to the paper's boards: that needs root, and an otherwise idle machine. For
    sigmetrics nothing is trained. After an interruption, the same command continues.

    Example: sudo edgetrain reproduce hipc --quick
    """
    if dry_run:
        _show_costs(reproduce_preview(paper.value, quick, section, store, repeats), json)
        return
    report = _carry_out(paper.value, quick, section, store, fresh, repeats)
    if page is not None:
        write_study_page(report, page, cache_curves(report, store), store)
    if markdown is not None:
        made = f"{_machine()}, {date.today().isoformat()}"
        markdown.write_text(study_markdown(report, _command(paper, quick, section, repeats), made))
    _show(report, json)
    if report.broken or report.failed_runs:
        runs = f"; {spell_count(report.failed_runs, 'run')} failed" if report.failed_runs else ""
        raise EdgetrainError(f"findings that do not hold here: {', '.join(report.broken) or 'none'}{runs}")


def _carry_out(
    paper: str, quick: bool, section: list[str] | None, store: Path | None, fresh: bool, repeats: int | None
) -> StudyReport:
    say = console(stderr=True)
    try:
        return reproduce(
            paper,
            quick,
            section,
            store,
            fresh,
            say=lambda text: say.print(text, highlight=False, markup=False),
            make_progress=lambda experiment: ProgressLine(label(experiment.factors)).once(),
            progress=ProgressLine().once(),
            repeats=repeats,
        )
    except Interrupted as stopped:
        say.print(f"edgetrain: {stopped}; the same command continues from here")
        raise typer.Exit(128 + stopped.signal) from None


def _show(report: StudyReport, json: bool) -> None:
    if json:
        emit(report)
        return
    out = console()
    for name, found in report.sections.items():
        out.print(f"\n{name} ({report.origin.value})", highlight=False)
        out.print(factor_table(list(found)))
    out.print(findings_text(report))
    out.print(f"the runs took {spell_seconds(report.took_s)}")


def _show_costs(costs: tuple[SectionCost, ...], json: bool) -> None:
    if json:
        emit(StudyCosts(costs))
    else:
        console().print(costs_text(costs))


def _command(paper: Paper, quick: bool, sections: list[str] | None, repeats: int | None) -> str:
    words = ["edgetrain reproduce", paper.value, *(["--quick"] if quick else [])]
    words += [f"--repeats {repeats}"] if repeats else []
    return " ".join([*words, *(f"--section {name}" for name in sections or ())])


def _machine() -> str:
    return f"Linux {platform.release()}, {os.cpu_count()} cores"
