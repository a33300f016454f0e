"""Whether the intervals of `edgetrain variability` hold: fleets of simulated boards with a known spread of units.

    python benchmarks/variability.py --work /tmp/variability             all parts; writes docs/results/variability.md
    python benchmarks/variability.py --work /tmp/variability --most 3    three more parts only, about a minute each

Each repeat is a fleet of ten units of one board with three runs each, recorded by the simulated board and summed up as
any run is. The spread between units is injected (`sim:xavier-nx?unit=7&spread=5`); the board's model adds noise between
runs.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import UnitEpoch, UnitRun, summarize, unit_run, variability
from edgetrain.device import open_simulated
from edgetrain.record import MemoryStore
from edgetrain.runner import simulate_run
from edgetrain.schema import build_experiment

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "variability.md"
BOARD, NETWORK = "xavier-nx", "resnet18_cifar_gn"
SPREADS = (1.0, 5.0, 8.0)  # per cent
UNITS, FEW_UNITS, RUNS = 10, 5, 3
REPEATS, PART = 100, 20
ALIKE_REPEATS = 20  # fleets of equal units, to which other spreads are added
WANTED = 0.85
HEAVY_RUN, HEAVY_EPOCH = 0.01, 0.01


@dataclass(frozen=True, slots=True)
class Trial:
    """One fleet: the injected spread against what was estimated."""

    case: str
    spread: float
    measure: str
    units: int
    value: float
    lo: float
    hi: float
    within: bool


def fleet(repeat: int, place: int, spread: float, folder: Path) -> list[UnitRun]:
    """Record a fleet of units that nobody has seen before, and return its runs."""
    store = MemoryStore()
    found = []
    for row in range(UNITS):
        unit = 1 + place * REPEATS * UNITS + repeat * UNITS + row
        device = open_simulated(f"{BOARD}?unit={unit}&spread={spread:g}", folder / f"unit{row}")
        for number in range(RUNS):
            settings = {"network": NETWORK, "epochs": 3, "minibatches": 30, "baseload_s": 0, "cache": "warm"}
            run = store.open(simulate_run(build_experiment(settings, repeat=number), device, store))
            found.append(unit_run(run, summarize(run)))
    return found


def judge(case: str, runs: Sequence[UnitRun], spread: float, units: int) -> list[Trial]:
    """Return what the estimate says of the first units of a fleet, time and energy."""
    names = list(dict.fromkeys(run.unit for run in runs))[:units]
    (setting,) = variability([run for run in runs if run.unit in names]).settings
    trials = []
    for found in setting.measures:
        # Time and power of a unit are drawn independently, and energy is their product.
        deviation = spread / 100 * (math.sqrt(2) if found.measure == "energy" else 1.0)
        truth, seen = math.sqrt(math.expm1(deviation**2)), found.between_units
        assert seen is not None
        inside = seen.lo <= truth <= seen.hi
        trials.append(
            Trial(case, spread, found.measure, units, seen.value / truth, seen.lo / truth, seen.hi / truth, inside)
        )
    return trials


def scaled(run: UnitRun, factor: float, noise: Sequence[float]) -> UnitRun:
    """Return a run with its times multiplied: all by a factor, each epoch by its noise."""
    epochs = tuple(
        UnitEpoch(epoch.time_s * factor * one, None, epoch.after_s)
        for epoch, one in zip(run.epochs, noise, strict=True)
    )
    return replace(run, epochs=epochs, energy_reason="left out here")


def heavy_noise(runs: Sequence[UnitRun], draw: np.random.Generator) -> list[UnitRun]:
    """Return a fleet with heavy-tailed noise added: Student t (3) between runs, exponential between epochs."""
    return [
        scaled(
            run,
            math.exp(HEAVY_RUN * draw.standard_t(3)),
            [1 + HEAVY_EPOCH * float(draw.exponential()) for _ in run.epochs],
        )
        for run in runs
    ]


def other_units(runs: Sequence[UnitRun], logs: NDArray[np.float64]) -> list[UnitRun]:
    """Return a fleet of equal units with unit factors whose logarithms are given."""
    names = list(dict.fromkeys(run.unit for run in runs))
    factors = dict(zip(names, np.exp(logs), strict=True))
    return [scaled(run, float(factors[run.unit]), [1.0] * len(run.epochs)) for run in runs]


def part(spread: float, first: int, folder: Path) -> list[Trial]:
    """Return the trials of some repeats of one injected spread; spread 0: units of other distributions."""
    trials: list[Trial] = []
    place = (*SPREADS, 0.0).index(spread)
    for repeat in range(first, first + PART):
        runs = fleet(repeat, place, spread, folder)
        draw = np.random.default_rng([place, repeat])
        if spread:
            for units in (FEW_UNITS, UNITS):
                trials += judge("as injected", runs, spread, units)
                trials += judge("heavy-tailed noise", heavy_noise(runs, draw), spread, units)[:1]
            continue
        for injected in SPREADS:
            for _ in range(REPEATS // ALIKE_REPEATS):
                deviation = injected / 100
                tailed = other_units(runs, deviation * draw.standard_t(5, UNITS) / math.sqrt(5 / 3))
                skewed = other_units(runs, deviation * (draw.exponential(1.0, UNITS) - 1))
                trials += judge("heavy-tailed units", tailed, injected, UNITS)
                trials += judge("skewed units", skewed, injected, UNITS)
    return trials


def parts() -> list[tuple[float, int]]:
    """Return every part: injected spread and first repeat."""
    return [(spread, first) for spread in SPREADS for first in range(0, REPEATS, PART)] + [(0.0, 0)]


CASES = {
    "as injected": "as the board draws it (normal)",
    "heavy-tailed noise": "the same, 1 % more noise: Student t (3) between runs, exponential between epochs",
    "heavy-tailed units": "units by Student t (5)",
    "skewed units": "units by an exponential: most alike, a few slow",
}


def page(trials: Sequence[Trial], done: str) -> str:
    """Return the results page."""
    groups: dict[tuple[str, str, int, float], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.case, trial.measure, trial.units, trial.spread), []).append(trial)
    shares = {key: sum(one.within for one in group) / len(group) for key, group in groups.items()}
    required = [share for key, share in shares.items() if key[0] == "as injected"]
    met = min(required) >= WANTED
    verdict = "The requirement is met" if met else "The requirement is not met"
    lines = [
        "# Variability between units",
        "",
        f"**{verdict}: 90 % intervals of the spread between units contain the injected one in {100 * min(required):.0f}"
        f" to {100 * max(required):.0f} % of {REPEATS} fleets (required: {100 * WANTED:.0f} %), for injected spreads of"
        " 1, 5 and 8 %, with 5 and with 10 units.**",
        "",
        f"Each fleet: new units of a simulated {BOARD}, {RUNS} runs of {NETWORK} per unit, recorded and summed up as",
        "any run. All values are `simulated`: this shows that the statistics keep their promise, not how much real",
        "boards differ. Estimate and ends of the interval are medians over fleets, divided by the injected spread. The",
        "last rows inject units of other distributions: a few boards do not show a long tail, the interval misses it.",
        "",
        "| units differ | measure | units | injected % | truth inside % | estimate | lower end | upper end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (case, measure, units, spread), group in sorted(
        groups.items(), key=lambda each: (list(CASES).index(each[0][0]), each[0][1:])
    ):
        middle = [float(np.median([getattr(one, name) for one in group])) for name in ("value", "lo", "hi")]
        inside = 100 * shares[case, measure, units, spread]
        lines.append(
            f"| {CASES[case]} | {measure} | {units} | {spread:g} | {inside:.0f} | "
            + " | ".join(f"{x:.2f}" for x in middle)
            + " |"
        )
    lines += ["", f"`python benchmarks/variability.py --work /tmp/variability`, {done}", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the missing parts; write the page when none is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "edgetrain-variability")
    parser.add_argument("--most", type=int, help="at most this number of parts now")
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    file_of = functools.partial(lambda key: asked.work / f"part-{key[0]:g}-{key[1]}.json")
    missing = [key for key in parts() if not file_of(key).exists()]
    for key in missing[: asked.most]:
        trials = part(key[0], key[1], asked.work / "boards")
        file_of(key).write_text(json.dumps([asdict(trial) for trial in trials]))
        print(
            f"spread {key[0]:g} %, repeats from {key[1]}: {sum(t.within for t in trials)} of {len(trials)} inside",
            flush=True,
        )
    if all(file_of(key).exists() for key in parts()):
        found = [Trial(**one) for key in parts() for one in json.loads(file_of(key).read_text())]
        asked.page.write_text(page(found, date.today().isoformat()), encoding="utf-8")
        print(f"wrote {asked.page}")


if __name__ == "__main__":
    main()
