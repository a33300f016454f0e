"""`edgetrain evaluate`: how wrong prediction (and choosing) is on a table in which every mode was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.groups import with_groups
from edgetrain.cli.options import JsonOption, split_names
from edgetrain.cli.output import print_result
from edgetrain.errors import UsageError
from edgetrain.report import show_evaluation

BUDGETS = "Choosing under power limits"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(with_groups(evaluate))


@dataclass(frozen=True, slots=True)
class MethodFlags:
    """What is evaluated."""

    profile: Annotated[int, typer.Option(help="Number of profiled modes that each method gets.", min=2)] = 10
    seeds: Annotated[
        int, typer.Option(help="Number of repeats; each profiles within another random quarter of the table.", min=1)
    ] = 10
    method: Annotated[
        list[str] | None,
        typer.Option(help="Method: physics (default), gp, linear or network; repeat the option for several."),
    ] = None
    prior: Annotated[
        str,
        typer.Option(help="Prior knowledge from other networks: orin (shipped), none, or a file of `edgetrain prior`."),
    ] = "orin"
    without: Annotated[list[str] | None, typer.Option(help="Leave a network (or network@board) out of the prior.")] = (
        None
    )
    reference: Annotated[
        Path | None, typer.Option(help="With --method network: table of another network, to train it on first.")
    ] = None
    random_modes: Annotated[
        bool, typer.Option("--random-modes", help="Profile random modes instead of chosen ones.")
    ] = False
    device: Annotated[
        str | None, typer.Option(help="The board of the table, to check that its powers are possible there.")
    ] = None


@dataclass(frozen=True, slots=True)
class BudgetFlags:
    """The evaluation of choosing."""

    budgets: Annotated[
        str | None,
        typer.Option(
            help="Also choose a mode for each power limit in this range, LO:HI in W.", rich_help_panel=BUDGETS
        ),
    ] = None
    confirm: Annotated[
        int,
        typer.Option(
            help="With --budgets: measure up to this many chosen modes per limit.", min=0, rich_help_panel=BUDGETS
        ),
    ] = 0
    confidence: Annotated[
        float, typer.Option(help="Probability in % with which a limit must hold.", rich_help_panel=BUDGETS)
    ] = 95.0

    def range_w(self) -> tuple[float, float] | None:
        """Return the range of limits; None where it was not given."""
        if self.budgets is None:
            return None
        low, _, high = self.budgets.partition(":")
        try:
            return float(low), float(high)
        except ValueError:
            raise UsageError(
                f"cannot read --budgets {self.budgets!r}; write watts as LO:HI, for example 10:50"
            ) from None


def evaluate(
    table: Annotated[
        Path, typer.Argument(help="CSV of measured modes: cores, clocks, time, power.", show_default=False)
    ],
    flags: MethodFlags,
    limits: BudgetFlags,
    json: JsonOption = False,
) -> None:
    """Measure the error of predictions on a table in which every mode was measured.

    edgetrain chooses the modes to profile, fits only those, and predicts the others.

    Example: edgetrain evaluate resnet.csv --profile 10 --seeds 10 --without resnet
    """
    found = api.evaluate(
        table,
        flags.profile,
        flags.seeds,
        methods=flags.method or ["physics"],
        prior=flags.prior,
        without=split_names(flags.without),
        reference=flags.reference,
        random_modes=flags.random_modes,
        budgets_w=limits.range_w(),
        confirm=limits.confirm,
        confidence=limits.confidence,
        board=flags.device,
    )
    print_result(found, show_evaluation, json)
