"""What a person reads of a what-if: the epochs of each setting, what was assumed, and the doubts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.prediction import LATER_EPOCHS, EpochPrediction, WhatIfAnswer, WhatIfRow, total_of
from edgetrain.report.sweep import spell_setting, sweep_bars
from edgetrain.report.text import FittingTable, plain_table
from edgetrain.schema import Estimate
from edgetrain.units import spell, spell_gain_pct, spell_interval, spell_seconds

RECORDED, UNCHANGED = "as recorded", "no change"
START = (
    "first, cold: the page cache does not hold the dataset when the training begins; first, warm: it holds as much of "
    "it as fits (cache=cold, cache=warm)"
)
NAME = 26  # characters of a setting, in a line of the narrower tables
SMALL_ERROR_PCT = 0.5  # of the model: below, it is not mentioned


def show_whatif(answer: WhatIfAnswer) -> RenderableType:
    """Return the answer for the terminal."""
    lines: list[RenderableType] = [
        Text.from_markup(f"[bold]{answer.run}[/], predicted from its record"),
        Text(""),
        _table(answer),
    ]
    if answer.swept is not None:
        lines += [Text(""), sweep_bars(answer)]
    level = answer.base.later.e2e_s.level
    lines.append(
        Text(
            f"\n[lo, hi]: {level:.0%} interval, from how much runs of one setting differ and how uncertain each cost "
            f'is; gain: of the time beside it, against "{UNCHANGED}", the recorded setting as the model predicts it'
        )
    )
    lines.append(Text(START))
    lines += [Text(text) for text in _model_error(answer)]
    if answer.between_runs_pct is not None:
        lines.append(
            Text(
                f"the intervals include the spread between {answer.repeats + 1} runs of the recorded setting: "
                f"{answer.between_runs_pct:.1f} % (standard deviation)"
            )
        )
    assumed = dict.fromkeys(text for row in answer.settings for text in row.assumed)
    lines += [Text(f"assumed: {text}", style="yellow") for text in assumed]
    lines += [Text(f"note: {text}", style="yellow") for text in answer.notes]
    lines += [Text(f"doubt about the run: {doubt.text}", style="yellow") for doubt in answer.doubts]
    return Group(*lines)


def _model_error(answer: WhatIfAnswer) -> list[str]:
    """Return how far the model was from the recorded setting, where that is worth a line."""
    error_pct = answer.model_error_pct
    if abs(error_pct) < SMALL_ERROR_PCT:
        return []
    which = "epoch" if len(answer.recorded) == 1 else "later epochs"
    return [
        f"correction: the model alone makes the recorded {which} {abs(error_pct):.1f} % too "
        f"{'long' if error_pct > 0 else 'short'}; every prediction is corrected by that"
    ]


def _table(answer: WhatIfAnswer) -> RenderableType:
    """Return one table where it fits, else end-to-end times apart from their parts, else each part apart."""
    rows, epochs = (answer.base, *answer.settings), len(answer.recorded)
    whole = ("gain", "end to end")
    parts = ("fetch stall", "compute", *(["energy"] if any(row.later.energy_j is not None for row in rows) else []))
    heads = ((*whole, *parts), whole, parts, *((part,) for part in (*whole, *parts)))
    tables = [plain_table("setting", "epoch", *some) for some in heads]
    for table in tables:
        table.columns[0].overflow = "fold"  # a setting that is cut short cannot be distinguished from its neighbour
        table.columns[0].min_width = min(NAME, max(len(_name(row)) for row in rows))
    recorded = _recorded_cells(answer)
    for row in (None, *rows):
        cells = recorded if row is None else _cells(row, epochs, row is answer.base)
        name = RECORDED if row is None else _name(row)
        names = _name_lines(name, len(cells))
        for place, (which, gain, *times) in enumerate(cells):
            times = times[: 1 + len(parts)]
            tables[0].add_row(name if place == 0 else "", which, gain, *times)
            tables[1].add_row(names[place], which, gain, times[0])
            tables[2].add_row(names[place], which, *times[1:])
            for table, cell in zip(tables[3:], (gain, *times), strict=True):
                table.add_row(names[place], which, cell)
    return FittingTable(tables[0], FittingTable(tables[1], *tables[3:5]), FittingTable(tables[2], *tables[5:]))


def _cells(row: WhatIfRow, epochs: int, recorded: bool) -> list[tuple[str, ...]]:
    """Return a setting's rows: epoch, gain, times and energy; the gain stands beside the time that it is of."""
    gain = "" if recorded else spell_gain_pct(row.gain_pct, 1)
    of_later = row.gain_of == LATER_EPOCHS
    first, later = row.first, row.later
    energy_j = None
    if first.energy_j is not None and later.energy_j is not None:
        energy_j = total_of(first.energy_j, later.energy_j, epochs)
    total = (
        row.total_s,
        total_of(first.stall_s, later.stall_s, epochs),
        total_of(first.compute_s, later.compute_s, epochs),
        energy_j,
    )
    found = [
        (f"first, {first.cache}", "" if of_later or epochs > 1 else gain, _estimates(first)),
        ("later", gain if of_later else "", _estimates(later)),
    ]
    if epochs > 1:
        found.append((f"all {epochs}", "" if of_later else gain, total))
    return [(which, shown, *map(with_bounds, estimates)) for which, shown, estimates in found]


def _estimates(epoch: EpochPrediction) -> tuple[Estimate | None, ...]:
    return epoch.e2e_s, epoch.stall_s, epoch.compute_s, epoch.energy_j


def _recorded_cells(answer: WhatIfAnswer) -> list[tuple[str, ...]]:
    """Return the rows of what was recorded: the first epoch, and the mean of later ones."""
    first, later = answer.recorded[:1], answer.recorded[1:]
    found = []
    for which, epochs in (("first", first), ("later" if len(later) == 1 else "later, mean", later)):
        if epochs:
            means = [
                _mean(one.e2e_s for one in epochs),
                _mean(one.stall_s for one in epochs),
                _mean(one.compute_s for one in epochs),
            ]
            energy_j = _mean(one.energy_j for one in epochs)
            energy = "–" if energy_j is None else f"{spell(energy_j)} J"
            found.append((which, "", *map(spell_seconds, means), energy))
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _name_lines(name: str, count: int) -> list[str]:
    """Return a setting's name as the first cells of its `count` rows, so that a long one makes none of them higher."""
    lines: list[str] = []
    for word in name.split(", "):
        if lines and len(lines[-1]) + 2 + len(word) <= NAME:
            lines[-1] += f", {word}"
        else:
            lines = [*(f"{line}," if line is lines[-1] else line for line in lines), word]
    return [*lines[: count - 1], "\n".join(lines[count - 1 :]), *[""] * count][:count]


def _name(row: WhatIfRow) -> str:
    return ", ".join(f"{name}={spell_setting(value)}" for name, value in row.changes.items()) or UNCHANGED


def with_bounds(estimate: Estimate | None) -> str:
    """Spell an estimate with its interval."""
    if estimate is None:
        return "–"
    if estimate.unit != "s":
        return f"{spell(estimate.value)} [{spell(estimate.lo)}, {spell(estimate.hi)}] {estimate.unit}"
    return spell_interval(estimate.value, estimate.lo, estimate.hi)
