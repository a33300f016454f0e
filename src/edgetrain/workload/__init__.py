"""Networks, datasets and the training loop: a Python 3.8 program that needs torch, numpy and Pillow.

    python -m edgetrain.workload --job FILE        (or this folder's __main__.py by path, in a Python without edgetrain)

It imports `edgetrain.inside` and no other edgetrain package. Before training, the runner uses the catalogue, the survey
of a dataset's folder and the generator, none of which need torch; the names below are loaded when first used. Errors
are `TrainingError` and `RequestError`; `edgetrain.runner` turns them into the errors of the rest of the package.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetrain.workload.catalog import CATALOG, CatalogEntry, entry, is_own
    from edgetrain.workload.datasets import DatasetLayout, open_dataset, survey
    from edgetrain.workload.datasets.layout import file_sizes, size_quantiles
    from edgetrain.workload.drawing import drawn_size_bytes, jpeg
    from edgetrain.workload.errors import RequestError, TrainingError
    from edgetrain.workload.generate import DatasetRecipe, expected_bytes, generate_dataset, is_ready, recipe_for
    from edgetrain.workload.job import BATCH_SIZE, TrainingJob
    from edgetrain.workload.messages import (
        MESSAGES,
        EpochBegan,
        EpochEnded,
        MinibatchesDone,
        Prepared,
        TrainingFailed,
        TrainingFinished,
        TrainingMessage,
    )
    from edgetrain.workload.slow_reads import READ_QUEUE, cached_bytes, install_read_queue

_HOMES = {
    "catalog": ("CATALOG", "CatalogEntry", "entry", "is_own"),
    "datasets": ("DatasetLayout", "open_dataset", "survey"),
    "datasets.layout": ("file_sizes", "size_quantiles"),
    "drawing": ("drawn_size_bytes", "jpeg"),
    "errors": ("RequestError", "TrainingError"),
    "generate": ("DatasetRecipe", "expected_bytes", "generate_dataset", "is_ready", "recipe_for"),
    "job": ("BATCH_SIZE", "TrainingJob"),
    "messages": (
        "MESSAGES",
        "EpochBegan",
        "EpochEnded",
        "MinibatchesDone",
        "Prepared",
        "TrainingFailed",
        "TrainingFinished",
        "TrainingMessage",
    ),
    "slow_reads": ("READ_QUEUE", "cached_bytes", "install_read_queue"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BATCH_SIZE",
    "CATALOG",
    "MESSAGES",
    "READ_QUEUE",
    "CatalogEntry",
    "DatasetLayout",
    "DatasetRecipe",
    "EpochBegan",
    "EpochEnded",
    "MinibatchesDone",
    "Prepared",
    "RequestError",
    "TrainingError",
    "TrainingFailed",
    "TrainingFinished",
    "TrainingJob",
    "TrainingMessage",
    "cached_bytes",
    "drawn_size_bytes",
    "entry",
    "expected_bytes",
    "file_sizes",
    "generate_dataset",
    "install_read_queue",
    "is_own",
    "is_ready",
    "jpeg",
    "open_dataset",
    "recipe_for",
    "size_quantiles",
    "survey",
]


if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> Any:
        if name in _HOME_OF:
            return getattr(importlib.import_module("edgetrain.workload." + _HOME_OF[name]), name)
        raise AttributeError(f"module 'edgetrain.workload' has no attribute {name!r}")


# A storage medium emulated without root: reads of the dataset wait here, in every process that opens its files.
if os.environ.get("EDGETRAIN_READ_QUEUE"):
    from edgetrain.workload.slow_reads import install_read_queue

    install_read_queue()
