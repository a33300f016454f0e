"""Readers for the datasets' real formats: MNIST idx, CIFAR-10, image folders, Google Landmarks, tokens.

Readers are map-style datasets without torch: they hand raw samples to a transform (`transforms`, which needs
torch). `survey` looks at a folder and says what lies there, so that the runner can check, cool and warm the files
without loading torch itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetrain.errors import UsageError, WorkloadError
from edgetrain.workload.catalog import Entry
from edgetrain.workload.datasets import cifar, mnist, pictures, tokens
from edgetrain.workload.datasets.layout import Layout

__all__ = ["Layout", "open_dataset", "survey"]

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
    "gld": "a CSV of user_id, image_id, class beside images/IMAGE_ID.jpg, or one folder of pictures a class",
    "folder": "one folder of pictures a class (train/CLASS/*.jpg), or a Google Landmarks CSV",
    "tokens": "train.bin (16-bit tokens) or train.txt",
}
_READERS = {
    "mnist": mnist.Digits,
    "cifar10": cifar.Cifar10,
    "gld": pictures.Pictures,
    "folder": pictures.Pictures,
    "tokens": tokens.Windows,
}


def survey(root: str | Path, known: Entry) -> Layout:
    """Say what lies in a dataset's folder; UsageError where it is not what this workload reads."""
    folder = Path(root)
    if not folder.exists():
        raise UsageError(
            f"there is no dataset at {folder}; give a folder that exists with --dataset, or leave --dataset out "
            f"to have one of the right shape generated"
        )
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file, and a dataset is a folder; --dataset takes the folder it lies in")
    try:
        for look in _SURVEYS[known.dataset]:
            found = look(folder, known)
            if found is not None:
                return found
    except PermissionError as error:
        raise UsageError(f"cannot read the dataset: {error}; check that this user may read {folder}") from None
    raise UsageError(f"{folder} holds nothing that {known.name} reads; expected {_EXPECTED[known.dataset]}")


def open_dataset(found: Layout, transform: Any) -> Any:
    """Return the reader of a surveyed dataset."""
    try:
        return _READERS[found.kind](found, transform)
    except OSError as error:
        raise WorkloadError(f"cannot open the dataset at {found.root}: {error}") from None
