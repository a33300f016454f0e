"""What the machine did during each epoch, for the terminal: utilisation, IOPS, clocks, temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import RenderableType
from rich.text import Text

from edgetrain.analysis import EpochSummary, MachineReadings
from edgetrain.report.terminal import plain_table
from edgetrain.units import HZ_PER_MHZ, spell, spell_bytes


def spell_share(share: float | None) -> str:
    """Spell a share as a percentage."""
    return "–" if share is None else f"{share:.0%}"


def spell_mhz(hertz: float | None) -> str:
    """Spell a mean clock in whole megahertz, without the unit."""
    return "–" if hertz is None else f"{hertz / HZ_PER_MHZ:.0f}"


Cell = Callable[[MachineReadings], float | None]
COLUMNS: tuple[tuple[str, Cell, Callable[[float | None], str]], ...] = (
    ("CPU", lambda one: one.cpu_share, spell_share),
    ("busiest\ncore", lambda one: one.busiest_core_share, spell_share),
    ("GPU", lambda one: one.gpu_share, spell_share),
    ("memory\ncontroller", lambda one: one.memory_controller_share, spell_share),
    ("memory,\nmost", lambda one: one.memory_bytes, spell_bytes),
    ("GPU memory,\nmost", lambda one: one.gpu_memory_bytes, spell_bytes),
    ("reads\n/s", lambda one: one.reads_per_s, spell),
    ("read\nB/s", lambda one: one.read_bytes_per_s, spell_bytes),
    ("CPU\nMHz", lambda one: one.cpu_hz, spell_mhz),
    ("GPU\nMHz", lambda one: one.gpu_hz, spell_mhz),
    ("memory\nMHz", lambda one: one.memory_hz, spell_mhz),
    ("hottest\n°C", lambda one: one.temp_c, spell),
)


def machine_cells(epochs: Sequence[EpochSummary]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells of what was read, epoch by epoch; a quantity that was never read has no column."""
    known = [epoch.machine for epoch in epochs if epoch.machine is not None]
    shown = [column for column in COLUMNS if any(column[1](one) is not None for one in known)]
    if not shown:
        return [], []
    rows = []
    for epoch in epochs:
        machine = epoch.machine or MachineReadings()
        rows.append([str(epoch.epoch), *(spelled(value(machine)) for _, value, spelled in shown)])
    return ["epoch", *(head for head, _, _ in shown)], rows


def machine_table(epochs: Sequence[EpochSummary]) -> list[RenderableType]:
    """Return the table for the terminal and a line after it; nothing where no telemetry was recorded."""
    heads, rows = machine_cells(epochs)
    if not heads:
        return []
    table = plain_table(*heads)
    for cells in rows:
        table.add_row(*cells)
    lines = ["means over the epoch, of the whole machine"]
    rails = mean_rails_w(epochs)
    if len(rails) > 1:
        lines.append(f"power by rail, mean: {', '.join(f'{name} {spell(watts)}' for name, watts in rails.items())} W")
    return [table, Text("\n".join(lines) + "\n")]


def mean_rails_w(epochs: Sequence[EpochSummary]) -> dict[str, float]:
    """Return the mean power of the total and of each rail over some epochs, epochs weighted by their length."""
    sums: dict[str, float] = {}
    known_s: dict[str, float] = {}
    for epoch in epochs:
        for name, watts in (epoch.machine.rails_w if epoch.machine else {}).items():
            sums[name] = sums.get(name, 0.0) + watts * epoch.e2e_s
            known_s[name] = known_s.get(name, 0.0) + epoch.e2e_s
    return {name: total / known_s[name] for name, total in sums.items() if known_s[name]}
