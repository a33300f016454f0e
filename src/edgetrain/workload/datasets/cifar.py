"""CIFAR-10 as its authors publish it, in python batches or binary ones.

Python batches are pickles, and a pickle can run anything: ours are read by an unpickler that builds arrays, lists and
strings and refuses the rest.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

from edgetrain.workload.catalog import CatalogEntry
from edgetrain.workload.datasets.layout import DatasetLayout
from edgetrain.workload.datasets.records import RecordFile
from edgetrain.workload.errors import RequestError

RECORD_BYTES = 1 + 3 * 32 * 32
PIXELS = 3 * 32 * 32
MAX_BYTES = 256 * 2**20  # of one python batch; the real ones have 31 MB
_PYTHON = ("", "cifar-10-batches-py")
_BINARY = ("", "cifar-10-batches-bin")


def _empty_array(kind: Any, shape: Any, dtype: Any) -> Any:
    # numpy's pickles first make an empty array and then fill it; a pickle that asks for more is not one of those.
    if kind is not np.ndarray or tuple(shape) != (0,):
        raise RequestError(
            f"a CIFAR-10 batch asks for an array of shape {shape!r} before its contents; it is not genuine"
        )
    return np.ndarray((0,), dtype)


def _latin(text: str, encoding: str) -> bytes:
    # How Python 3 writes bytes into a pickle of the protocol the batches use.
    if encoding != "latin1":
        raise RequestError(f"a CIFAR-10 batch encodes bytes as {encoding!r}; it is not genuine")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
}


class _Unpickler(pickle.Unpickler):
    """Builds dicts, lists, strings and arrays of numbers; anything else a pickle names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise RequestError(
                f"a CIFAR-10 batch asks to load {module}.{name}; it is not genuine, do not use it"
            ) from None


def read_python_batch(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return images of shape (n, 3, 32, 32) and labels of one python batch."""
    if path.stat().st_size > MAX_BYTES:
        raise RequestError(
            f"{path} has {path.stat().st_size} bytes, a CIFAR-10 batch has 31 million; it is not genuine"
        )
    try:
        batch = _Unpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        # The authors' keys are text; batches that Python 3 wrote again often have bytes.
        images = batch["data"] if "data" in batch else batch[b"data"]
        labels = np.asarray(batch["labels"] if "labels" in batch else batch[b"labels"], np.int64)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None
    except Exception as error:
        # A torn pickle can fail with almost any exception.
        raise RequestError(
            f"{path} cannot be read as a CIFAR-10 batch: {type(error).__name__} {error}; fetch it again"
        ) from None
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != PIXELS:
        raise RequestError(f"{path} holds no table of {PIXELS} bytes per image; fetch it again")
    if len(images) != len(labels):
        raise RequestError(f"{path} holds {len(images)} images but {len(labels)} labels; fetch it again")
    return images.reshape(-1, 3, 32, 32), labels


@dataclass(frozen=True)
class CifarLayout(DatasetLayout):
    """Binary batches have a count of records each; of python batches that is not known before they are read."""

    counts: tuple[int, ...] | None = None

    def open(self, transform: Any) -> Cifar10:
        """Return the reader."""
        return Cifar10(self, transform)


def survey(root: Path, known: CatalogEntry) -> CifarLayout | None:
    """Find the training batches, binary ones first: they are read sample by sample."""
    for folder in _BINARY:
        binary = sorted((root / folder).glob("data_batch_*.bin"))
        if binary:
            counts = []
            for path in binary:
                count, rest = divmod(path.stat().st_size, RECORD_BYTES)
                if rest:
                    raise RequestError(f"{path} is no whole number of {RECORD_BYTES}-byte records; fetch it again")
                counts.append(count)
            files = tuple(map(str, binary))
            return CifarLayout("cifar10", root, files, sum(counts), known.classes, counts=tuple(counts))
    for folder in _PYTHON:
        python = sorted(path for path in (root / folder).glob("data_batch_*") if path.suffix == "")
        if python:
            count = sum(len(read_python_batch(path)[1]) for path in python)
            return CifarLayout("cifar10", root, tuple(map(str, python)), count, known.classes)
    return None


class Cifar10:
    """Binary batches are read record by record; python batches must be read whole, and are kept in memory."""

    def __init__(self, found: CifarLayout, transform: Any) -> None:
        self.transform = transform
        counts = found.counts
        self._records: list[RecordFile] = []
        self._samples = found.samples
        if counts is not None:
            self._records = [RecordFile(file, 0, RECORD_BYTES) for file in found.files]
            self._ends = np.cumsum(counts)
        else:
            batches = [read_python_batch(Path(file)) for file in found.files]
            self._images = np.concatenate([images for images, _ in batches])
            self._labels = np.concatenate([labels for _, labels in batches])

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < self._samples:
            raise IndexError(index)
        if not self._records:
            return self.transform(self._images[index]), int(self._labels[index])
        batch = int(np.searchsorted(self._ends, index, side="right"))
        first = 0 if batch == 0 else int(self._ends[batch - 1])
        raw = np.frombuffer(self._records[batch].read(index - first), np.uint8)
        return self.transform(raw[1:].reshape(3, 32, 32)), int(raw[0])
