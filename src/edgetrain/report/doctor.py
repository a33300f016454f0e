"""What can be measured and set here and what cannot, for a person in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.schema import DoctorReport, Finding, SamplingCost
from edgetrain.units import spell, spell_bytes, spell_seconds

_AREAS = (
    "training",
    "cpu",
    "memory",
    "memory clock",
    "storage",
    "gpu",
    "temperature",
    "power",
    "control",
    "lab",
    "record",
)
_MARKS = {True: ("yes", "green"), False: ("no", "red"), None: ("–", "bright_black")}


def show_doctor(report: DoctorReport) -> RenderableType:
    """Return the device, each finding, then how to fix what is missing."""
    parts: list[RenderableType] = [_device(report), Text(""), _table(report.findings)]
    fixes = [finding for finding in report.findings if finding.fix]
    if fixes:
        parts += [Text(""), Text("how to fix", style="bold")]
        parts += [Text.assemble(f"  {finding.what}: ", (finding.fix or "", "cyan")) for finding in fixes]
    parts += [Text(""), Text(_cost(report.overhead))]
    return Group(*parts)


def _device(report: DoctorReport) -> Text:
    device, power = report.device, report.power
    facts = [
        device.model or device.name,
        f"{device.cores} cores" if device.cores else None,
        spell_bytes(device.ram_bytes) + " RAM" if device.ram_bytes else None,
        device.gpu,
        f"L4T {device.l4t} (JetPack {device.jetpack or 'unknown'})" if device.l4t else None,
        f"kernel {device.kernel}" if device.kernel else None,
    ]
    text = Text(", ".join(str(fact) for fact in facts if fact), style="bold")
    if power is None:
        text.append(
            "\nenergy: not measured here, because no power sensor can be read; it is null in every run", style=""
        )
    else:
        how = "its energy counter" if power.counter_column else "the integral of " + " + ".join(power.columns)
        new = f"; time resolution {spell_seconds(power.refresh_s)}" if power.refresh_s else ""
        text.append(f"\nenergy: measured for the {power.scope}, from {how}{new}", style="")
    return text


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in ("area", "what", "works", "found"):
        table.add_column(header, overflow="fold")
    for finding in sorted(findings, key=lambda each: _AREAS.index(each.area) if each.area in _AREAS else len(_AREAS)):
        mark, style = _MARKS[finding.works]
        table.add_row(finding.area, finding.what, Text(mark, style=style), Text(finding.detail))
    return table


def _cost(cost: SamplingCost) -> str:
    share = spell(100 * cost.cpu_share, "%", 2)
    return f"sampling these sensors costs {share} of one core here (measured, {len(cost.per_probe)} probes)"
