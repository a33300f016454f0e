"""What a person reads in a terminal: one run, many runs, a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from edgetrain.units import spell, spell_bytes, spell_seconds

BAR = 28  # characters of a bar
FIRST_EPOCHS, LAST_EPOCHS = 8, 4  # shown of a run that has more
BROAD = 1000  # characters, more than any table of ours takes
PARTS = (
    ("fetch_stall_s", "fetch stall", "red"),
    ("copy_s", "copy", "yellow"),
    ("compute_s", "compute", "green"),
    ("overhead_s", "overhead", "bright_black"),
)
CAUSES = (
    ("blocked_s", "blocked on storage, network or a lock"),
    ("preprocess_s", "pre-processing (CPU work of the loader)"),
    ("contention_s", "contention (ready to run, no core free)"),
    ("handover_s", "hand-over (batch made, not yet in the loop's hands)"),
)


def console(stderr: bool = False) -> Console:
    """Return a console that keeps tables readable when piped."""
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        # A height too: without it rich takes any terminal called dumb for 80 columns.
        found = Console(stderr=stderr, highlight=False, width=max(found.width, 118), height=found.height)
    return found


def plain_table(*headers: str, title: str | None = None) -> Table:
    """Return a table in our look: no box, first column left, the rest right."""
    table = Table(box=None, title=title, title_justify="left", header_style="bold", pad_edge=False)
    for place, header in enumerate(headers):
        width = max(len(line) for line in header.split("\n"))
        table.add_column(header, justify="left" if place == 0 else "right", no_wrap=place > 0, min_width=width)
    return table


def show_run(document: Mapping[str, Any]) -> RenderableType:
    """Return one run for the terminal."""
    parts: list[RenderableType] = [_headline(document), Text("")]
    epochs: Sequence[Mapping[str, Any]] = document["epochs"]
    if not epochs:
        parts.append(Text("no minibatch was recorded", style="red"))
    else:
        parts.append(_epochs(epochs))
        if len(epochs) > len(_few(epochs)):
            left_out = len(epochs) - len(_few(epochs))
            parts.append(Text(f"{left_out} epochs between these are left out here; --json has them all"))
        parts += [Text(""), _bars(_few(epochs)), Text(""), _why(epochs), Text("")]
    parts.append(_numbers(document))
    parts += _doubts(document)
    return Group(*parts)


def _headline(document: Mapping[str, Any]) -> Text:
    workload, loading = document.get("workload") or {}, document.get("loading") or {}
    compute, device = document.get("compute") or {}, document.get("device") or {}
    text = Text()
    text.append(str(document["run"]), style="bold")
    text.append(f"   {document.get('origin') or 'origin not known'}")
    if document.get("state") != "finished":
        text.append(f"   {document.get('state')}", style="red")
    facts = [
        str(workload.get("network") or "?"),
        f"batch {workload.get('batch_size')}" if workload.get("batch_size") else "",
        spell_workers(loading.get("workers")),
        f"cache {loading.get('cache')}" if loading.get("cache") else "",
        f"{compute.get('kind')}" if compute.get("kind") else "",
        f"{document.get('timing')} timing" if document.get("timing") else "",
        str(device.get("model") or device.get("name") or ""),
        str(device.get("gpu") or "") if compute.get("kind") == "cuda" else "",
    ]
    text.append("\n" + " · ".join(fact for fact in facts if fact))
    limits = document.get("limits")
    if limits:
        text.append(f"\nheld down by the lab: {limits.get('asked')}")
    return text


def spell_workers(workers: int | None) -> str:
    """Spell how many loader workers there were; nothing where that is not known."""
    return "" if workers is None else f"{workers} worker{'' if workers == 1 else 's'}"


class _Fitting:
    """A table where it fits, several narrower ones where it does not: a column that is cut says something wrong."""

    def __init__(self, wide: Table, *narrow: Table) -> None:
        self.wide, self.narrow = wide, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if Measurement.get(console, options.update(width=BROAD), self.wide).maximum <= options.max_width:
            yield self.wide
            return
        for place, table in enumerate(self.narrow):
            table.collapse_padding = True
            if place:
                yield Text("")
            yield table


def _few(epochs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the epochs that fit a screen: the first ones and the last."""
    if len(epochs) <= FIRST_EPOCHS + LAST_EPOCHS:
        return epochs
    return [*epochs[:FIRST_EPOCHS], *epochs[-LAST_EPOCHS:]]


def _epochs(epochs: Sequence[Mapping[str, Any]]) -> RenderableType:
    times = (
        "mini-\nbatches",
        "end to\nend",
        "fetch\nstall",
        "of it\nfill",
        "hidden\nwait",
        "copy",
        "compute",
        "over-\nhead",
    )
    rest = ("read from\nmedium", "cached\nbefore → after", "energy")
    wide, left, right = plain_table("epoch", *times, *rest), plain_table("epoch", *times), plain_table("epoch", *rest)
    for epoch in _few(epochs):
        number = str(epoch["epoch"])
        spent = (
            str(epoch["minibatches"]),
            *(spell_seconds(epoch[name]) for name in ("e2e_s", "fetch_stall_s", "fill_s", "hidden_wait_s")),
            *(spell_seconds(epoch[name]) for name in ("copy_s", "compute_s", "overhead_s")),
        )
        used = (
            spell_bytes(epoch["read_bytes"]),
            f"{_share(epoch['cached_share_before'])} → {_share(epoch['cached_share_after'])}",
            with_pm(epoch["energy_j"], epoch["energy_pm_j"], "J"),
        )
        wide.add_row(number, *spent, *used)
        left.add_row(number, *spent)
        right.add_row(number, *used)
    return _Fitting(wide, left, right)


