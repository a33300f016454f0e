"""Evaluates prediction, and choosing under power limits, on a table in which every mode was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.api.boards import power_range
from edgetrain.api.prediction import read_prior
from edgetrain.errors import UsageError
from edgetrain.prediction import (
    ModeTable,
    PredictionMethod,
    Prior,
    gaussian_process,
    linear_model,
    physics,
    read_table,
    transferred_network,
)
from edgetrain.recommendation import Evaluation, evaluate_budgets, evaluate_table, parse_confidence

METHODS = ("physics", "gp", "linear", "network")


def evaluate(
    table: str | Path | ModeTable,
    profile: int = 10,
    seeds: int = 10,
    *,
    methods: Sequence[str] = ("physics",),
    prior: str = "orin",
    without: Sequence[str] = (),
    reference: str | Path | ModeTable | None = None,
    random_modes: bool = False,
    budgets_w: tuple[float, float] | None = None,
    confirm: int = 0,
    confidence: float = 0.95,
    board: str | None = None,
) -> Evaluation:
    """Return how wrong predictions from `profile` modes are, over seeds; each sees a random quarter of the table.

    `methods` are `physics` (the default), `gp`, `linear` and `network` (which needs the table of another network as
    `reference`). With `budgets_w`, every power limit in that range is answered too.
    """
    truth = table if isinstance(table, ModeTable) else read_table(table, True, power_range(board))
    name = f"{len(truth)} given modes" if isinstance(table, ModeTable) else str(table)
    known, used = read_prior(prior, without)
    chosen = [_method(each, known, reference) for each in dict.fromkeys(methods)]
    if not chosen:
        raise UsageError(f"name at least one method: {', '.join(METHODS)}")
    budgets = None
    if budgets_w is not None:
        budgets = evaluate_budgets(truth, profile, seeds, *budgets_w, confirm, parse_confidence(confidence), known)
    return evaluate_table(name, truth, profile, seeds, known, used, chosen, random_modes, budgets)


def _method(name: str, prior: Prior, reference: str | Path | ModeTable | None) -> PredictionMethod:
    if name == "physics":
        return physics(prior)
    if name in ("gp", "gaussian_process"):
        return gaussian_process()
    if name == "linear":
        return linear_model()
    if name == "network":
        if reference is None:
            raise UsageError(
                "the transferred network is trained on the table of another network first; give --reference TABLE.csv"
            )
        known = reference if isinstance(reference, ModeTable) else read_table(reference, need_results=True)
        return transferred_network(known)
    raise UsageError(f"no method {name!r}; known: {', '.join(METHODS)}")
