"""The ranking of `choose-device` for the terminal: boards with storage and RAM, best first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.recommendation import DeviceRanking, HardwareOption
from edgetrain.report.text import plain_table
from edgetrain.schema import Estimate
from edgetrain.units import J_PER_WH, spell, spell_seconds


def show_options(ranking: DeviceRanking, everything: bool = False) -> RenderableType:
    """Return the ranking for the terminal; without `everything`, only options that meet the target or may."""
    meets = [each for each in ranking.options if each.verdict == "meets"]
    maybe = [each for each in ranking.options if each.verdict == "cannot say" and each.epoch_s is not None]
    shown = list(ranking.options) if everything else [*meets, *maybe]
    parts: list[RenderableType] = []
    if not meets:
        parts.append(Text("no option is known to meet the target", style="bold red"))
    parts += [
        _table(shown),
        Text(
            "* the slowest storage medium of this board that is fast enough: training hides its fetching "
            "after the first epoch"
        ),
    ]
    parts += _reasons(shown)
    if not everything:
        left = len(ranking.options) - len(shown)
        silent = sorted(
            {each.title for each in ranking.options if each.verdict == "cannot say" and each.epoch_s is None}
        )
        if silent:
            parts.append(Text(f"no figure for this network on: {', '.join(silent)}"))
        if left:
            parts.append(Text(f"{left} combinations are not shown; --all shows them with the reasons"))
    parts += [Text(f"note: {note}", style="yellow") for note in ranking.notes]
    sources = dict.fromkeys(source for each in shown for source in each.sources)
    parts += [Text(f"source: {source}", style="bright_black") for source in sources]
    return Group(*parts)


def _table(options: Sequence[HardwareOption]) -> Table:
    table = plain_table(
        "board", "storage", "RAM", "USD", "fits", "epoch", "origin", "training", "energy", "fetching", "verdict"
    )
    for each in options:
        energy = each.epoch_energy_j
        table.add_row(
            each.title,
            each.medium + (" *" if each.just_enough else ""),
            f"{each.ram_bytes / 2**30:g} GiB",
            "–" if each.price_usd is None else f"{each.price_usd:,.0f}",
            each.fits or "–",
            _range(each.epoch_s),
            "–" if each.epoch_s is None else str(each.epoch_s.origin),
            _range(each.total_s),
            "–" if energy is None else spell(energy.value / J_PER_WH, "Wh"),
            {None: "–", True: "hidden", False: "not hidden"}[each.fetch_hidden],
            each.verdict,
        )
    return table


def _reasons(options: Sequence[HardwareOption]) -> list[RenderableType]:
    reasons: dict[str, list[str]] = {}
    for each in options:
        for reason in (*each.fails, *each.unknown):
            reasons.setdefault(reason, []).append(f"{each.title} with {each.medium}")
    return [Text(f"{reason}: {', '.join(which)}", style="yellow") for reason, which in reasons.items()]


def _range(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.hi > estimate.lo:
        return f"{spell_seconds(estimate.lo)} to {spell_seconds(estimate.hi)}"
    return spell_seconds(estimate.value)
