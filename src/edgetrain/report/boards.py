"""What a person reads about a board: its power modes, what is held, what it draws idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.units import spell, spell_hz


def show_modes(document: Mapping[str, Any]) -> RenderableType:
    """Return stock modes, clock tables and what is held now."""
    device, tables = document["device"], document["clocks"]
    parts: list[RenderableType] = [
        Text(f"{device['model'] or device['name']}   {document['origin']}", style="bold"),
    ]
    if document["stock"]:
        table = plain_table(
            "id", "name", "cores", "CPU", "GPU", "memory", "note", title="stock modes: what they really cap"
        )
        for mode in document["stock"]:
            notes = [
                word for word, true in (("in force", mode["active"]), ("factory default", mode["default"])) if true
            ]
            if any(mask not in ("0", "-1") for _, mask in mode["gated"]):
                notes.append("parts of the GPU off")
            if mode["reboot"]:
                notes.append("needs a reboot")
            caps = mode["mode"]
            table.add_row(
                str(mode["id"]), mode["name"], str(caps["cores"]), spell_hz(caps["cpu_hz"]), spell_hz(caps["gpu_hz"]),
                spell_hz(caps["emc_hz"]), ", ".join(notes),
            )  # fmt: skip
        parts += [Text(""), table]
    else:
        parts.append(Text("no stock modes: the board has no nvpmodel configuration"))
    clocks = plain_table("clock", "values", "lowest", "highest", title=f"{document['custom_modes']} custom modes")
    for name, label in (("cpu_hz", "CPU"), ("gpu_hz", "GPU"), ("emc_hz", "memory")):
        values = tables[name]
        low, high = (spell_hz(values[0]), spell_hz(values[-1])) if values else ("–", "–")
        clocks.add_row(label, str(len(values)) if values else "cannot be set here", low, high)
    parts += [Text(""), clocks, Text(f"1 to {max(tables['cores'])} cores")]
    parts.append(Text(f"\nnow: {document['now']}"))
    if document["held"]:
        parts.append(Text(f"held by edgetrain: {document['held']}; undo it with: edgetrain modes restore"))
    parts += [Text(f"the configuration: {problem}", style="yellow") for problem in document["problems"]]
    return Group(*parts)


def show_writes(document: Mapping[str, Any]) -> RenderableType:
    """Return every write that was or would be done."""
    head = "would write" if document["dry_run"] else "wrote"
    lines = [Text(f"{document['asked']}", style="bold"), Text(f"{head} {len(document['writes'])} values:")]
    if document.get("program"):
        lines.append(Text(f"  run {document['program']} (its prompt is answered with no)"))
    for write in document["writes"]:
        lines.append(
            Text(f"  {write['path']}: {write['before'] if write['before'] is not None else '–'} → {write['value']}")
        )
    if document.get("needs_root"):
        lines.append(Text("only root may write these; run the same command with sudo", style="yellow"))
    return Group(*lines)


def show_baseload(document: Mapping[str, Any]) -> RenderableType:
    """Return the idle table; what the board's sensor saw and what a socket meter saw in tables of their own."""
    scope = document["scope"]
    table = plain_table("state", "power", "±", "readings", title=f"idle power, {scope} input ({document['origin']})")
    reasons = []
    for row in document["rows"]:
        clocks = {True: "clocks free (DVFS on)", False: "clocks held (DVFS off)", None: "clocks as found"}[row["dvfs"]]
        table.add_row(
            f"{clocks}, logging {'on' if row['logging'] else 'off'}",
            spell(row["power_w"], "W"),
            spell(row["pm_w"], "W", 2),
            str(row["readings"]) if row["readings"] else "–",
        )
        if row["reason"] and row["reason"] not in reasons:
            reasons.append(row["reason"])
    parts: list[RenderableType] = [table, *(Text(f"not measured: {reason}", style="yellow") for reason in reasons)]
    if document["socket"]:
        socket = plain_table(
            "state", "power", "origin", title="\nat the socket: another scope, never to be mixed with the above"
        )
        for row in document["socket"]:
            socket.add_row(row["state"], spell(row["power_w"], "W"), row["origin"])
        parts.append(socket)
    return Group(*parts)
