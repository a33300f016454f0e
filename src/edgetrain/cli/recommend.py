"""`edgetrain recommend`: the best power mode within limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.groups import with_groups
from edgetrain.cli.options import JsonOption, StoreOption, split_names
from edgetrain.cli.output import print_note, print_result
from edgetrain.report import show_applied, show_choice

FROM, LIMITS, WHOLE, CHECK, SHOW = "Choose from", "Limits", "Whole trainings", "Confirm and apply", "Show"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recommend")(with_groups(recommend))


@dataclass(frozen=True, slots=True)
class ChooseFromFlags:
    """What to choose from."""

    profiled: Annotated[
        str | None,
        typer.Option(help="Measured modes: a CSV file, or a campaign by name or id.", rich_help_panel=FROM),
    ] = None
    predictor: Annotated[
        Path | None, typer.Option(help="A saved predictor, instead of --profiled.", rich_help_panel=FROM)
    ] = None
    modes: Annotated[Path | None, typer.Option(help="CSV file of the modes to choose from.", rich_help_panel=FROM)] = (
        None
    )
    device: Annotated[
        str | None,
        typer.Option(
            help="Choose from the modes of a board: orin-agx (catalogue), auto (this machine) or sim:orin-agx.",
            rich_help_panel=FROM,
        ),
    ] = None
    prior: Annotated[
        str,
        typer.Option(
            help="Prior knowledge from other networks: orin (shipped), none, or a file of `edgetrain prior`.",
            rich_help_panel=FROM,
        ),
    ] = "orin"
    without: Annotated[
        list[str] | None, typer.Option(help="Leave a network out of the prior.", rich_help_panel=FROM)
    ] = None


@dataclass(frozen=True, slots=True)
class LimitFlags:
    """What to minimize, within which limits."""

    minimize: Annotated[
        str,
        typer.Option(
            "--minimize", "--minimise", help="What to minimize: time, energy or power.", rich_help_panel=LIMITS
        ),
    ] = "time"
    max_power_w: Annotated[
        str | None, typer.Option(help="Limit on the steady mean power: watts, or 15000mW.", rich_help_panel=LIMITS)
    ] = None
    peak: Annotated[bool, typer.Option(help="Apply the power limit to peaks of 1 s too.", rich_help_panel=LIMITS)] = (
        False
    )
    max_time_s: Annotated[
        str | None,
        typer.Option(
            help="Limit on the time per minibatch, per epoch (--minibatches) or in total (--epochs): seconds, or 2h.",
            rich_help_panel=LIMITS,
        ),
    ] = None
    max_energy_j: Annotated[
        str | None,
        typer.Option(
            help="Limit on the energy, per the same unit as --max-time-s: joules, or 50Wh.", rich_help_panel=LIMITS
        ),
    ] = None
    max_cores: Annotated[int | None, typer.Option(help="Use at most this many cores.", rich_help_panel=LIMITS)] = None
    max_temp_c: Annotated[
        float | None,
        typer.Option(help="Exclude modes that were measured hotter than this, in °C.", rich_help_panel=LIMITS),
    ] = None
    stock_only: Annotated[
        bool, typer.Option(help="Choose only from the modes that the board ships with.", rich_help_panel=LIMITS)
    ] = False
    confidence: Annotated[
        float, typer.Option(help="Probability in % with which each limit must hold.", rich_help_panel=LIMITS)
    ] = 95.0


@dataclass(frozen=True, slots=True)
class TrainingFlags:
    """Questions about the whole training."""

    minibatches: Annotated[float | None, typer.Option(help="Minibatches per epoch.", rich_help_panel=WHOLE)] = None
    epochs: Annotated[
        float | None,
        typer.Option(help="Epochs of the training; limits then apply to the whole training.", rich_help_panel=WHOLE),
    ] = None
    cold_epoch_s: Annotated[
        str | None, typer.Option(help="Measured time of the cold first epoch: seconds, or 5min.", rich_help_panel=WHOLE)
    ] = None
    baseload_w: Annotated[
        float | None, typer.Option(help="Measured power of the idle board, in W.", rich_help_panel=WHOLE)
    ] = None
    period: Annotated[
        str | None, typer.Option(help="Time from one job to the next, such as 24h.", rich_help_panel=WHOLE)
    ] = None
    between: Annotated[
        str, typer.Option(help="State between jobs: idle, wake-on-lan or off.", rich_help_panel=WHOLE)
    ] = "idle"
    between_w: Annotated[
        float | None,
        typer.Option(help="Power between jobs, in W; default: the published value.", rich_help_panel=WHOLE),
    ] = None
    battery_wh: Annotated[
        float | None,
        typer.Option(
            help="Battery capacity in Wh, to show how many trainings it is enough for.", rich_help_panel=WHOLE
        ),
    ] = None
    switch_s: Annotated[float, typer.Option(help="Duration of a mode change, in s.", rich_help_panel=WHOLE)] = 7.0

    def options(self) -> api.TrainingOptions:
        """Return the questions as the API takes them."""

        return api.TrainingOptions(
            self.cold_epoch_s,
            self.baseload_w,
            self.period,
            self.between,
            self.between_w,
            self.battery_wh,
            self.switch_s,
        )


@dataclass(frozen=True, slots=True)
class MeasureFlags:
    """Whether and how modes are measured, and whether the choice is set."""

    confirm: Annotated[
        int,
        typer.Option(
            help="Measure up to this many of the chosen modes, and update the choice.", min=0, rich_help_panel=CHECK
        ),
    ] = 0
    search: Annotated[
        int | None,
        typer.Option(help="Search without profiled modes, with this many measurements.", rich_help_panel=CHECK),
    ] = None
    truth: Annotated[
        Path | None,
        typer.Option(help="Look measurements up in this CSV table instead of measuring.", rich_help_panel=CHECK),
    ] = None
    measure_on: Annotated[
        str | None,
        typer.Option(help="Measure by training on this board: auto or sim:orin-agx.", rich_help_panel=CHECK),
    ] = None
    network: Annotated[str | None, typer.Option(help="The network to train when measuring.", rich_help_panel=CHECK)] = (
        None
    )
    apply: Annotated[
        bool, typer.Option("--apply", help="Set the chosen mode on this board.", rich_help_panel=CHECK)
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --apply: show what would be written.", rich_help_panel=CHECK)
    ] = False

    def options(self) -> api.MeasuringOptions:
        """Return how to measure as the API takes it."""

        return api.MeasuringOptions(self.confirm, self.search, self.truth, self.measure_on, self.network)


@dataclass(frozen=True, slots=True)
class ShowFlags:
    """What else to show."""

    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier", help="Show the Pareto frontier, and how far stock modes are from it.", rich_help_panel=SHOW
        ),
    ] = False
    frontier_axes: Annotated[
        str,
        typer.Option(help="Axes of --frontier: time,power; time,energy; or power,energy.", rich_help_panel=SHOW),
    ] = "time,power"
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the reasoning in sentences.", rich_help_panel=SHOW)
    ] = False
    seed: Annotated[int, typer.Option(help="Random seed of the fit.", min=0, rich_help_panel=SHOW)] = 0

    def axes(self) -> tuple[str, str] | None:
        """Return the axes of the frontier; None where it was not asked for."""
        first, _, second = self.frontier_axes.partition(",")
        return (first.strip(), second.strip()) if self.frontier else None


def recommend(
    source: ChooseFromFlags,
    limits: LimitFlags,
    training: TrainingFlags,
    measuring: MeasureFlags,
    shown: ShowFlags,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Recommend the best power mode within your limits, with the probability that each limit holds.

    Example: edgetrain recommend --profiled mine.csv --device orin-agx --max-power-w 20 --explain
    """
    answer = api.recommend(
        source.profiled,
        source.device,
        max_power_w=limits.max_power_w,
        max_time_s=limits.max_time_s,
        max_energy_j=limits.max_energy_j,
        max_cores=limits.max_cores,
        max_temp_c=limits.max_temp_c,
        peak=limits.peak,
        stock_only=limits.stock_only,
        minimize=limits.minimize,
        confidence=limits.confidence,
        minibatches=training.minibatches,
        epochs=training.epochs,
        modes=source.modes,
        predictor=source.predictor,
        prior=source.prior,
        without=split_names(source.without),
        seed=shown.seed,
        measuring=measuring.options(),
        training=training.options(),
        frontier=shown.axes(),
        apply=measuring.apply,
        dry_run=measuring.dry_run,
        store=store,
    )
    print_result(answer, lambda found: show_choice(found, shown.explain), json)
    if answer.applied is not None and not json:
        print_note(show_applied(answer.applied))
    if answer.best is None:
        raise typer.Exit(1)
