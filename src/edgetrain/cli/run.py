"""edgetrain run: train a catalogued workload, or yours, and record everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import Shown
from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.report.document import emit
from edgetrain.report.text import console, show_run
from edgetrain.runner import Interrupted, execute
from edgetrain.schema import Experiment, Loading, PowerMode, Workload
from edgetrain.store import Store
from edgetrain.workload.catalog import CATALOG, is_own

PANEL, ORDER = "measure", 20
TRAINING, LOADING, LAB, RECORD = "Training", "Loading", "Stand-ins", "Record"


def complete_network(incomplete: str) -> list[str]:
    """Offer the catalogued workloads."""
    return [name for name in CATALOG if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run", rich_help_panel=PANEL)(run)


def run(
    network: Annotated[
        str,
        typer.Argument(
            help="What to train: " + ", ".join(CATALOG) + ", or your own as module:function.",
            autocompletion=complete_network,
        ),
    ],
    workers: Annotated[
        int, typer.Option(help="Loader workers; 0: the loop fetches itself.", rich_help_panel=LOADING)
    ] = 2,
    prefetch: Annotated[int, typer.Option(help="Minibatches each worker fetches ahead.", rich_help_panel=LOADING)] = 2,
    cache: Annotated[
        str, typer.Option(help="Page cache at the start: cold, warm, or keep it as it is.", rich_help_panel=LOADING)
    ] = "keep",
    pin_memory: Annotated[bool, typer.Option(help="Let the loader pin memory.", rich_help_panel=LOADING)] = False,
    persistent: Annotated[bool, typer.Option(help="Keep the workers between epochs.", rich_help_panel=LOADING)] = True,
    start_method: Annotated[
        str | None, typer.Option(help="How workers start: fork, spawn, forkserver.", rich_help_panel=LOADING)
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Your dataset's folder; left out, one like the papers' is generated.", rich_help_panel=TRAINING
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Size of the generated dataset; 1 is the papers'.", rich_help_panel=TRAINING)
    ] = 1.0,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples a minibatch; 16 where left out.", rich_help_panel=TRAINING)
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the dataset.", rich_help_panel=TRAINING)] = 2,
    minibatches: Annotated[
        int | None, typer.Option(help="At most so many minibatches an epoch.", rich_help_panel=TRAINING)
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="Outputs of the network; the dataset's where left out.", rich_help_panel=TRAINING)
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, adam or adamw.", rich_help_panel=TRAINING)] = "sgd",
    lr: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=TRAINING)] = 0.01,
    momentum: Annotated[float, typer.Option(help="Of sgd.", rich_help_panel=TRAINING)] = 0.9,
    seed: Annotated[int, typer.Option(help="Of weights, order and transforms.", rich_help_panel=TRAINING)] = 0,
    compute: Annotated[
        str, typer.Option(help="auto, cuda, cpu, or paced: sleep --compute-ms a step.", rich_help_panel=LAB)
    ] = "auto",
    compute_ms: Annotated[
        float | None, typer.Option(help="Time of a paced step.", rich_help_panel=LAB, show_default=False)
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="Hold this machine down to a board's preset.", rich_help_panel=LAB)
    ] = None,
    shrink: Annotated[
        float, typer.Option(help="With --as: dataset and page cache so many times smaller.", rich_help_panel=LAB)
    ] = 1.0,
    storage: Annotated[
        str | None, typer.Option(help="Hold storage down to a medium: ssd, emmc, sd, hdd.", rich_help_panel=LAB)
    ] = None,
    ram: Annotated[
        str | None, typer.Option(help="Hold RAM down, the training's own included: 4GiB.", rich_help_panel=LAB)
    ] = None,
    page_cache: Annotated[str | None, typer.Option(help="Hold the page cache alone down.", rich_help_panel=LAB)] = None,
    cores: Annotated[int | None, typer.Option(help="Use so many cores.", rich_help_panel=LAB)] = None,
    cpu_share: Annotated[
        float | None, typer.Option(help="Slow each core down to this share.", rich_help_panel=LAB)
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, host, jetson, or sim:orin-agx (simulated).", rich_help_panel=LAB)
    ] = "auto",
    power_mode: Annotated[
        str | None,
        typer.Option(help="Hold a board's mode meanwhile: 30W, or cores/CPU/GPU/memory in MHz.", rich_help_panel=LAB),
    ] = None,
    timing: Annotated[
        str, typer.Option(help="async, or sync: wait for every step, as the papers did.", rich_help_panel=RECORD)
    ] = "async",
    baseload_s: Annotated[
        float, typer.Option(help="Measure the idle power so long before training.", rich_help_panel=RECORD)
    ] = 0.0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Trains a network and tells where the seconds and joules went, epoch by epoch.

    Example: edgetrain run mobilenet_v3 --workers 1 --scale 0.25 --cache cold
    """
    experiment = Experiment(
        Workload(
            network,
            dataset=None if dataset is None else str(dataset.absolute()),
            dataset_scale=scale,
            batch_size=_batch_size(network, batch_size),
            learning_rate=lr,
            momentum=momentum,
            optimizer=optimizer,
            classes=classes,
        ),
        Loading(workers, prefetch, pin_memory, persistent, start_method, cache),
        epochs=epochs,
        max_minibatches=minibatches,
        timing=timing,
        compute=compute,
        compute_ms=compute_ms,
        limits=_limits(storage=storage, ram=ram, page_cache=page_cache, cores=cores, cpu_share=cpu_share),
        preset=as_,
        shrink=shrink,
        seed=seed,
        baseload_s=baseload_s,
        power_mode=_power_mode(device, power_mode),
    )
    records = Store(store)
    try:
        with Shown() as shown:
            name = execute(experiment, device, records, shown)
    except Interrupted as stopped:
        console(stderr=True).print(f"edgetrain: {stopped}; look at it with: edgetrain show {stopped.run}")
        raise typer.Exit(130) from None
    except EdgetrainError as error:
        kept = error.facts.get("run")
        if kept:
            console(stderr=True).print(f"the record of what happened until then: edgetrain show {kept}")
        raise
    document = digest(records.open(name)).document()
    if json:
        emit(document)
    else:
        console().print(show_run(document))


def _batch_size(network: str, asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise UsageError(f"--batch-size must be at least 1, not {asked}")
    return asked or (0 if is_own(network) else 16)


def _power_mode(device: str, text: str | None) -> PowerMode | None:
    if text is None:
        return None
    space = open_device(device).modes()
    if space is None:
        raise UsageError(f"--power-mode needs a board that has some; --device {device} has none that can be set")
    found = space.find(text)
    mode: PowerMode = getattr(found, "mode", found)
    return mode


def _limits(**asked: Any) -> dict[str, Any] | None:
    """Return the lab limits that were asked for."""
    return {name: value for name, value in asked.items() if value is not None} or None
