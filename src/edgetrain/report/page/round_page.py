"""The page of a federated round: a Gantt chart, the energy under other policies, every device as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgetrain.recommendation import SITS_OUT, RoundAnswer, RoundAssignment, RoundEnergy, spell_mode
from edgetrain.report.page.plot import Floats, Plot, PlotAxis, PlotMark, PlotSeries, PlotStyle, PointFact
from edgetrain.report.page.shell import render, standalone_svg
from edgetrain.units import J_PER_WH, spell, spell_seconds

MAX_ROWS = 2_000  # devices in the table
MAX_NAMED = 30  # devices whose name is written in the chart
DEVICE_HEADS = ("device", "board", "mode", "epochs", "finish", "slack", "power", "energy")
ENERGY_HEADS = ("policy", "energy", "the plan needs less by", "devices late")


def round_page(answer: RoundAnswer) -> str:
    """Return the page of a round."""
    plan = answer.plan
    chart = gantt(plan.assignments, plan.deadline_s)
    found = answer.simulation
    return render(
        "round.html.j2",
        f"Round: {answer.name}",
        [chart],
        answer=answer,
        verdict=_verdict(answer),
        tiles=_tiles(answer),
        chart=chart,
        energy_heads=ENERGY_HEADS,
        expected_rows=_energy_rows(plan.energies),
        simulated_rows=_energy_rows(found.energies) if found else [],
        device_heads=DEVICE_HEADS,
        device_rows=[_device_row(one) for one in plan.assignments[:MAX_ROWS]],
        left_out=max(0, len(plan.assignments) - MAX_ROWS),
        doubts=[doubt.text for doubt in (*plan.doubts, *(found.doubts if found else ()))],
    )


def round_svg(answer: RoundAnswer) -> str:
    """Return the Gantt chart of a round as an SVG file."""
    return standalone_svg(gantt(answer.plan.assignments, answer.plan.deadline_s))


def gantt(assignments: Sequence[RoundAssignment], deadline_s: float) -> Plot:
    """Return the round as a picture: one line per device, earliest finish at the bottom."""
    active = sorted((one for one in assignments if one.finish_s is not None), key=lambda one: one.finish_s or 0.0)
    rows = np.arange(1, len(active) + 1, dtype=float)
    begin, train, finish, latest = (
        np.array([value or 0.0 for value in column], float)
        for column in (
            [one.begin_s for one in active],
            [one.train_s for one in active],
            [one.finish_s for one in active],
            [one.latest_s for one in active],
        )
    )
    trained = begin + train

    names = tuple(one.device for one in active) if len(active) <= MAX_NAMED else ()

    def series(name: str, low: Floats, high: Floats, colour: str, facts: tuple[PointFact, ...] = ()) -> PlotSeries:
        main = name == "trains"
        return PlotSeries(
            name,
            high,
            rows,
            x_low=low,
            x_high=high,
            style=PlotStyle.POINTS,
            colour=colour,
            strong=main,
            facts=facts,
            labels=names if main else (),
        )

    power = np.array([np.nan if one.power_w is None else one.power_w for one in active], float)
    return Plot(
        "gantt",
        "The round, one line per device",
        PlotAxis("time since the start of the round", "s", 0.0, max(deadline_s, float(latest.max(initial=0.0))) * 1.12),
        PlotAxis("device, by its finish", "", 0.0, len(active) + 1.0),
        (
            series("waits and downloads", np.zeros(len(active)), begin, "baseload"),
            series("trains", begin, trained, "compute", (PointFact("power", "W", power),)),
            series("uploads", trained, finish, "copy"),
            series("margin", finish, latest, "overhead"),
        ),
        f"Gantt chart of {len(active)} devices; the deadline is at {spell_seconds(deadline_s)}",
        (PlotMark(deadline_s, f"deadline {spell_seconds(deadline_s)}", "limit"),),
        "expected times; the margin covers rounds that take longer",
        height=min(640, 160 + 14 * len(active)),
    )


def _verdict(answer: RoundAnswer) -> str:
    plan = answer.plan
    sitting_out = sum(one.status == SITS_OUT for one in plan.assignments)
    count = len(plan.assignments)
    text = f"{count - sitting_out} of {count} devices finish within {spell_seconds(plan.deadline_s)}"
    known = [one for one in plan.energies if one.plan_saves is not None and one.energy_j is not None]
    saved = [f"{one.plan_saves:.0%} less energy than {one.name}" for one in known]
    return f"{text}, with {' and '.join(saved)}." if saved else f"{text}; energies cannot be compared (see below)."


def _tiles(answer: RoundAnswer) -> list[tuple[str, str]]:
    plan, found = answer.plan, answer.simulation
    tiles = [
        (spell_seconds(plan.deadline_s), "deadline" if plan.given_deadline else "earliest deadline that all can meet"),
        (_energy(plan.energies[0].energy_j), f"expected energy of the round, {plan.origin}"),
        (
            str(len(plan.stragglers)),
            "straggler sets the pace" if len(plan.stragglers) == 1 else "stragglers set the pace",
        ),
    ]
    if found is not None and found.worst_late_share is not None:
        tiles.append(
            (f"{found.worst_late_share:.1%}", f"of {found.rounds} simulated rounds: {found.worst_device} is late")
        )
        tiles.append((f"{found.rounds_with_late:.1%}", "of them have any late device"))
    return tiles


def _energy(joules: float | None) -> str:
    return "–" if joules is None else spell(joules / J_PER_WH, "Wh")


def _energy_rows(energies: Sequence[RoundEnergy]) -> list[list[str]]:
    return [[one.name, _energy(one.energy_j), one.spell_saving(), str(one.late)] for one in energies]


def _device_row(one: RoundAssignment) -> list[str]:
    mode = f"{one.status}: {one.reason}" if one.mode is None else spell_mode(one.mode)
    return [
        one.device,
        one.board,
        mode,
        str(one.epochs),
        spell_seconds(one.finish_s),
        spell_seconds(one.slack_s),
        spell(one.power_w, "W"),
        _energy(one.energy_j),
    ]
