"""Datasets of the catalogued workloads: what one holds, and generating one of the papers' shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgetrain.api.records import StoreLike, open_store
from edgetrain.runner import dataset_recipe, find_workload, generate_dataset, survey_dataset
from edgetrain.schema import DatasetFacts, DatasetPreview
from edgetrain.workload import DatasetRecipe, expected_bytes, file_sizes, is_ready, size_quantiles


def _place(network: str, scale: float, seed: int, output: Path | None, store: StoreLike) -> tuple[DatasetRecipe, Path]:
    recipe = dataset_recipe(find_workload(network), scale, seed)
    return recipe, output or open_store(store).data / recipe.folder


def dataset_facts(network: str, folder: Path) -> DatasetFacts:
    """Return what a dataset's folder holds; UsageError where this network cannot read it."""
    found = survey_dataset(folder, find_workload(network))
    sizes = file_sizes(found.files)
    return DatasetFacts(
        dataset=str(folder),
        kind=found.kind,
        samples=found.samples,
        classes=found.classes,
        files=len(sizes),
        bytes=sum(sizes),
        size_quantiles=size_quantiles(sizes),
        missing=found.missing,
    )


def dataset_preview(
    network: str, scale: float = 1.0, seed: int = 0, output: Path | None = None, store: StoreLike = None
) -> DatasetPreview:
    """Return what `make_dataset` would write; writes nothing."""
    recipe, folder = _place(network, scale, seed, output, store)
    return DatasetPreview(str(folder), recipe.samples, expected_bytes(recipe), is_ready(folder, recipe))


def make_dataset(
    network: str,
    scale: float = 1.0,
    seed: int = 0,
    output: Path | None = None,
    store: StoreLike = None,
    progress: Callable[[int, int], None] | None = None,
) -> DatasetFacts:
    """Generate a dataset of the papers' shape (files, sizes, resolution), or what is missing of it."""
    recipe, folder = _place(network, scale, seed, output, store)
    return dataset_facts(network, generate_dataset(folder, recipe, progress))
