"""Readers for the datasets' real formats: MNIST idx, CIFAR-10, image folders, Google Landmarks, tokens.

Readers are map-style datasets without torch: they pass raw samples to a transform (`transforms`, which needs
torch). `survey` finds out what is in a folder, so that the runner can check the files and drop them from the page cache
or read them in without loading torch itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetrain.workload.catalog import CatalogEntry
from edgetrain.workload.datasets import cifar, mnist, pictures, tokens
from edgetrain.workload.datasets.layout import DatasetLayout
from edgetrain.workload.errors import RequestError, TrainingError

__all__ = ["DatasetLayout", "open_dataset", "survey"]

# Which layouts serve which: a network for pictures takes either layout of pictures.
_SURVEYS = {
    "mnist": (mnist.survey,),
    "cifar10": (cifar.survey,),
    "gld": (pictures.survey_gld, pictures.survey_folders),
    # The landmarks' CSV first: their `images/` would pass for a folder of one class.
    "folder": (pictures.survey_gld, pictures.survey_folders),
    "tokens": (tokens.survey,),
}
_EXPECTED = {
    "mnist": "train-images-idx3-ubyte and train-labels-idx1-ubyte",
    "cifar10": "data_batch_1 … data_batch_5 (python) or data_batch_1.bin … (binary)",
    "gld": "a CSV of user_id, image_id, class beside images/IMAGE_ID.jpg, or one folder of pictures per class",
    "folder": "one folder of pictures per class (train/CLASS/*.jpg), or a Google Landmarks CSV",
    "tokens": "train.bin (16-bit tokens) or train.txt",
}


def survey(root: str | Path, known: CatalogEntry) -> DatasetLayout:
    """Return what is in a dataset's folder; RequestError where this workload cannot read it."""
    folder = Path(root)
    if not folder.exists():
        raise RequestError(
            f"there is no dataset at {folder}; give a folder that exists with --dataset, or leave --dataset out "
            f"to have one of the right shape generated"
        )
    if not folder.is_dir():
        raise RequestError(f"{folder} is a file, and a dataset is a folder; --dataset takes the folder it lies in")
    try:
        for find in _SURVEYS[known.dataset]:
            found = find(folder, known)
            if found is not None:
                return found
    except PermissionError as error:
        raise RequestError(f"cannot read the dataset: {error}; check that this user may read {folder}") from None
    raise RequestError(f"{folder} holds nothing that {known.name} reads; expected {_EXPECTED[known.dataset]}")


def open_dataset(found: DatasetLayout, transform: Any) -> Any:
    """Return the reader of a surveyed dataset."""
    try:
        return found.open(transform)
    except OSError as error:
        raise TrainingError(f"cannot open the dataset at {found.root}: {error}") from None
