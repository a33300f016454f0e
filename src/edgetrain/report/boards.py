"""What a person reads about a board: its power modes, what is held, what was changed, what it draws idle."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.schema import IdlePreview, IdleTable, ModeChange, ModeListing, ModeRestore, SettingWrite, StockMode
from edgetrain.units import spell, spell_hz, spell_seconds


def show_modes(listing: ModeListing) -> RenderableType:
    """Return stock modes, clock tables and what is in force."""
    device, clocks = listing.device, listing.clocks
    parts: list[RenderableType] = [Text(f"{device.model or device.name}   {listing.origin}", style="bold")]
    if listing.stock:
        table = plain_table(
            "id", "name", "cores", "CPU", "GPU", "memory", "note", title="stock modes and the clocks they cap"
        )
        for stock in listing.stock:
            mode = stock.mode
            table.add_row(
                str(stock.id), stock.name, str(mode.cores), spell_hz(mode.cpu_hz), spell_hz(mode.gpu_hz),
                spell_hz(mode.emc_hz), ", ".join(_notes(stock)),
            )  # fmt: skip
        parts += [Text(""), table]
    else:
        parts.append(Text("no stock modes: the board has no nvpmodel configuration"))
    tables = plain_table("clock", "values", "lowest", "highest", title=f"{listing.custom_modes} custom modes")
    for label, values in (("CPU", clocks.cpu_hz), ("GPU", clocks.gpu_hz), ("memory", clocks.emc_hz)):
        low, high = (spell_hz(values[0]), spell_hz(values[-1])) if values else ("–", "–")
        tables.add_row(label, str(len(values)) if values else "cannot be set here", low, high)
    parts += [Text(""), tables, Text(f"1 to {max(clocks.cores)} cores")]
    parts.append(Text(f"\nnow: {listing.now}"))
    if listing.held:
        parts.append(Text(f"held by edgetrain: {listing.held}; undo it with: edgetrain modes restore"))
    parts += [Text(f"the configuration: {problem}", style="yellow") for problem in listing.problems]
    return Group(*parts)


def _notes(stock: StockMode) -> list[str]:
    notes = {
        "in force": stock.active,
        "factory default": stock.default,
        "parts of the GPU off": stock.gates_gpu,
        "needs a reboot": stock.reboot is not None,
    }
    return [note for note, true in notes.items() if true]


def _lines(writes: tuple[SettingWrite, ...]) -> list[Text]:
    return [Text(f"  {write}") for write in writes]


def show_change(change: ModeChange) -> RenderableType:
    """Return every write that was or would be done, and what else there is to know."""
    head = "would write" if change.dry_run else "wrote"
    lines = [Text(change.asked, style="bold"), Text(f"{head} {len(change.writes)} values:")]
    if change.program:
        lines.append(Text(f"  run {change.program} (its prompt is answered with no)"))
    lines += _lines(change.writes)
    if change.needs_root:
        lines.append(Text("only root may write these; run the same command with sudo", style="yellow"))
    if change.needs_reboot:
        lines.append(Text(f"needs a reboot: {change.needs_reboot}", style="yellow"))
    lines += [Text(f"note: {doubt}", style="yellow") for doubt in change.doubts]
    return Group(*lines, Text(f"now: {change.now}"))


def show_restore(done: ModeRestore, at_boot: bool | None = None) -> RenderableType:
    """Return what restoring did, or would do; `at_boot`: of the unit that does it at every boot."""
    if at_boot is not None:
        would = "would be " if done.dry_run else ""
        if at_boot:
            text = "a power mode that survived a power cut is undone at the next boot"
            return Text(f"{done.unit} {would}installed: {text}")
        return Text(f"the unit that restores at boot {would or 'was '}removed")
    if done.asked is None:
        return Text("nothing to restore: edgetrain has not changed this board")
    if done.restored is None:
        return Group(Text(f"would undo {done.asked}: {len(done.writes)} values", style="bold"), *_lines(done.writes))
    later = [Text(f"note: {text}", style="yellow") for text in done.restored.later]
    head = f"undid {done.asked}; now {done.now}" + (f"; wrote {len(done.writes)} values:" if done.writes else "")
    return Group(Text(head), *_lines(done.writes), *later)


def show_baseload_preview(preview: IdlePreview) -> RenderableType:
    """Return what would be measured, and for how long."""
    change = "the clocks are set and restored in between" if preview.changes_clocks else "no clock is changed"
    lines = [
        f"would measure the idle power of {preview.device} ({preview.scope} input):",
        *(f"  {state}" for state in preview.states),
        f"takes {spell_seconds(preview.takes_s)}; {change}",
    ]
    return Text("\n".join(lines))


def show_baseload(idle: IdleTable) -> RenderableType:
    """Return the idle table; what the board's sensor saw and what a socket meter saw in tables of their own."""
    table = plain_table("state", "power", "±", "readings", title=f"idle power, {idle.scope} input ({idle.origin})")
    reasons = []
    for row in idle.rows:
        clocks = {True: "clocks free (DVFS on)", False: "clocks held (DVFS off)", None: "clocks as found"}[row.dvfs]
        table.add_row(
            f"{clocks}, logging {'on' if row.logging else 'off'}",
            spell(row.power_w, "W"),
            spell(row.pm_w, "W", 2),
            str(row.readings) if row.readings else "–",
        )
        if row.reason and row.reason not in reasons:
            reasons.append(row.reason)
    parts: list[RenderableType] = [table, *(Text(f"not measured: {reason}", style="yellow") for reason in reasons)]
    if idle.socket:
        socket = plain_table(
            "state", "power", "origin", title="\nat the socket, power supply included: not comparable with the above"
        )
        for entry in idle.socket:
            socket.add_row(entry.state, spell(entry.power_w, "W"), entry.origin)
        parts.append(socket)
    return Group(*parts)
