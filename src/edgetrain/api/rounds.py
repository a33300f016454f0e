"""Plans federated rounds: each device's power mode, so that all finish in time with the least energy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgetrain.api.files import write_text
from edgetrain.api.round_files import read_round
from edgetrain.recommendation import RoundAnswer, simulate_rounds
from edgetrain.recommendation import plan_round as plan_devices
from edgetrain.report import round_page, round_svg


def plan_round(path: Path | str, *, simulate: int | None = None, seed: int = 0) -> RoundAnswer:
    """Plan the round of a round file and simulate it.

    `simulate`: the number of simulated rounds; None: as the file says; 0: none.
    """
    found = read_round(path)
    plan = plan_devices(found.devices, found.rules)
    plan = replace(plan, doubts=(*plan.doubts, *found.doubts))
    rounds = found.rules.rounds if simulate is None else simulate
    simulation = None
    if rounds > 0:
        simulation = simulate_rounds(plan, found.devices, found.rules, rounds, seed)
    return RoundAnswer(found.name, found.fleet, found.network, plan, simulation)


def write_round_page(answer: RoundAnswer, path: Path | str) -> Path:
    """Write the plan of a round as a page with a Gantt chart, energies and every device; `.svg`: the chart alone."""
    write_text(path, (round_svg if Path(path).suffix == ".svg" else round_page)(answer))
    return Path(path)
