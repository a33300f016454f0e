"""Text for the terminal: one run, many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from edgetrain.analysis import EpochSummary, Summary
from edgetrain.record import LimitsRecord, RunRow
from edgetrain.report.machine import machine_table
from edgetrain.report.processes import PROCESS_HEADS, process_rows, spell_process_spread
from edgetrain.report.terminal import PlainConsole, console, plain_table, printable
from edgetrain.units import spell, spell_bytes, spell_seconds

__all__ = [
    "CAUSES",
    "PARTS",
    "PlainConsole",
    "console",
    "list_runs",
    "plain_table",
    "printable",
    "show_run",
    "spell_limits",
    "spell_workers",
    "with_pm",
]

BAR = 28  # characters of a bar
FIRST_EPOCHS, LAST_EPOCHS = 8, 4  # shown of a run that has more
BROAD = 1000  # characters, wider than any table here
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
    ("handover_s", "hand-over (minibatch made, not yet received)"),
)


def show_run(summary: Summary) -> RenderableType:
    """Return one run for the terminal."""
    parts: list[RenderableType] = [_headline(summary), Text("")]
    epochs = summary.epochs
    if not epochs:
        parts.append(Text("no minibatch was recorded", style="red"))
    else:
        parts.append(_epochs(epochs))
        if len(epochs) > len(_few(epochs)):
            left_out = len(epochs) - len(_few(epochs))
            parts.append(Text(f"{left_out} epochs between these are left out here; --json has them all"))
        parts += [Text(""), _bars(_few(epochs)), Text(""), _why(epochs), Text("")]
        parts += [*_loop_lines(summary), *_process_table(summary)]
        parts += machine_table(_few(epochs))
    parts.append(_numbers(summary))
    parts += _doubts(summary)
    return Group(*parts)


def _headline(summary: Summary) -> Text:
    workload, loading, compute, device = summary.workload, summary.loading, summary.compute, summary.device
    text = Text()
    text.append(summary.run, style="bold")
    text.append(f"   {summary.origin}")
    if summary.state != "finished":
        text.append(f"   {summary.state}", style="red")
    kind = compute.kind if compute else None
    facts = [
        workload.network or "?",
        f"batch {workload.batch_size}" if workload.batch_size else "",
        spell_workers(loading.workers if loading else None),
        f"cache {loading.cache}" if loading and loading.cache else "",
        kind or "",
        f"{summary.timing} timing" if summary.timing else "",
        device.model or device.name or "",
        (device.gpu or "") if kind == "cuda" else "",
    ]
    text.append("\n" + " · ".join(fact for fact in facts if fact))
    if summary.limits:
        text.append(f"\nlimited by the lab: {spell_limits(summary.limits)}")
    if summary.power_mode and summary.power_mode.asked:
        text.append(f"\npower mode: {summary.power_mode.held}")
    return text


def spell_limits(limits: LimitsRecord) -> str:
    """Spell the lab limits of a run for people."""
    asked = limits.asked
    words = [
        f"storage like {asked.storage.name}" if asked.storage else "",
        f"RAM {spell_bytes(asked.ram_bytes)}" if asked.ram_bytes and asked.taken_bytes else "",
        f"page cache {spell_bytes(asked.page_cache_bytes)}" if asked.page_cache_bytes is not None else "",
        f"{asked.cores} core{'' if asked.cores == 1 else 's'}" if asked.cores else "",
        f"each core at {asked.cpu_share:.0%} of its speed" if asked.cpu_share else "",
        f"accelerator {asked.accelerator}" if asked.accelerator else "",
        f"every time divided by {asked.speed:g}" if asked.speed not in (None, 1.0) else "",
    ]
    return ", ".join(word for word in words if word) or "none"


def spell_workers(workers: int | None) -> str:
    """Spell how many loader workers there were; nothing where that is not known."""
    return "" if workers is None else f"{workers} worker{'' if workers == 1 else 's'}"


class FittingTable:
    """A table where it fits, several narrower ones where it does not: a column that is cut misleads."""

    def __init__(self, wide: Table, *narrow: Table | FittingTable) -> None:
        self.wide, self.narrow = wide, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def fits(table: Table) -> bool:
            return Measurement.get(console, options.update(width=BROAD), table).maximum <= options.max_width

        if fits(self.wide):
            yield self.wide
            return
        for place, table in enumerate(self.narrow):
            if isinstance(table, Table):
                table.collapse_padding = not fits(table)
            if place:
                yield Text("")
            yield table


def _few(epochs: Sequence[EpochSummary]) -> Sequence[EpochSummary]:
    """Return the epochs that fit a screen: the first ones and the last."""
    if len(epochs) <= FIRST_EPOCHS + LAST_EPOCHS:
        return epochs
    return [*epochs[:FIRST_EPOCHS], *epochs[-LAST_EPOCHS:]]


def _epochs(epochs: Sequence[EpochSummary]) -> RenderableType:
    times = (
        "mini-\nbatches",
        "end to\nend",
        "fetch\nstall",
        "of which\nfill",
        "hidden\nwait",
        "copy",
        "compute",
        "over-\nhead",
    )
    rest = ("read from\nmedium", "cached\nbefore → after", "energy")
    wide, left, right = plain_table("epoch", *times, *rest), plain_table("epoch", *times), plain_table("epoch", *rest)
    for epoch in _few(epochs):
        number = str(epoch.epoch)
        spent = (
            str(epoch.minibatches),
            *(spell_seconds(getattr(epoch, name)) for name in ("e2e_s", "fetch_stall_s", "fill_s", "hidden_wait_s")),
            *(spell_seconds(getattr(epoch, name)) for name in ("copy_s", "compute_s", "overhead_s")),
        )
        used = (
            spell_bytes(epoch.read_bytes),
            f"{_share(epoch.cached_share_before)} → {_share(epoch.cached_share_after)}",
            with_pm(epoch.energy_j, epoch.energy_pm_j, "J"),
        )
        wide.add_row(number, *spent, *used)
        left.add_row(number, *spent)
        right.add_row(number, *used)
    return FittingTable(wide, left, right)


def with_pm(value: float | None, pm: float | None, unit: str) -> str:
    """Spell a value with its ±."""
    if value is None:
        return "–"
    return spell(value, unit) if pm is None else f"{spell(value)} ± {spell(pm, unit, 2)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _bars(epochs: Sequence[EpochSummary]) -> Text:
    longest = max(epoch.e2e_s for epoch in epochs) or 1.0
    text = Text()
    for epoch in epochs:
        text.append(f"epoch {epoch.epoch:>3}  ")
        used = 0
        for name, _, style in PARTS:
            width = round((getattr(epoch, name) or 0.0) / longest * BAR * 2)
            text.append("█" * width, style=style)
            used += width
        text.append(" " * max(2, BAR * 2 + 2 - used))
        stalled = None if epoch.fetch_stall_s is None or not epoch.e2e_s else epoch.fetch_stall_s / epoch.e2e_s
        text.append("stall not known\n" if stalled is None else f"{stalled:.0%} stalled\n")
    for _, label, style in PARTS:
        text.append("█ ", style=style)
        text.append(f"{label}   ")
    return text


def _why(epochs: Sequence[EpochSummary]) -> RenderableType:
    if all(epoch.fetch_stall_s is None for epoch in epochs):
        return Text("fetch stalls are not known: no data loader was seen")
    if sum(epoch.fetch_stall_s or 0.0 for epoch in epochs) <= 0:
        return Text("no visible data stalls")
    known = [(epoch.fetch_stall_s or 0.0, epoch.stall_by) for epoch in epochs if epoch.stall_by]
    if not known:
        return Text(
            "causes of the stall: not known, because the loader workers were not timed or the record is incomplete "
            "(see doubts)"
        )
    table = plain_table("why the loop waited for data", "time", "share of the stall")
    total = sum(stall for stall, _ in known)
    for name, label in CAUSES:
        seconds = sum(getattr(causes, name) for _, causes in known)
        table.add_row(label, spell_seconds(seconds), f"{seconds / total:.0%}" if total else "–")
    return table


def _numbers(summary: Summary) -> Text:
    minibatch, power, steady = summary.minibatch, summary.power_w, summary.steady
    text = Text()
    if minibatch.median_ms is not None:
        text.append(
            f"minibatch, steady: median {spell(minibatch.median_ms)} ms, mean {spell(minibatch.mean_ms)} ms, "
            f"p95 {spell(minibatch.p95_ms)} ms, p99 {spell(minibatch.p99_ms)} ms"
            f"  (minibatches {steady.first}–{steady.last})\n"
        )
    if power.mean is not None:
        baseload = spell(summary.baseload_w, "W") if summary.baseload_w else "not measured"
        text.append(
            f"power, steady: median {spell(power.median)} W, mean {spell(power.mean)} W "
            f"({summary.power_scope}); baseload {baseload}\n"
        )
    else:
        text.append(f"energy: not measured ({summary.energy_reason})\n")
    split = summary.energy_by
    if split:
        text.append(
            f"energy: stalls {spell(split.stall_j)} J, compute {spell(split.compute_j)} J above a baseload of "
            f"{spell(split.baseload_j)} J, ± {spell(split.pm_j, '', 2)} J\n"
        )
    elif power.mean is not None:
        text.append(f"energy by cause: not known ({summary.energy_by_reason})\n")
    cost, own = summary.overhead_pct, summary.overhead
    text.append(f"overhead of edgetrain: {'not measured' if cost is None else f'{cost:.2g} % of the run'}")
    if own.sampler_cpu_share is not None and own.sampler_read_share is not None:
        text.append(
            f" (sampler: {100 * own.sampler_cpu_share:.2g} % of one core, reading sensors "
            f"{100 * own.sampler_read_share:.2g} % of the time)"
        )
    return text


def _loop_lines(summary: Summary) -> list[RenderableType]:
    """Return what is worth saying about the loop; nothing for a plain one."""
    epochs = summary.epochs
    minibatches = sum(epoch.minibatches for epoch in epochs)
    steps = [epoch.optimizer_steps for epoch in epochs if epoch.optimizer_steps is not None]
    trained = [epoch.trained for epoch in epochs if epoch.trained is not None]
    lines = []
    if steps and sum(steps) != minibatches:
        lines.append(f"optimizer steps: {sum(steps)} for {minibatches} minibatches")
    if trained and sum(trained) < minibatches:
        lines.append(f"skipped: {minibatches - sum(trained)} of {minibatches} minibatches were not trained on")
    evaluation_s = sum(epoch.evaluation_s or 0.0 for epoch in epochs)
    if evaluation_s:
        lines.append(f"evaluation within epochs: {spell_seconds(evaluation_s)}, part of the overhead above")
    join_s = sum(epoch.worker_join_s or 0.0 for epoch in epochs)
    if join_s >= 0.01 * sum(epoch.e2e_s for epoch in epochs) > 0:
        lines.append(f"waiting for loader workers to end after a pass: {spell_seconds(join_s)}")
    return [Text("\n".join(lines) + "\n")] if lines else []


def _process_table(summary: Summary) -> list[RenderableType]:
    """Return one row per training process; nothing where there is only one."""
    rows = process_rows(summary)
    if not rows:
        return []
    title = f"{len(rows)} training processes; the figures above are those of the slowest"
    table = plain_table(*PROCESS_HEADS, title=title)
    for cells in rows:
        table.add_row(*cells)
    return [table, Text(spell_process_spread(summary) + "\n")]


def _doubts(summary: Summary) -> list[RenderableType]:
    imported = summary.imported.problems if summary.imported else ()
    lines: list[RenderableType] = []
    if summary.doubts or imported:
        lines.append(Text("\ndoubts", style="bold yellow"))
    for doubt in summary.doubts:
        lines.append(Text.assemble("  ", (doubt.kind, "yellow"), f": {doubt.text}"))
    lines += [Text.assemble("  ", ("in the log", "yellow"), f": {problem}") for problem in imported]
    return lines


def list_runs(rows: Sequence[RunRow]) -> RenderableType:
    """Return the runs of a store for the terminal; where it is narrow, what the id contains anyway is left out."""
    headers = {
        "state": "state", "origin": "origin", "network": "network", "batch_size": "batch", "workers": "workers",
        "cache": "cache", "device": "device", "campaign": "campaign",
    }  # fmt: skip
    names = [name for name in headers if name != "campaign" or any(row.campaign for row in rows)]
    return FittingTable(*(_listed(rows, {name: headers[name] for name in some}) for some in (names, names[:2])))


def _listed(rows: Sequence[RunRow], headers: Mapping[str, str]) -> Table:
    table = plain_table("run", *headers.values())
    for column in table.columns:
        # An id that is cut short cannot be copied.
        column.no_wrap, column.overflow = True, "fold"
    for row in rows:
        values = [getattr(row, name) for name in headers]
        table.add_row(row.run, *("–" if value is None else str(value) for value in values))
    return table
