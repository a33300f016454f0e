"""The catalogue of boards for the terminal: all of them, one of them, and whether a network fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.units import spell, spell_bytes, spell_hz

Document = Mapping[str, Any]
COLOURS = {"fits": "green", "fits, little cache": "yellow", "too close to call": "yellow", "does not fit": "red"}


def _gib(count: float | None) -> str:
    return "–" if count is None else f"{count / 2**30:.3g} GiB"


def _top(table: Document | None) -> str:
    return "–" if table is None else spell_hz(table["values_hz"][-1])


def show_catalogue(boards: Sequence[Document]) -> RenderableType:
    """Return one line per board."""
    title = "origin: published; – no source found; edgetrain devices show NAME has sources and clock tables"
    table = plain_table(
        "device", "cores", "CPU to", "GPU", "GPU to", "memory to", "RAM", "USD", "peak W", "modes", title=title
    )
    for board in boards:
        gpu = f"{board['gpu_name']} {board['cuda_cores'] or '–'}"
        count = board["mode_count"]
        table.add_row(
            board["key"],
            f"{board['cores']}",
            _top(board["cpu"]),
            gpu,
            _top(board["gpu"]),
            _top(board["emc"]),
            _gib(board["ram_bytes"]),
            spell(board["price_usd"], digits=4),
            spell(board["peak_power_w"]),
            "–" if count is None else f"{count:,}",
        )
    return table


def show_board(board: Document, sources: Mapping[str, str]) -> RenderableType:
    """Return one board with its clock tables, stock modes and sources."""
    told = board["sources"]

    def by(name: str) -> str:
        return f"  [{told[name]}]" if name in told else ""

    title = Text(f"{board['key']}   {board['title']}   published", style="bold")
    lines = [
        f"chip {board['chip']}, compute capability {board['compute_capability']}; modules {_list(board['modules'])}",
        f"CPU  {board['cpu_name']}{by('cpu')}; {board['cores']} cores{by('cores')}, clusters of {board['cluster']}",
        f"GPU  {board['gpu_name']}, {board['cuda_cores']} CUDA cores, {board['tensor_cores']} tensor cores"
        + by("cuda_cores"),
        f"RAM  {_gib(board['ram_bytes'])}{by('ram_gib')}; Linux has {_gib(board['usable_bytes'])} of it"
        + by("usable_bytes"),
        f"storage  {_list(board['storage'])}{by('storage')}",
        f"price  {spell(board['price_usd'], 'USD', 4)}{by('price_usd')};  peak  "
        f"{spell(board['peak_power_w'], 'W')}{by('peak_power_w')}",
        f"input power  {' + '.join(board['total_rails']) or 'no monitor on the board'}",
    ]
    if board["idle_socket_w"]:
        idle = ", ".join(f"{name.replace('_', ' ')} {watts:g} W" for name, watts in board["idle_socket_w"].items())
        lines.append(f"idle at the socket  {idle}{by('idle_socket_w')}")
    if board["note"]:
        lines.append(f"note  {board['note']}")
    parts: list[RenderableType] = [title, *(Text(line) for line in lines), Text("")]
    for name, key in (("CPU", "cpu"), ("GPU", "gpu"), ("memory", "emc")):
        parts.append(_clocks(name, board[key]))
    count = board["mode_count"]
    parts.append(Text(f"custom modes  {'–' if count is None else format(count, ',')}\n"))
    if board["stock_modes"]:
        parts.append(_stock(board))
    used = sorted({*told.values(), *(board[key]["source"] for key in ("cpu", "gpu", "emc") if board[key])})
    parts += [Text("\nsources"), *(Text(f"  [{name}] {sources[name]}") for name in used)]
    return Group(*parts)


def _list(values: Sequence[str]) -> str:
    return ", ".join(values) or "–"


def _clocks(name: str, table: Document | None) -> Text:
    if table is None:
        return Text(f"{name} clocks  – (no listing found)")
    values = table["values_hz"]
    shown = ", ".join(f"{hertz / 1e6:g}" for hertz in values)
    note = f"; {table['note']}" if table["note"] else ""
    return Text(f"{name} clocks  {len(values)}, {table['standing']} [{table['source']}]{note}\n  {shown} MHz")


def _stock(board: Document) -> RenderableType:
    title = escape(f"stock modes [{board['sources']['stock_modes']}]: caps, not power budgets; – does not cap")
    table = plain_table("mode", "id", "cores", "CPU", "GPU", "memory", "GPU mask", title=title)
    for mode in board["stock_modes"]:
        name = mode["name"] + (" (default)" if mode["id"] == board["stock_default"] else "")
        clocks = [spell_hz(mode[key]) for key in ("cpu_hz", "gpu_hz", "emc_hz")]
        mask = "–" if mode["mask"] is None else f"{mode['mask']}"
        table.add_row(name, f"{mode['id']}", f"{mode['cores']}", *clocks, mask)
    return table


def show_fits(need: Document, fits: Sequence[Document]) -> RenderableType:
    """Return whether a network fits on each board, and what that stands on."""
    parts = [
        (name, need.get(f"{key}_bytes"))
        for name, key in (
            ("parameters", "parameters"),
            ("gradients", "gradients"),
            ("optimiser state", "optimizer"),
            ("activations", "activations"),
            ("input", "input"),
        )
    ]
    counted = ", ".join(f"{name} {spell_bytes(value)}" for name, value in parts if value is not None)
    told = f"tensors {spell_bytes(need['tensors_bytes'])} ({need['origin']})" + (f": {counted}" if counted else "")
    head = Text(f"{need['network']}, batch {need['batch_size']}: {told}", style="bold")
    table = plain_table("device", "usable", "needed ±", "left for the page cache", "of the dataset", "verdict")
    for fit in fits:
        left = (
            spell_bytes(fit["left_bytes"]) if fit["left_bytes"] >= 0 else f"missing {spell_bytes(-fit['left_bytes'])}"
        )
        share = "–" if fit["cached_share"] is None else f"{fit['cached_share']:.0%}"
        table.add_row(
            fit["device"],
            spell_bytes(fit["usable_bytes"]),
            f"{spell_bytes(fit['needed_bytes'])} ± {spell_bytes(fit['margin_bytes'])}",
            left,
            share,
            Text(fit["verdict"], style=COLOURS.get(fit["verdict"], "")),
        )
    bases: dict[str, list[str]] = {}
    for fit in fits:
        bases.setdefault(fit["usable_basis"], []).append(fit["device"])
    notes = [Text("\nstanding on"), *(Text(f"  {each}") for each in (fits[0]["assumptions"] if fits else ()))]
    notes += [Text(f"  usable RAM of {', '.join(names)}: {basis}") for basis, names in bases.items()]
    return Group(head, Text(""), table, *notes)
