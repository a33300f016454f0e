"""The catalogue of boards for the terminal: all of them, one of them, and whether a network fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.recommendation import Fit
from edgetrain.report.text import plain_table
from edgetrain.schema import Board, ClockTable, MemoryNeed
from edgetrain.units import spell, spell_bytes, spell_hz

COLOURS = {"fits": "green", "fits, little cache": "yellow", "too close to call": "yellow", "does not fit": "red"}


def _gib(count: float | None) -> str:
    return "–" if count is None else f"{count / 2**30:.3g} GiB"


def _top(table: ClockTable | None) -> str:
    return "–" if table is None else spell_hz(table.highest_hz)


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def show_catalogue(boards: Sequence[Board]) -> RenderableType:
    """Return one line per board."""
    title = "published figures; –: no source found; edgetrain devices show NAME lists sources and clocks"
    table = plain_table(
        "device", "cores", "CPU max", "GPU", "GPU max", "memory max", "RAM", "USD", "peak W", "modes", title=title
    )
    for board in boards:
        table.add_row(
            board.key,
            f"{board.cores}",
            _top(board.cpu),
            f"{board.gpu_name} {board.cuda_cores or '–'}",
            _top(board.gpu),
            _top(board.emc),
            _gib(board.ram_bytes),
            spell(board.price_usd, digits=4),
            spell(board.peak_power_w),
            _count(board.mode_count),
        )
    return table


def show_board(board: Board, sources: Mapping[str, str]) -> RenderableType:
    """Return one board with its clock tables, stock modes and sources."""
    named = board.sources

    def by(name: str) -> str:
        return f"  [{named[name]}]" if name in named else ""

    title = Text(f"{board.key}   {board.title}   published", style="bold")
    lines = [
        f"chip {board.chip}, compute capability {board.compute_capability}; modules {_list(board.modules)}",
        f"CPU  {board.cpu_name}{by('cpu')}; {board.cores} cores{by('cores')}, clusters of {board.cluster}",
        f"GPU  {board.gpu_name}, {board.cuda_cores} CUDA cores, {board.tensor_cores} tensor cores" + by("cuda_cores"),
        f"RAM  {_gib(board.ram_bytes)}{by('ram_gib')}; Linux has {_gib(board.usable_bytes)} of it" + by("usable_bytes"),
        f"storage  {_list(board.storage)}{by('storage')}",
        f"price  {spell(board.price_usd, 'USD', 4)}{by('price_usd')};  peak  "
        f"{spell(board.peak_power_w, 'W')}{by('peak_power_w')}",
        f"input power  {' + '.join(board.total_rails) or 'no monitor on the board'}",
    ]
    if board.idle_socket_w:
        idle = ", ".join(f"{name.replace('_', ' ')} {watts:g} W" for name, watts in board.idle_socket_w.items())
        lines.append(f"idle at the socket  {idle}{by('idle_socket_w')}")
    if board.note:
        lines.append(f"note  {board.note}")
    parts: list[RenderableType] = [title, *(Text(line) for line in lines), Text("")]
    tables = {"CPU": board.cpu, "GPU": board.gpu, "memory": board.emc}
    parts += [_clocks(name, table) for name, table in tables.items()]
    parts.append(Text(f"custom modes  {_count(board.mode_count)}\n"))
    if board.stock_modes:
        parts.append(_stock(board))
    used = sorted({*named.values(), *(table.source for table in tables.values() if table)})
    parts += [Text("\nsources"), *(Text(f"  [{name}] {sources[name]}") for name in used)]
    return Group(*parts)


def _list(values: Sequence[str]) -> str:
    return ", ".join(values) or "–"


def _clocks(name: str, table: ClockTable | None) -> Text:
    if table is None:
        return Text(f"{name} clocks  – (no listing found)")
    shown = ", ".join(f"{hertz / 1e6:g}" for hertz in table.values_hz)
    note = f"; {table.note}" if table.note else ""
    return Text(f"{name} clocks  {len(table.values_hz)}, {table.standing} [{table.source}]{note}\n  {shown} MHz")


def _stock(board: Board) -> RenderableType:
    title = f"stock modes [{board.sources['stock_modes']}]: caps, not power budgets; – does not cap"
    table = plain_table("mode", "id", "cores", "CPU", "GPU", "memory", "GPU mask", title=title)
    for mode in board.stock_modes:
        name = mode.name + (" (default)" if mode.id == board.stock_default else "")
        clocks = [spell_hz(hertz) for hertz in (mode.cpu_hz, mode.gpu_hz, mode.emc_hz)]
        mask = "–" if mode.mask is None else f"{mode.mask}"
        table.add_row(name, f"{mode.id}", f"{mode.cores}", *clocks, mask)
    return table


def show_fits(need: MemoryNeed, fits: Sequence[Fit]) -> RenderableType:
    """Return whether a network fits on each board, and the assumptions behind that."""
    parts = {
        "parameters": need.parameters_bytes,
        "gradients": need.gradients_bytes,
        "optimizer state": need.optimizer_bytes,
        "activations": need.activations_bytes,
        "input": need.input_bytes,
    }
    counted = ", ".join(f"{name} {spell_bytes(value)}" for name, value in parts.items() if value is not None)
    tensors = f"tensors {spell_bytes(need.tensors_bytes)} ({need.origin})" + (f": {counted}" if counted else "")
    head = Text(f"{need.network}, batch {need.batch_size}: {tensors}", style="bold")
    table = plain_table("device", "usable", "needed ±", "left for the page cache", "of the dataset", "verdict")
    for fit in fits:
        left = spell_bytes(fit.left_bytes) if fit.left_bytes >= 0 else f"missing {spell_bytes(-fit.left_bytes)}"
        share = "–" if fit.cached_share is None else f"{fit.cached_share:.0%}"
        table.add_row(
            fit.device,
            spell_bytes(fit.usable_bytes),
            f"{spell_bytes(fit.needed_bytes)} ± {spell_bytes(fit.margin_bytes)}",
            left,
            share,
            Text(fit.verdict, style=COLOURS.get(fit.verdict, "")),
        )
    bases: dict[str, list[str]] = {}
    for fit in fits:
        bases.setdefault(fit.usable_basis, []).append(fit.device)
    assumed = dict.fromkeys(each for fit in fits for each in fit.assumptions)
    notes = [Text("\nassumed"), *(Text(f"  {each}") for each in assumed)]
    notes += [Text(f"  usable RAM of {', '.join(names)}: {basis}") for basis, names in bases.items()]
    return Group(head, Text(""), table, *notes)
