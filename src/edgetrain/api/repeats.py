"""Finds the runs of a store that repeat another: the same experiment on the same unit.

A script can be edited between two runs of one command, so the runs must also have found the same workload and loader.
"""

from __future__ import annotations

from dataclasses import replace

from edgetrain.analysis import Summary
from edgetrain.api.records import StoreLike, open_store
from edgetrain.record import Manifest, Run
from edgetrain.schema import Experiment

MOST_REPEATS = 5  # the newest ones; each is read whole
FINISHED = "finished"
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
        if len(found) == MOST_REPEATS:
            break
        if row.run == run.id or row.state != FINISHED or row.network != manifest.workload.network:
            continue
        other = place.manifest(row.run)
        same = _chosen(other) == chosen and _found(other) == _found(manifest) and _unit(other) == _unit(manifest)
        if same and other.run != manifest.run:
            found.append(place.open(row.run))
    return found


def began_alike(one: Summary, other: Summary) -> bool:
    """Return whether two runs can be compared: by later epochs, or by single ones that met the same page cache."""
    if len(one.epochs) > 1 and len(other.epochs) > 1:
        return True
    shares = [each.epochs[0].cached_share_before if each.epochs else None for each in (one, other)]
    return None not in shares and abs((shares[0] or 0.0) - (shares[1] or 0.0)) < SAME_SHARE


def _chosen(manifest: Manifest) -> Experiment | None:
    """Return everything that was chosen for a run, without what distinguishes repeats of one experiment."""
    if manifest.experiment is None:
        return None
    return replace(
        manifest.experiment,
        campaign=None, factors={}, repeat=0, position=None, seed=0, baseload_s=0.0, probe_batch=False,
    )  # fmt: skip


def _found(manifest: Manifest) -> tuple[object, ...]:
    """Return what the training turned out to be: its workload, its loader's arguments, what computed its steps."""
    return manifest.workload, manifest.loading, manifest.compute, manifest.device.threads


def _unit(manifest: Manifest) -> tuple[str | None, ...]:
    device = manifest.device
    return device.kind, device.name, device.serial, device.host, manifest.origin.value
