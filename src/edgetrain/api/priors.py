"""Lists priors, and adds a network to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.api.files import write_text
from edgetrain.api.profiled import ProfiledSource, read_profiled
from edgetrain.api.records import StoreLike
from edgetrain.errors import UsageError
from edgetrain.prediction import (
    PriorList,
    dump_prior,
    learn_entry,
    load_prior,
    shipped_priors,
    summarize_prior,
    with_entry,
)


def list_priors(files: Sequence[str | Path] = ()) -> PriorList:
    """Return the shipped priors, and those in files."""
    names = [*shipped_priors(), *(str(file) for file in files)]
    return PriorList(tuple(summarize_prior(load_prior(name), name) for name in names))


def add_to_prior(
    profiled: ProfiledSource,
    network: str,
    board: str,
    *,
    to: str | Path = "prior.json",
    start: str = "orin",
    kind: str = "train",
    source: str = "",
    dry_run: bool = False,
    store: StoreLike = None,
) -> PriorList:
    """Fit measured modes of a network and write a prior with them to a file, which is extended where it exists."""
    if kind not in ("train", "infer"):
        raise UsageError(f"--kind is train or infer, not {kind!r}")
    seen = read_profiled(profiled, store, board)
    entry = learn_entry(seen.table, network, board, kind, source=source or seen.name)
    path = Path(to)
    known = load_prior(str(path)) if path.exists() else load_prior(start)
    grown, replaced = with_entry(known, entry, path.stem)
    if not dry_run:
        write_text(path, dump_prior(grown))
    return PriorList((summarize_prior(grown, str(path)),), None if dry_run else str(path), replaced)
