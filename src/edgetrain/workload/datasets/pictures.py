"""PictureFiles in files: one folder per class (ImageNet style), or Google Landmarks' CSV of user, image and class.

A file that cannot be decoded does not end a run: it is named in the record and its neighbour is used instead.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.inside.stream import append_event
from edgetrain.workload.catalog import CatalogEntry
from edgetrain.workload.datasets.layout import DatasetLayout
from edgetrain.workload.errors import RequestError, TrainingError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
COLUMNS = {"user_id", "image_id", "class"}
MAX_BAD = 100  # neighbours tried in a row before we say that the dataset itself is broken


@dataclass(frozen=True)
class PictureLayout(DatasetLayout):
    """`labels` has the class of each file."""

    labels: tuple[int, ...] = ()

    def open(self, transform: Any) -> PictureFiles:
        """Return the reader."""
        return PictureFiles(self, transform)


def survey_folders(root: Path, known: CatalogEntry) -> PictureLayout | None:
    """Find `CLASS/picture` below the folder, or below its `train`."""
    base = root / "train" if (root / "train").is_dir() else root
    files: list[str] = []
    labels: list[int] = []
    classes = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    used = 0
    for name in classes:
        pictures = [entry.path for entry in os.scandir(base / name) if entry.name.lower().endswith(ENDINGS)]
        if pictures:
            files += sorted(pictures)
            labels += [used] * len(pictures)
            used += 1
    if not files:
        return None
    return PictureLayout("folder", root, tuple(files), len(files), used, labels=tuple(labels))


def _landmarks_csv(root: Path) -> Path | None:
    """Return the CSV of the training split: Google's and FedML's names both say `train`."""
    candidates = [*root.glob("*.csv"), *root.glob("data_user_dict/*.csv"), *root.glob("federated/*.csv")]
    for path in sorted(candidates, key=lambda path: ("train" not in path.name, "23k" not in path.name, path.name)):
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            header = file.readline()
        if set(header.strip().replace('"', "").split(",")) >= COLUMNS:
            return path
    return None


def _image_path(root: str, image: str) -> tuple[str, ...]:
    # Flat as FedML has them, or in the three levels of Google's own archives.
    nested = os.path.join(*image[:3], image + ".jpg") if len(image) >= 3 else image + ".jpg"
    return (
        os.path.join(root, "images", image + ".jpg"),
        os.path.join(root, image + ".jpg"),
        os.path.join(root, "train", nested),
        os.path.join(root, nested),
    )


def survey_gld(root: Path, known: CatalogEntry) -> PictureLayout | None:
    """Read the CSV; images it names that are not there are left out and listed."""
    path = _landmarks_csv(root)
    if path is None:
        return None
    files: list[str] = []
    labels: list[int] = []
    missing: list[str] = []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        # A garbled file may hold NUL bytes, which the reader of Python 3.10 does not take.
        for row in csv.DictReader(line.replace("\0", "") for line in file):
            image = (row["image_id"] or "").strip()
            try:
                label = int(row["class"])
            except (TypeError, ValueError):
                raise RequestError(f"{path}: the class of image {image!r} is {row['class']!r}, not a number") from None
            if not image or "/" in image or image.startswith("."):
                raise RequestError(f"{path}: {image!r} is no image id; ids are the files' names without .jpg")
            there = next((option for option in _image_path(str(root), image) if os.path.exists(option)), None)
            if there is None:
                missing.append(image)
                continue
            files.append(there)
            labels.append(label)
    if not files:
        raise RequestError(
            f"{path} names {len(missing)} images and none of them is there; expected images/IMAGE_ID.jpg"
        )
    # Class numbers may have gaps in a subset; the network gets as many outputs as the largest needs.
    classes = max(labels) + 1
    return PictureLayout("gld", root, tuple(files), len(files), classes, tuple(missing), tuple(labels))


class PictureFiles:
    """Decodes one file per sample."""

    def __init__(self, found: PictureLayout, transform: Any) -> None:
        from PIL import Image

        self._open = Image.open
        self.transform = transform
        # One array of bytes, not a list of strings: reference counts would copy a list's pages in every worker.
        self._files = np.array([os.fsencode(file) for file in found.files])
        self._labels = np.array(found.labels, np.int64)
        self._named: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)  # what ends a plain loop over a dataset
        for step in range(min(MAX_BAD, len(self))):
            at = (index + step) % len(self)
            path = self._files[at]
            try:
                # Opened here, not by Pillow: it would keep the file for a lazy load.
                with open(path, "rb") as file, self._open(file) as picture:
                    image = picture.convert("RGB")
            except Exception as error:
                # Decoders fail with whatever the bytes lead them to: OSError, SyntaxError, ValueError, struct.error.
                self._note(path, error)
                continue
            return self.transform(image), int(self._labels[at])
        raise TrainingError(
            f"{min(MAX_BAD, len(self))} pictures in a row cannot be decoded, the first is "
            f"{os.fsdecode(self._files[index])}; check the dataset"
        )

    def _note(self, path: bytes, error: Exception) -> None:
        run = os.environ.get("EDGETRAIN_RUN")
        if path in self._named or not run:
            return
        self._named.add(path)
        name = os.fsdecode(path)
        text = f"{name} cannot be decoded ({type(error).__name__}: {error}); its neighbour was used instead"
        append_event(os.path.join(run, f"events-files-{os.getpid()}.jsonl"), "bad_file", text, file=name)
