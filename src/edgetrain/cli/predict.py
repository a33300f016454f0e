"""`edgetrain predict`: which modes to profile, and every other mode from those."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.groups import with_groups
from edgetrain.cli.options import JsonOption, StoreOption, split_names
from edgetrain.cli.output import print_result
from edgetrain.errors import UsageError
from edgetrain.report import show_plan, show_profiling, show_table

ABOUT = "Predict time, power and energy of every power mode from a few profiled ones."
UNTIL, WRITE = "Profile now", "Write"

DeviceOption = Annotated[
    str | None,
    typer.Option(help="Use the modes of a board: orin-agx (catalogue), auto (this machine) or sim:orin-agx."),
]
PriorOption = Annotated[
    str, typer.Option(help="Prior knowledge from other networks: orin (shipped), none, or a file of `edgetrain prior`.")
]
WithoutOption = Annotated[list[str] | None, typer.Option(help="Leave a network (or network@board) out of the prior.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    predict = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown")
    predict.command("plan")(with_groups(plan))
    predict.command("table")(table)
    app.add_typer(predict, name="predict")


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """Which modes may be profiled, and what is known already."""

    candidates: Annotated[Path | None, typer.Option(help="CSV of the modes that may be profiled.")] = None
    device: DeviceOption = None
    count: Annotated[int, typer.Option(help="How many modes to profile.", min=1)] = 10
    profiled: Annotated[
        str | None, typer.Option(help="Modes already measured: a CSV file, or a campaign by name or id.")
    ] = None
    prior: PriorOption = "orin"
    without: WithoutOption = None
    seed: Annotated[int, typer.Option(help="Random seed of the choice.", min=0)] = 0
    minibatch_ms: Annotated[
        float | None,
        typer.Option(help="Time per minibatch in the highest mode, in ms; to estimate the profiling time.", min=0.0),
    ] = None


@dataclass(frozen=True, slots=True)
class UntilFlags:
    """Profiling one mode after the other, at once."""

    until: Annotated[
        str | None,
        typer.Option(
            help="Profile modes one by one until this error is expected, such as 5%. Needs --truth, --measure-on, or a "
            "simulated --device with --network.",
            rich_help_panel=UNTIL,
        ),
    ] = None
    truth: Annotated[
        Path | None,
        typer.Option(
            help="With --until: look measurements up in this CSV table instead of measuring.", rich_help_panel=UNTIL
        ),
    ] = None
    measure_on: Annotated[
        str | None,
        typer.Option(
            help="With --until: measure by training on this board: auto or sim:orin-agx.", rich_help_panel=UNTIL
        ),
    ] = None

    def share(self) -> float | None:
        """Return the error to reach as a share; None where it was not given."""
        if self.until is None:
            return None
        try:
            return float(self.until.strip().rstrip("%")) / 100.0
        except ValueError:
            raise UsageError(
                f"cannot read --until {self.until!r}; write an error in per cent, for example 5%"
            ) from None


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """What is written, and for which training."""

    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the modes (with --until: their measurements) to this CSV file.",
            rich_help_panel=WRITE,
        ),
    ] = None
    campaign: Annotated[
        Path | None,
        typer.Option(help="Write a campaign plan that profiles the modes to this YAML file.", rich_help_panel=WRITE),
    ] = None
    network: Annotated[
        str | None,
        typer.Option(help="Network to train, with --campaign and --measure-on.", rich_help_panel=WRITE),
    ] = None
    command: Annotated[
        str | None,
        typer.Option(
            help="With --campaign: your own training command instead of a network: 'python train.py'.",
            rich_help_panel=WRITE,
        ),
    ] = None


def plan(
    flags: PlanFlags, until: UntilFlags, files: PlanFiles, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Choose the modes to profile, with the time this takes and the error to expect.

    Example: edgetrain predict plan --device orin-agx --count 8 -o modes-to-profile.csv
    """
    if until.until is not None:
        _profile_until(flags, until, files, store, json)
        return
    found = api.plan_modes(
        flags.device,
        flags.count,
        candidates=flags.candidates,
        profiled=flags.profiled,
        prior=flags.prior,
        without=split_names(flags.without),
        seed=flags.seed,
        minibatch_ms=flags.minibatch_ms,
        store=store,
    )
    if files.output is not None:
        api.write_text(files.output, api.modes_csv(found))
    if files.campaign is not None:
        api.write_text(files.campaign, api.campaign_yaml(found, flags.device, files.network, files.command))
    print_result(found, show_plan, json)


def _profile_until(flags: PlanFlags, until: UntilFlags, files: PlanFiles, store: Path | None, json: bool) -> None:
    found = api.profile_until(
        until.share() or 0.0,
        flags.device,
        flags.count,
        candidates=flags.candidates,
        profiled=flags.profiled,
        truth=until.truth,
        measure_on=until.measure_on,
        network=files.network,
        prior=flags.prior,
        without=split_names(flags.without),
        seed=flags.seed,
        output=files.output,
        store=store,
    )
    print_result(found, show_profiling, json)
    if not found.reached:
        raise typer.Exit(1)


def table(
    profiled: Annotated[str, typer.Option(help="Measured modes: a CSV file, or a campaign by name or id.")],
    modes: Annotated[Path | None, typer.Option(help="CSV of the modes to predict.")] = None,
    device: DeviceOption = None,
    prior: PriorOption = "orin",
    without: WithoutOption = None,
    seed: Annotated[int, typer.Option(help="Random seed of the fit.", min=0)] = 0,
    unit_profile: Annotated[
        str | None,
        typer.Option(
            help="Predict another unit of the board, from one or two modes measured on it: a CSV file or a campaign."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all predictions to this CSV file.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the predictor to this file, for edgetrain recommend --predictor.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Predict time, power and energy of every mode from the few that were profiled.

    Other units of the same board need only one or two profiled modes (`--unit-profile unit7.csv`), because units
    differ by a nearly constant factor.

    Example: edgetrain predict table --profiled mine.csv --device orin-agx -o all.csv
    """
    predictor = api.predict(
        profiled,
        device,
        modes=modes,
        prior=prior,
        without=split_names(without),
        seed=seed,
        unit_profile=unit_profile,
        store=store,
    )
    if output is not None:
        api.write_text(output, predictor.csv())
    if save is not None:
        api.write_text(save, predictor.dump())
    found = predictor.table()
    print_result(found, show_table, json)
