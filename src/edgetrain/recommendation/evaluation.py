"""The evaluation of prediction, and of choosing, on a table in which every mode was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetrain.prediction import MethodErrors, ModeTable, PredictionMethod, Prior, PriorUsed, compare_methods
from edgetrain.recommendation.budgets import BudgetEvaluation
from edgetrain.schema import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(MethodErrors):
    """The errors of the first method; those of the others are in `baselines`."""

    table: str
    modes: int
    profile: int
    seeds: tuple[int, ...]
    method: str
    units: str = "errors, coverage and widths in %, fit_s and plan_s in seconds"
    origin: Origin = Origin.PREDICTED
    over: str = "modes not profiled"
    chosen_by: str  # design | random
    prior: PriorUsed
    energy_follows: str
    profiled_rows: tuple[tuple[int, ...], ...]  # per seed
    baselines: Mapping[str, MethodErrors]
    budgets: BudgetEvaluation | None = None


def evaluate_table(
    name: str,
    table: ModeTable,
    profile: int,
    seeds: int | Sequence[int],
    prior: Prior,
    prior_used: PriorUsed,
    methods: Sequence[PredictionMethod],
    random_modes: bool = False,
    budgets: BudgetEvaluation | None = None,
) -> Evaluation:
    """Return the errors of the methods on a table; all of them see the same modes."""
    found = compare_methods(table, profile, seeds, prior, methods, random_modes)
    first, *others = (method.name for method in methods)
    errors = found.methods[first]
    follows = "time_ms (median; no mean in the table)" if table.time_mean_s is None else "time_mean_ms"
    return Evaluation(
        time=errors.time,
        power=errors.power,
        energy=errors.energy,
        coverage90=errors.coverage90,
        width90=errors.width90,
        score90=errors.score90,
        fit_s=errors.fit_s,
        fit_s_per_seed=errors.fit_s_per_seed,
        plan_s=errors.plan_s,
        table=name,
        modes=len(table),
        profile=profile,
        seeds=found.seeds,
        method=first,
        chosen_by="random" if random_modes else "design",
        prior=prior_used,
        energy_follows=follows,
        profiled_rows=found.profiled_rows,
        baselines={other: found.methods[other] for other in others},
        budgets=budgets,
    )