def with_pm(value: float | None, pm: float | None, unit: str) -> str:
    """Spell a value with its ±."""
    if value is None:
        return "–"
    return spell(value, unit) if pm is None else f"{spell(value)} ± {spell(pm, unit, 2)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _bars(epochs: Sequence[Mapping[str, Any]]) -> Text:
    longest = max(epoch["e2e_s"] for epoch in epochs) or 1.0
    text = Text()
    for epoch in epochs:
        text.append(f"epoch {epoch['epoch']:>3}  ")
        used = 0
        for name, _, style in PARTS:
            width = round((epoch[name] or 0.0) / longest * BAR * 2)
            text.append("█" * width, style=style)
            used += width
        text.append(" " * max(2, BAR * 2 + 2 - used))
        text.append(f"{(epoch['fetch_stall_s'] / epoch['e2e_s'] if epoch['e2e_s'] else 0):.0%} stalled\n")
    for _, label, style in PARTS:
        text.append("█ ", style=style)
        text.append(f"{label}   ")
    return text


def _why(epochs: Sequence[Mapping[str, Any]]) -> RenderableType:
    stall = sum(epoch["fetch_stall_s"] for epoch in epochs)
    known = [epoch for epoch in epochs if epoch["stall_by"]]
    if stall <= 0:
        return Text("the loop never waited for data where it would have mattered")
    if not known:
        return Text("why it stalled is not known: no worker columns, or no verdict (see the doubts)")
    table = plain_table("why the loop stood still", "time", "share of the stall")
    total = sum(epoch["fetch_stall_s"] for epoch in known)
    for name, label in CAUSES:
        seconds = sum(epoch["stall_by"][name] for epoch in known)
        table.add_row(label, spell_seconds(seconds), f"{seconds / total:.0%}" if total else "–")
    return table


def _numbers(document: Mapping[str, Any]) -> Text:
    minibatch, power, steady = document["minibatch"], document["power_w"], document["steady"]
    text = Text()
    if minibatch["median_ms"] is not None:
        text.append(
            f"minibatch, steady: median {spell(minibatch['median_ms'])} ms, mean {spell(minibatch['mean_ms'])} ms, "
            f"p95 {spell(minibatch['p95_ms'])} ms, p99 {spell(minibatch['p99_ms'])} ms"
            f"  (minibatches {steady['first']}–{steady['last']})\n"
        )
    if power["mean"] is not None:
        baseload = document.get("baseload_w")
        text.append(
            f"power, steady: median {spell(power['median'])} W, mean {spell(power['mean'])} W "
            f"({document.get('power_scope')}); baseload {spell(baseload, 'W') if baseload else 'not measured'}\n"
        )
    else:
        text.append(f"energy: not measured: {document.get('energy_reason')}\n")
    split = document.get("energy_by")
    if split:
        text.append(
            f"energy: stalls {spell(split['stall_j'])} J, compute {spell(split['compute_j'])} J above a baseload of "
            f"{spell(split['baseload_j'])} J, ± {spell(split['pm_j'], '', 2)} J\n"
        )
    elif power["mean"] is not None:
        text.append(f"energy by cause: not split: {document.get('energy_by_reason')}\n")
    cost = document.get("overhead_pct")
    text.append(f"the tool's own cost: {'not measured' if cost is None else f'{cost:.2g} % of the run'}")
    beside = document.get("overhead") or {}
    cpu, read = beside.get("sampler_cpu_share"), beside.get("sampler_read_share")
    if cpu is not None and read is not None:
        text.append(f" (sampler: {100 * cpu:.2g} % of one core, reading sensors {100 * read:.2g} % of the time)")
    return text


def _doubts(document: Mapping[str, Any]) -> list[RenderableType]:
    doubts = document.get("doubts") or []
    imported = (document.get("imported") or {}).get("problems") or []
    lines: list[RenderableType] = []
    if doubts or imported:
        lines.append(Text("\ndoubts", style="bold yellow"))
    lines += [Text.from_markup(f"  [yellow]{escape(doubt['kind'])}[/]: {escape(doubt['text'])}") for doubt in doubts]
    lines += [Text.from_markup(f"  [yellow]in the log[/]: {escape(str(problem))}") for problem in imported]
    return lines


def list_runs(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the runs of a store for the terminal; where it is narrow, what the id says anyway is left out."""
    headers = {
        "state": "state", "origin": "origin", "network": "network", "batch_size": "batch", "workers": "workers",
        "cache": "cache", "device": "device", "campaign": "campaign",
    }  # fmt: skip
    names = [name for name in headers if name != "campaign" or any(row.get(name) for row in rows)]
    return _Fitting(*(_listed(rows, {name: headers[name] for name in some}) for some in (names, names[:2])))


def _listed(rows: Sequence[Mapping[str, Any]], headers: Mapping[str, str]) -> Table:
    table = plain_table("run", *headers.values())
    for column in table.columns:
        # An id that is cut short cannot be copied.
        column.no_wrap, column.overflow = True, "fold"
    for row in rows:
        values = [row.get(name) for name in headers]
        table.add_row(str(row["run"]), *("–" if value is None else escape(str(value)) for value in values))
    return table
