"""The plan of a federated round for the terminal: a Gantt chart, energies, and what simulated rounds show."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.recommendation import RoundAnswer, RoundAssignment, RoundEnergy, RoundPlan, RoundSimulation
from edgetrain.report.text import plain_table
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_MHZ, J_PER_WH, spell, spell_seconds

MAX_ROWS = 20  # devices shown one by one; a larger fleet shows the slowest and fastest of each kind
BAR = 36  # characters from the start of the round to its deadline


def show_round(answer: RoundAnswer, everything: bool = False) -> RenderableType:
    """Return the plan for the terminal; without `everything`, at most twenty devices."""
    plan = answer.plan
    shown = plan.assignments if everything else few_devices(plan.assignments)
    left = len(plan.assignments) - len(shown)
    asked = "given" if plan.given_deadline else "as early as possible"
    parts: list[RenderableType] = [
        Text(
            f"round {answer.name}: {answer.network} on {len(plan.assignments)} devices of {answer.fleet}", style="bold"
        ),
        Text(f"deadline {spell_seconds(plan.deadline_s)} ({asked}); {plan.origin}"),
        Text(""),
        _gantt(plan, shown),
        Text("· waits  ▒ transfers  █ trains  ░ margin for rounds that take longer  | deadline"),
    ]
    if left:
        parts.append(Text(f"{left} devices are left out here: the slowest and fastest of each kind are shown; --all"))
    if plan.stragglers:
        parts.append(Text(f"devices that set the pace of the round: {', '.join(plan.stragglers)}"))
    parts += [Text(""), _energies(plan.energies, "expected, to the deadline, waiting included")]
    if answer.simulation is not None:
        parts += [Text(""), *_simulated(answer.simulation, plan)]
    doubts = (*plan.doubts, *(answer.simulation.doubts if answer.simulation else ()))
    parts += [Text(f"doubt: {doubt.text}", style="yellow") for doubt in doubts]
    return Group(*parts)


def few_devices(assignments: Sequence[RoundAssignment], most: int = MAX_ROWS) -> tuple[RoundAssignment, ...]:
    """Return all devices, or of a large fleet the slowest and fastest of each kind, and some that sit out."""
    if len(assignments) <= most:
        return tuple(assignments)
    found: list[RoundAssignment] = []
    for board in dict.fromkeys(one.board for one in assignments):
        mine = sorted(
            (one for one in assignments if one.board == board and one.finish_s), key=lambda one: one.needs_s or 0.0
        )
        found += [mine[0], mine[-1]] if len(mine) > 1 else mine
    found += [one for one in assignments if one.finish_s is None][:3]
    return tuple(found)


def _gantt(plan: RoundPlan, shown: Sequence[RoundAssignment]) -> Table:
    table = plain_table("device", "round", "finish", "slack", "power", "energy", "cores/CPU/GPU/memory MHz")
    table.columns[1].justify = table.columns[6].justify = "left"
    for one in shown:
        mode = one.reason if one.mode is None else short_mode(one.mode) + (f"; {one.reason}" if one.reason else "")
        table.add_row(
            one.device,
            bar(one, plan.deadline_s),
            spell_seconds(one.finish_s),
            spell_seconds(one.slack_s),
            spell(one.power_w, "W"),
            _joules(one.energy_j),
            mode if one.mode is not None else f"sits out: {mode}",
        )
    return table


def short_mode(mode: PowerMode) -> str:
    """Spell a mode as `edgetrain modes set` reads it: cores and clocks in MHz."""
    clocks = (mode.cpu_hz, mode.gpu_hz, mode.emc_hz)
    return "/".join([str(mode.cores), *("-" if hertz is None else f"{hertz / HZ_PER_MHZ:g}" for hertz in clocks)])


def bar(one: RoundAssignment, deadline_s: float, width: int = BAR) -> str:
    """Return one device's round as characters, from its start to the deadline."""
    if one.train_s is None or one.finish_s is None or one.latest_s is None:
        return "·" * width + "|"

    def place(seconds: float) -> int:
        return max(0, min(width, round(width * seconds / deadline_s)))

    upload_s = one.finish_s - one.begin_s - one.train_s
    ends = (
        ("·", place(one.available_s)),
        ("▒", place(one.begin_s)),
        ("█", max(place(one.begin_s + one.train_s), place(one.begin_s) + 1)),
        ("▒", place(one.finish_s) if upload_s > 0 else 0),
        ("░", place(one.latest_s)),
        ("·", width),
    )
    text = ""
    for mark, end in ends:
        text += mark * (end - len(text))
    return text[:width] + "|"


def _energies(energies: Sequence[RoundEnergy], caption: str) -> Table:
    table = plain_table("energy " + caption, "energy", "plan needs less by", "late")
    for one in energies:
        table.add_row(one.name, _joules(one.energy_j), one.spell_saving(), str(one.late))
    return table


def _simulated(found: RoundSimulation, plan: RoundPlan) -> list[RenderableType]:
    worst = "no device finished"
    if found.worst_device is not None and found.worst_late_share is not None:
        worst = (
            f"late most often: {found.worst_device}, in {100 * found.worst_late_share:.1f} % of the rounds "
            f"(limit {100 * plan.late:g} %)"
        )
    lines = [
        f"{found.rounds} simulated rounds: {worst}",
        f"any device late in {found.rounds_with_late:.1%} of them, at most {found.most_late} at once; "
        f"{found.no_answer:.1%} without an answer",
    ]
    return [*map(Text, lines), _energies(found.energies, "simulated, mean")]


def _joules(joules: float | None) -> str:
    if joules is None:
        return "–"
    return spell(joules, "J") if joules < 10 * J_PER_WH else spell(joules / J_PER_WH, "Wh")
