"""`edgetrain evaluate`: how wrong prediction (and choosing) is on a table whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.cli.options import JsonOption
from edgetrain.errors import UsageError
from edgetrain.predict import baselines, load_prior, read_table
from edgetrain.predict.base import ModeTable
from edgetrain.predict.evaluate import Method, evaluate, physics
from edgetrain.predict.modes.prior import Prior
from edgetrain.report.document import emit
from edgetrain.report.prediction import show_evaluation
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA, Origin

PANEL, ORDER = "predict", 20
METHODS = ("physics", "gp", "linear", "network")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evaluate", rich_help_panel=PANEL)(evaluate_)


def evaluate_(
    table: Annotated[
        Path, typer.Argument(help="CSV of measured modes: cores, clocks, time, power.", show_default=False)
    ],
    profile: Annotated[int, typer.Option(help="Modes the method may see.", min=2)] = 10,
    seeds: Annotated[int, typer.Option(help="Repeats; each may profile a random quarter of the table.", min=1)] = 10,
    method: Annotated[
        list[str] | None, typer.Option(help="physics (ours), gp, linear, network; repeat for several.")
    ] = None,
    prior: Annotated[str, typer.Option(help="What other networks taught: orin, none, or a file.")] = "orin",
    without: Annotated[
        list[str] | None, typer.Option(help="Leave a network (or network@board) out of the prior.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="For `network`: the table of another network that it is transferred from.")
    ] = None,
    random_modes: Annotated[bool, typer.Option("--random-modes", help="Random modes instead of chosen ones.")] = False,
    budgets: Annotated[
        str | None, typer.Option(help="Also choose under every power limit LO:HI in watts, steps of 1 W.")
    ] = None,
    confirm: Annotated[int, typer.Option(help="With --budgets: chosen modes measured per limit.", min=0)] = 0,
    confidence: Annotated[
        float, typer.Option(help="With --budgets: probability in % with which a limit must hold.")
    ] = 95.0,
    json: JsonOption = False,
) -> None:
    """How wrong would predictions be, from so few modes, on a table whose truth is known?

    The tool chooses the modes, sees only those, and predicts the rest.
    Example: edgetrain evaluate resnet.csv --profile 10 --seeds 10 --without resnet
    """
    truth = read_table(table, need_results=True)
    left_out = tuple(name for text in without or () for name in text.split(",") if name)
    known = load_prior(prior, without=left_out)
    names = list(dict.fromkeys(method or ["physics"]))
    methods = [_method(name, known, reference) for name in names]
    found = evaluate(truth, profile, seeds, known, methods, random_modes)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "table": str(table),
        "modes": len(truth),
        "profile": profile,
        "seeds": found["seeds"],
        "method": names[0],
        "units": "errors, coverage and widths in %, fit_s and plan_s in seconds",
        "origin": Origin.PREDICTED.value,
        "over": "modes not profiled",
        "chosen_by": "random" if random_modes else "design",
        "prior": {"name": prior, "without": list(left_out), "held": known.held},
        "energy_follows": "time_ms (median; no mean in the table)" if truth.time_mean_s is None else "time_mean_ms",
        **found["methods"][methods[0].name],
        "profiled_rows": found["profiled_rows"],
        "baselines": {m.name: found["methods"][m.name] for m in methods[1:]},
    }
    if budgets is not None:
        document["budgets"] = _budgets(truth, profile, seeds, budgets, confirm, confidence, prior, left_out)
    if json:
        emit(document)
    else:
        console().print(show_evaluation(document))


def _method(name: str, prior: Prior, reference: Path | None) -> Method:
    if name == "physics":
        return physics(prior)
    if name in ("gp", "gaussian_process"):
        return baselines.gaussian_process()
    if name == "linear":
        return baselines.linear()
    if name == "network":
        if reference is None:
            raise UsageError(
                "the transferred network learns from another network's table first; give --reference TABLE.csv"
            )
        return baselines.network(read_table(reference, need_results=True))
    raise UsageError(f"no method {name!r}; there are {', '.join(METHODS)}")


def _budgets(
    table: ModeTable,
    profile: int,
    seeds: int,
    span: str,
    confirm: int,
    confidence: float,
    prior: str,
    without: tuple[str, ...],
) -> dict[str, Any]:
    from edgetrain.recommend.budgets import evaluate_budgets
    from edgetrain.recommend.goals import parse_confidence

    low, _, high = span.partition(":")
    try:
        lo_w, hi_w = float(low), float(high)
    except ValueError:
        raise UsageError(f"cannot read --budgets {span!r}; write watts as LO:HI, for example 10:50") from None
    return evaluate_budgets(
        table,
        profile=profile,
        seeds=seeds,
        lo_w=lo_w,
        hi_w=hi_w,
        confirm=confirm,
        confidence=parse_confidence(confidence),
        prior=prior,
        without=without,
    )
