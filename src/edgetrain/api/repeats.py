"""Finds the runs of a store that repeat another: the same experiment on the same unit."""

from __future__ import annotations

from dataclasses import replace

from edgetrain.api.records import StoreLike, open_store
from edgetrain.record import Manifest, Run
from edgetrain.schema import Experiment

MOST_REPEATS = 5  # the newest ones; each is read whole
FINISHED = "finished"


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
        if other.run != manifest.run and _unit(other) == _unit(manifest) and _chosen(other) == chosen:
            found.append(place.open(row.run))
    return found


def _chosen(manifest: Manifest) -> Experiment | None:
    """Return everything that was chosen for a run, without what distinguishes repeats of one experiment."""
    if manifest.experiment is None:
        return None
    return replace(
        manifest.experiment,
        campaign=None, factors={}, repeat=0, position=None, seed=0, baseload_s=0.0, probe_batch=False,
    )  # fmt: skip


def _unit(manifest: Manifest) -> tuple[str | None, ...]:
    device = manifest.device
    return device.kind, device.name, device.serial, device.host, manifest.origin.value
