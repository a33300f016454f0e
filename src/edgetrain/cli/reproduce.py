"""`edgetrain reproduce`: a paper's experiments, and whether its findings hold here."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import time
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.analysis import digest
from edgetrain.analysis.factors import Row, label, tabulate
from edgetrain.analysis.findings import DOES_NOT, Finding, Judge
from edgetrain.cli.campaign import carry_out, factor_table, open_campaign, row_document
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import Shown
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.report.campaigns import findings_markdown, findings_text
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.runner import execute
from edgetrain.runner.campaign import Standing
from edgetrain.runner.reproduce import MORE, SECTIONS, Section, hipc
from edgetrain.schema import SCHEMA, Experiment, Origin
from edgetrain.store import Store
from edgetrain.units import spell_seconds

PANEL, ORDER = "lab", 30


class Paper(str, Enum):
    """Papers whose experiments can be made here."""

    hipc = "hipc"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("reproduce", rich_help_panel=PANEL)(reproduce)


def reproduce(
    paper: Annotated[Paper, typer.Argument(help="hipc: HiPC-SRS 2021, storage, workers and caching.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer combinations: about 4 minutes instead of 20.")] = False,
    section: Annotated[
        list[str] | None,
        typer.Option(help=f"Only these of {', '.join(SECTIONS + MORE)}; repeat for several.", show_default=False),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the report as Markdown here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Also write two figures as one HTML page here.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew instead of using runs that are there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many runs and how long, and stop.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Makes a paper's experiments on this machine, held down to its boards, and judges each finding.

    Needs root for the lab and a quiet machine. Interrupted, the same command goes on.

    Example: sudo edgetrain reproduce hipc --quick
    """
    chosen = tuple(section or SECTIONS)
    unknown = set(chosen) - {*SECTIONS, *MORE}
    if unknown:
        raise UsageError(f"there is no section '{min(unknown)}'; there are {', '.join(SECTIONS + MORE)}")
    records = Store(store)
    said = console(stderr=True)
    tell_pictures = _pictures_told(said)
    sections = hipc(records.data, quick, chosen, tell_pictures)
    if dry_run:
        _show_cost(sections, records, json)
        return
    rows: dict[str, list[Row]] = {}
    failed, took_s = 0, 0.0
    for one in sections:
        said.print(f"{one.name}: {len(one.plan.runs())} runs", highlight=False)
        under_way = open_campaign(one.plan, records, fresh=fresh)
        if one is sections[0] and not under_way.recall().done:
            _warm_up(under_way.runs[0].experiment, records)
        standing = carry_out(under_way)
        failed += standing.planned - len(standing.done)
        took_s += standing.took_s
        rows[one.name] = tabulate(_documents(records, standing))
    findings = _judge(sections, rows)
    if page is not None:
        from edgetrain.report.campaigns import write_figures

        write_figures(page, rows, _curves(records, rows))
    if markdown is not None:
        markdown.write_text(findings_markdown(findings, rows, _facts(sections, quick, took_s)))
    if json:
        emit({"schema": SCHEMA, "paper": paper.value, "origin": Origin.EMULATED, "took_s": took_s,
              "findings": [asdict(finding) for finding in findings],
              "sections": {name: [row_document(row) for row in found] for name, found in rows.items()}})  # fmt: skip
    else:
        out = console()
        for name, found in rows.items():
            out.print(f"\n{name} (emulated)", highlight=False)
            out.print(factor_table(found))
        out.print(findings_text(findings))
        out.print(f"the runs took {spell_seconds(took_s)}")
    broken = [finding.letter for finding in findings if finding.verdict == DOES_NOT]
    if broken or failed:
        runs = f"; {failed} runs failed" if failed else ""
        raise EdgetrainError(f"findings that do not hold here: {', '.join(broken) or 'none'}{runs}")


def _warm_up(experiment: Experiment, records: Store) -> None:
    """Make one run that does not count: the first after drawing pictures on every core finds a slower machine."""
    records.data.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="edgetrain-warm-up-") as folder,
        Shown("a run that does not count") as shown,
    ):
        (Path(folder) / "data").symlink_to(records.data.absolute())
        with contextlib.suppress(EdgetrainError):  # what is wrong shows in the runs that count
            execute(experiment, "auto", Store(folder), shown)


def _pictures_told(said: Any) -> Any:
    told = {"at": 0.0}

    def tell(done: int, total: int) -> None:
        if time.monotonic() - told["at"] > 5:
            told["at"] = time.monotonic()
            said.print(f"making pictures {done}/{total}", highlight=False)

    return tell


def _documents(records: Store, standing: Standing) -> list[dict[str, Any]]:
    return [digest(records.open(run)).document() for run in standing.done.values()]


def _judge(sections: list[Section], rows: dict[str, list[Row]]) -> list[Finding]:
    """Judge each finding with the rows of its own section, at that section's speed; of sections not asked for, none."""
    speeds = {one.name: one.speed for one in sections}
    sizes_bytes = {one.name: one.dataset_bytes for one in sections}
    by_workers = Judge(
        rows.get("workers", ()), (), rows.get("ram", ()), speeds.get("workers", 1.0), sizes_bytes.get("ram")
    )
    by_sizes = Judge(sizes=rows.get("sizes", ()), speed=speeds.get("sizes", 1.0))
    letters = ("ABC" if "workers" in rows else "") + ("D" if {"workers", "ram"} & set(rows) else "")
    return [*by_workers.all(letters), *by_sizes.all("EF" if "sizes" in rows else "")]


def _curves(records: Store, rows: dict[str, list[Row]]) -> list[Any]:
    from edgetrain.analysis.cache_curves import cache_curve

    curves = []
    for row in [*rows.get("ram", ()), *(row for row in rows.get("sizes", ()) if row.get("storage") == "hdd")]:
        run = records.open(row.runs[0])
        curve = cache_curve(run, digest(run).epochs)
        if curve is not None:
            curves.append((label(row.factors), curve))
    return curves


def _facts(sections: list[Section], quick: bool, took_s: float) -> dict[str, Any]:
    names = [one.name for one in sections]
    chosen = "" if set(names) == set(SECTIONS) else "".join(f" --section {name}" for name in names)
    return {
        "command": f"edgetrain reproduce hipc{' --quick' if quick else ''}{chosen}",
        "took": spell_seconds(took_s),
        "speeds": {one.name: one.speed for one in sections},
        "shrinks": {one.name: one.plan.base.get("shrink", 1.0) for one in sections},
        "machine": f"Linux {platform.release()}, {os.cpu_count()} cores",
    }


def _show_cost(sections: list[Section], records: Store, json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for one in sections:
        standing = open_campaign(one.plan, records).recall()
        rows.append({"section": one.name, "runs": standing.planned, "done": len(standing.done),
                     "left_s": standing.cost.time_s, "speed": one.speed})  # fmt: skip
    if json:
        emit({"schema": SCHEMA, "sections": rows})
        return
    for row in rows:
        console().print(
            f"{row['section']}: {row['runs']} runs, {row['done']} done, {spell_seconds(row['left_s'])} left"
        )
