"""Plans federated rounds: each device's power mode, so that all finish in time with the least energy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgetrain.api.files import write_text
from edgetrain.api.round_files import read_round
from edgetrain.errors import UsageError
from edgetrain.recommendation import RoundAnswer, RoundPlan, simulate_rounds
from edgetrain.recommendation import plan_round as plan_devices
from edgetrain.report import round_page, round_svg
from edgetrain.units import spell_seconds


def plan_round(path: Path | str, *, simulate: int | None = None, seed: int = 0) -> RoundAnswer:
    """Plan the round of a round file and simulate it.

    `simulate`: the number of simulated rounds; None: as the file says; 0: none.
    """
    found = read_round(path)
    plan = plan_devices(found.devices, found.rules)
    _check_enough(plan, found.rules.least_devices)
    plan = replace(plan, doubts=(*plan.doubts, *found.doubts))
    rounds = found.rules.rounds if simulate is None else simulate
    simulation = None
    if rounds > 0:
        simulation = simulate_rounds(plan, found.devices, found.rules, rounds, seed)
    return RoundAnswer(found.name, found.fleet, found.network, plan, simulation)


def _check_enough(plan: RoundPlan, least: int | None) -> None:
    """Refuse a round in which fewer devices train than the file asks for."""
    trains = sum(one.row is not None for one in plan.assignments)
    if least is None or trains >= least:
        return
    needs = sorted(one.needs_s for one in plan.assignments if one.needs_s is not None)
    remedy = f"only {len(needs)} take part: ask for fewer"
    if len(needs) >= least:
        remedy = f"allow a deadline of {spell_seconds(needs[least - 1])}, or ask for fewer"
    raise UsageError(
        f"{trains} of {len(plan.assignments)} devices finish within {spell_seconds(plan.deadline_s)}, fewer than "
        f"least_devices, which is {least}; {remedy}"
    )


def write_round_page(answer: RoundAnswer, path: Path | str) -> Path:
    """Write the plan of a round as a page with a Gantt chart, energies and every device; `.svg`: the chart alone."""
    write_text(path, (round_svg if Path(path).suffix == ".svg" else round_page)(answer))
    return Path(path)
