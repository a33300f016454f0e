"""A run as the study of variability sees it: which unit and software made it, when, and its later epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.analysis.summary import Summary
from edgetrain.record import Run
from edgetrain.schema import Origin, Scalar
from edgetrain.units import S_PER_US

UNIT_FACTORS = ("unit", "device", "board")  # factors of a plan that say where a run is made, not what is run
# Where a dataset lies and how noise is drawn differ between units that are to be compared.
NOT_COMPARED = (*UNIT_FACTORS, "dataset", "seed", "repeat")


@dataclass(frozen=True, slots=True)
class UnitEpoch:
    """One epoch, per minibatch. None: not measured."""

    time_s: float
    energy_j: float | None
    after_s: float  # since the start of its run


@dataclass(frozen=True, slots=True)
class UnitRun:
    """One run, with what distinguishes it from others."""

    run: str
    unit: str | None  # None: the record does not say which unit
    board: str  # the kind of board
    software: str | None
    setting: Mapping[str, Scalar]  # everything else that was chosen
    origin: Origin
    started_s: float | None  # on the wall clock
    took_s: float
    epochs: tuple[UnitEpoch, ...]
    first_only: bool = False  # there is no epoch but the first
    energy_reason: str | None = None  # why there is no energy


def unit_run(run: Run, summary: Summary) -> UnitRun:
    """Return what variability needs of a recorded run; the first (cold) epoch is left out where there are others."""
    epochs = [epoch for epoch in summary.epochs if epoch.minibatches and epoch.e2e_s > 0]
    later = epochs[1:] or epochs
    clock = run.manifest.clock
    start_us = clock.start.monotonic_us if clock else (summary.epochs[0].begin_us if summary.epochs else 0)
    return UnitRun(
        run=summary.run,
        unit=unit_name(summary),
        board=summary.device.name or summary.device.model or "unknown",
        software=software_of(run, summary),
        setting=setting_of_run(run, summary),
        origin=summary.origin,
        started_s=clock.start.wall_s if clock else None,
        took_s=(summary.epochs[-1].end_us - start_us) * S_PER_US if summary.epochs else 0.0,
        epochs=tuple(
            UnitEpoch(
                epoch.e2e_s / epoch.minibatches,
                None if epoch.energy_j is None or epoch.energy_j <= 0 else epoch.energy_j / epoch.minibatches,
                ((epoch.begin_us + epoch.end_us) / 2 - start_us) * S_PER_US,
            )
            for epoch in later
        ),
        first_only=len(epochs) == 1,
        energy_reason=summary.energy_reason,
    )


def unit_name(summary: Summary) -> str | None:
    """Return which unit a run was made on: by its serial, else by its host name, else as its campaign names it."""
    device = summary.device
    if device.serial or device.host:
        return device.serial or device.host
    named = next((summary.factors[name] for name in UNIT_FACTORS if name in summary.factors), None)
    older = device.extra.get("host")  # records made before `host` was a field
    return str(named) if named is not None else str(older) if older else None


def software_of(run: Run, summary: Summary) -> str | None:
    """Return the versions of the software under a run; None where none is recorded."""
    device, process = summary.device, run.main.facts
    known = {
        "JetPack": device.jetpack,
        "L4T": device.l4t,
        "kernel": device.kernel,
        "torch": device.torch or process.torch,
        "CUDA": device.cuda or process.cuda,
    }
    return ", ".join(f"{name} {version}" for name, version in known.items() if version) or None


def setting_of_run(run: Run, summary: Summary) -> Mapping[str, Scalar]:
    """Return what was chosen for a run, by name; None values are left out. Runs of equal settings are compared."""
    workload, loading = summary.workload, summary.loading
    loader = summary.loaders[0] if summary.loaders else None
    limits, experiment = summary.limits, run.manifest.experiment
    mode = summary.power_mode.held if summary.power_mode else None
    found: dict[str, Scalar] = {
        "network": workload.network,
        "batch_size": workload.batch_size or (loader.batch_size if loader else None),
        "workers": loading.workers if loading and loading.workers is not None else (loader.workers if loader else None),
        "dataset_scale": workload.dataset_scale,
        "medium": workload.medium,
        "cache": loading.cache if loading else None,
        "timing": summary.timing,
        "power_mode": None if mode is None else str(mode),
        "dvfs": experiment.dvfs if experiment is not None and mode is not None else None,
        "minibatches": workload.max_minibatches,
        "ram_bytes": limits.asked.ram_bytes if limits else None,
        "cores": limits.asked.cores if limits else None,
        "speed": limits.asked.speed if limits else None,
    }
    chosen = {name: value for name, value in summary.factors.items() if name not in NOT_COMPARED and name not in found}
    return {name: value for name, value in {**found, **chosen}.items() if value is not None}
