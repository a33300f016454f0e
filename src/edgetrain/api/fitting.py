"""Whether training a network fits into the memory of each board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.api.records import StoreLike, open_store
from edgetrain.device import load_catalogue
from edgetrain.errors import StoreError, UsageError
from edgetrain.recommendation import Fit, Published, judge, load_published
from edgetrain.runner import count_memory, find_workload
from edgetrain.schema import DEFAULT_BATCH_SIZE, MemoryNeed
from edgetrain.workload import CATALOG

FITS, DOES_NOT_FIT = "fits, little cache", "does not fit"


@dataclass(frozen=True, slots=True)
class FitReport:
    """What training a network needs, and whether each board has it."""

    need: MemoryNeed
    fits: tuple[Fit, ...]


def fits(
    network: str,
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    workers: int = 2,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    os_bytes: int | None = None,
    boards: Sequence[str] = (),
    store: StoreLike = None,
) -> FitReport:
    """Return whether a network (counted, or as measured by a recorded run) can be trained on each board.

    Where a paper could or could not train the network on a board, that decides.
    """
    need = memory_need(network, batch_size, optimizer, momentum, store)
    known = [load_catalogue().get(name) for name in boards] if boards else list(load_catalogue())
    found = []
    for board in known:
        usable_bytes, basis = board.expected_usable_bytes()
        fit = judge(board.key, board.ram_bytes, usable_bytes, basis, need, workers, os_bytes)
        found.append(with_published(fit, need, load_published()))
    return FitReport(need, tuple(found))


def with_published(fit: Fit, need: MemoryNeed, published: Published) -> Fit:
    """Return the verdict that the papers' experience leaves, at their batch size of 16 and beyond."""
    known = published.trainable(need.network, fit.device)
    if known is None:
        return fit
    could, source = known
    if could and need.batch_size <= DEFAULT_BATCH_SIZE and not fit.verdict.startswith("fits"):
        note = f"{fit.device}: estimated as {fit.verdict!r}, but it was trained there ({source})"
        return replace(fit, verdict=FITS, assumptions=(*fit.assumptions, note))
    if not could and need.batch_size >= DEFAULT_BATCH_SIZE and fit.verdict != DOES_NOT_FIT:
        note = f"{fit.device}: estimated as {fit.verdict!r}, but it could not be trained there ({source})"
        return replace(fit, verdict=DOES_NOT_FIT, assumptions=(*fit.assumptions, note))
    return fit


def memory_need(name: str, batch_size: int, optimizer: str, momentum: float, store: StoreLike = None) -> MemoryNeed:
    """Return what training needs: counted for a catalogued network, measured for a recorded run."""
    try:
        known = find_workload(name)
    except UsageError:
        return _measured(name, store)
    return count_memory(known.name, batch_size, optimizer, momentum)


def _measured(name: str, store: StoreLike) -> MemoryNeed:
    known = f"there are {', '.join(CATALOG)}, and recorded runs (edgetrain ls)"
    try:
        run = open_store(store).open(name, light=True)
    except StoreError:
        raise UsageError(f"{name!r} is neither a network nor a recorded run; {known}") from None
    facts, workload = run.main.facts, run.manifest.workload
    if not facts.peak_gpu_bytes:
        raise UsageError(
            f"the run {name} did not record the memory of a GPU, so what it needs there is not known; "
            f"ask with the network's name instead ({workload.network or 'see edgetrain ls'})"
        )
    return MemoryNeed(
        network=str(workload.network),
        batch_size=workload.batch_size or 0,
        origin=run.manifest.origin,
        parameters=facts.parameters,
        tensors_bytes=facts.peak_gpu_bytes,
        process_bytes=facts.peak_rss_bytes,
    )
