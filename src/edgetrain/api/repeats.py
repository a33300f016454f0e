"""Finds the runs of a store that repeat another: the same experiment on the same unit.

A script can be edited between two runs of one command, so the runs must also have found the same workload and loader.
Trials of `diagnose --verify` and `tune` are no repeats: they end when enough minibatches were seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from edgetrain.analysis import Summary
from edgetrain.api.records import StoreLike, open_store
from edgetrain.errors import UsageError
from edgetrain.prediction import whole_epochs
from edgetrain.record import Manifest, Run
from edgetrain.schema import Experiment

MAX_REPEATS = 5  # the newest ones; each is read whole
FINISHED = "finished"
FOUND = ("workload", "loading", "compute", "threads")  # what `_found` returns, in words
TRIALS = re.compile(r"(verify|tune)-\d{8}-\d{6}")  # campaigns that verifying and tuning put their trials in
SAME_SHARE = 0.1  # of the dataset: the page cache of two runs that begin alike differs by less


def find_repeats(run: Run, store: StoreLike = None) -> list[Run]:
    """Return the newest finished runs of a store that repeat a run, itself left out."""
    manifest = run.manifest
    chosen = _chosen(manifest)
    if chosen is None:
        return []
    place = open_store(store)
    found: list[Run] = []
    for row in reversed(place.runs()):
        if len(found) == MAX_REPEATS:
            break
        if row.run == run.id or row.state != FINISHED or row.network != manifest.workload.network:
            continue
        other = place.manifest(row.run)
        if other.experiment is not None and TRIALS.fullmatch(other.experiment.campaign or ""):
            continue
        same = _chosen(other) == chosen and _found(other) == _found(manifest) and _unit(other) == _unit(manifest)
        if same and other.run != manifest.run:
            found.append(place.open(row.run))
    return found


def check_repeats(run: Run, others: Sequence[Run]) -> None:
    """Refuse runs that are no repeats of a run: itself, one named twice, one of another setting."""
    seen = {run.id}
    for other in others:
        if other.id == run.id:
            raise UsageError(f"{other.id} is the run that is asked about; a repeat is another run of the same setting")
        if other.id in seen:
            raise UsageError(f"{other.id} is named twice as a repeat; name each run once")
        seen.add(other.id)
        differing = sorted(set(_differences(run.manifest, other.manifest)))
        if differing:
            raise UsageError(
                f"{other.id} is no repeat of {run.id}: it differs in {', '.join(differing)}; name runs of the same "
                "setting, or leave --repeat out to use those of the store"
            )


def _differences(one: Manifest, other: Manifest) -> Iterator[str]:
    """Yield the names of what was chosen, or was found by the training, and is not the same in two runs."""
    yield from _unlike(_chosen(one), _chosen(other), "the experiment")
    for name, (mine, theirs) in zip(FOUND, zip(_found(one), _found(other), strict=True), strict=True):
        yield from _unlike(mine, theirs, name)


def _unlike(one: object, other: object, name: str) -> Iterator[str]:
    if one == other:
        return
    if is_dataclass(one) and type(one) is type(other):
        for item in fields(one):
            yield from _unlike(getattr(one, item.name), getattr(other, item.name), item.name)
    else:
        yield name


def began_alike(one: Summary, other: Summary) -> bool:
    """Return whether two runs can be compared: by later epochs, or by single ones that met the same page cache."""
    if len(whole_epochs(one.epochs)) > 1 and len(whole_epochs(other.epochs)) > 1:
        return True
    shares = [each.epochs[0].cached_share_before if each.epochs else None for each in (one, other)]
    return None not in shares and abs((shares[0] or 0.0) - (shares[1] or 0.0)) < SAME_SHARE


def why_not_alike(summary: Summary) -> str:
    """Return why other runs were not compared with one, as `began_alike` found."""
    if len(whole_epochs(summary.epochs)) > 1:
        return "the others have one whole epoch only"
    if not summary.epochs or summary.epochs[0].cached_share_before is None:
        return (
            "single epochs are compared only where it is known how much of the dataset the page cache held; record the "
            "runs with two epochs or more"
        )
    return "single epochs are compared only where they began with as much of the dataset in the page cache"


def _chosen(manifest: Manifest) -> Experiment | None:
    """Return everything that was chosen for a run, without what distinguishes repeats of one experiment."""
    if manifest.experiment is None:
        return None
    return replace(
        manifest.experiment,
        campaign=None, factors={}, repeat=0, position=None, seed=0, baseload_s=0.0, probe_batch=False,
    )  # fmt: skip


def _found(manifest: Manifest) -> tuple[object, ...]:
    """Return what the training turned out to be: its workload, its loader's arguments, what computed its steps.

    Under lab limits each run has its dataset at a place of its own, on a device of its own.
    """
    workload = replace(manifest.workload, dataset=None, storage_device=None)
    return workload, manifest.loading, manifest.compute, manifest.device.threads


def _unit(manifest: Manifest) -> tuple[str | None, ...]:
    device = manifest.device
    return device.kind, device.name, device.serial, device.host, manifest.origin.value
