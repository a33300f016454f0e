"""What a person reads of `choose-device`: boards with storage and RAM, best first, with what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.units import J_PER_WH, spell, spell_seconds


def show_options(document: Mapping[str, Any], everything: bool = False) -> RenderableType:
    """Return the ranking for the terminal; without `everything`, only what meets the target or may."""
    options = document["options"]
    meets = [each for each in options if each["verdict"] == "meets"]
    maybe = [each for each in options if each["verdict"] == "cannot say" and each["epoch_s"] is not None]
    shown = options if everything else [*meets, *maybe]
    parts: list[RenderableType] = []
    if not meets:
        parts.append(Text("nothing is known to meet the target", style="bold red"))
    table = plain_table(
        "board", "storage", "RAM", "USD", "fits", "an epoch", "origin", "training", "energy", "fetch", "verdict"
    )
    for each in shown:
        table.add_row(
            escape(each["title"]),
            each["medium"] + (" *" if each["just_enough"] else ""),
            f"{each['ram_bytes'] / 2**30:g} GiB",
            "–" if each["price_usd"] is None else f"{each['price_usd']:,.0f}",
            each["fits"] or "–",
            _range(each["epoch_s"]),
            "–" if each["epoch_s"] is None else each["epoch_s"]["origin"],
            _range(each["total_s"]),
            "–" if each["epoch_energy_j"] is None else spell(each["epoch_energy_j"]["value"] / J_PER_WH, "Wh"),
            {None: "–", True: "hidden", False: "not hidden"}[each["fetch_hidden"]],
            each["verdict"],
        )
    parts += [table, Text("* the slowest storage of this board whose fetching training hides after the first epoch")]
    reasons: dict[str, list[str]] = {}
    for each in shown:
        for reason in (*each["fails"], *each["unknown"]):
            reasons.setdefault(reason, []).append(f"{each['title']} with {each['medium']}")
    parts += [Text(f"{reason}: {', '.join(whose)}", style="yellow") for reason, whose in reasons.items()]
    if not everything:
        left = len(options) - len(shown)
        silent = sorted(
            {each["title"] for each in options if each["verdict"] == "cannot say" and each["epoch_s"] is None}
        )
        if silent:
            parts.append(Text(f"no figure for this network on: {', '.join(silent)}"))
        if left:
            parts.append(Text(f"{left} combinations are not shown; --all shows them with the reasons"))
    parts += [Text(f"note: {note}", style="yellow") for note in document["notes"]]
    sources = dict.fromkeys(source for each in shown for source in each["sources"])
    parts += [Text(f"source: {source}", style="bright_black") for source in sources]
    return Group(*parts)


def _range(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "–"
    if estimate["hi"] > estimate["lo"]:
        return f"{spell_seconds(estimate['lo'])} to {spell_seconds(estimate['hi'])}"
    return spell_seconds(estimate["value"])
