"""edgetrain quickstart: a small characterisation of this machine and a report, in minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import Shown
from edgetrain.errors import UsageError, WorkloadError
from edgetrain.report.document import emit
from edgetrain.report.page import write_page
from edgetrain.report.text import CAUSES, console, plain_table, spell_workers
from edgetrain.runner import execute
from edgetrain.runner.characterise import SUBJECTS, affordable, name_campaign, pace_s, plan
from edgetrain.schema import SCHEMA, Experiment
from edgetrain.store import Store
from edgetrain.units import MS_PER_S, spell_seconds

PANEL, ORDER = "measure", 5


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("quickstart", rich_help_panel=PANEL)(quickstart)


def quickstart(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("edgetrain-report.html"),
    budget_s: Annotated[float, typer.Option(help="About how long the runs may take.")] = 140.0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What this machine is like to train on: two networks, 0, 1 and 2 loader workers, cold and warm, and a report.

    Example: edgetrain quickstart -o my-machine.html
    """
    if not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.absolute().parent} for the report; make it or give another -o")
    began_s = time.monotonic()
    records, campaign = Store(store), name_campaign()
    say = console(stderr=True).print
    documents: list[dict[str, Any]] = []
    failures: list[str] = []
    for subject in SUBJECTS:
        with Shown(f"{subject.network}, finding its pace") as shown:
            step_s = pace_s(subject, records, shown)
        minibatches = affordable(subject, step_s, budget_s)
        say(f"{subject.network}: about {spell_seconds(step_s)} a minibatch here; {minibatches} minibatches a run")
        for experiment in plan(subject, minibatches, campaign):
            label = _label(experiment)
            try:
                with Shown(label) as shown:
                    name = execute(experiment, "auto", records, shown)
            except WorkloadError as error:
                failures.append(f"{label}: {error}")
                say(f"edgetrain: {failures[-1]}")
                continue
            documents.append(digest(records.open(name)).document())
            say(f"{label}: {_median(documents[-1])} a minibatch (median)")
    if not documents:
        raise WorkloadError("no run of the characterisation ended well; edgetrain doctor says what is missing here")
    try:
        write_page(documents, output, "What this machine is like to train on")
    except OSError as error:
        raise WorkloadError(
            f"the runs are recorded, but the report cannot be written to {output} ({error.strerror}); write it "
            f"elsewhere with: edgetrain report --campaign {campaign} -o FILE"
        ) from error
    if json:
        emit(
            {"schema": SCHEMA, "campaign": campaign, "report": output.absolute(), "runs": documents, "failed": failures}
        )
    else:
        console().print(_table(documents))
    say(f"\n{len(documents)} runs in {spell_seconds(time.monotonic() - began_s)}; the report: {output.absolute()}")
    say("next: edgetrain show last, edgetrain doctor, edgetrain run --help")


def _label(experiment: Experiment) -> str:
    loading = experiment.loading
    return f"{experiment.workload.network}, {spell_workers(loading.workers)}, {loading.cache}"


def _table(documents: list[dict[str, Any]]) -> Any:
    table = plain_table("network", "workers", "cache", "minibatch\nmedian", "epoch", "fetch\nstall", "of it", "mostly")
    for document in documents:
        loading, epoch = document["loading"], document["epochs"][0]
        stall_s = epoch["fetch_stall_s"]
        table.add_row(
            document["workload"]["network"],
            str(loading["workers"]),
            loading["cache"],
            _median(document),
            spell_seconds(epoch["e2e_s"]),
            spell_seconds(stall_s),
            f"{stall_s / epoch['e2e_s']:.0%}" if epoch["e2e_s"] else "–",
            _mostly(epoch["stall_by"]),
        )
    return table


def _median(document: dict[str, Any]) -> str:
    median_ms = document["minibatch"]["median_ms"]
    return "–" if median_ms is None else spell_seconds(median_ms / MS_PER_S)


def _mostly(stall_by: dict[str, float] | None) -> str:
    if not stall_by:
        return "–"
    words = {name: label.partition(" (")[0] for name, label in CAUSES}
    return words[max(stall_by, key=lambda name: stall_by[name])]
