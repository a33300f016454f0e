"""Token windows: `train.bin` (16-bit little-endian tokens, vocabulary in meta.json) or `train.txt` (its bytes)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.workload.catalog import CatalogEntry
from edgetrain.workload.datasets.layout import DatasetLayout
from edgetrain.workload.datasets.records import RecordFile
from edgetrain.workload.errors import RequestError


def _vocabulary(root: Path, tokens: Path) -> int:
    meta = root / "meta.json"
    if meta.is_file():
        try:
            size = json.loads(meta.read_text())["vocabulary"]
            if isinstance(size, int) and 1 < size <= 2**16:
                return size
        except (ValueError, KeyError, TypeError):
            pass
        raise RequestError(f'{meta} does not name the vocabulary; expected {{"vocabulary": 33278}}, at most 65536')
    largest = 0
    with tokens.open("rb") as file:
        while chunk := file.read(2**22):
            largest = max(largest, int(np.frombuffer(chunk[: len(chunk) // 2 * 2], "<u2").max(initial=0)))
    return largest + 1


@dataclass(frozen=True)
class TokenLayout(DatasetLayout):
    """Bytes per token, and tokens per sample."""

    width: int = 2
    window: int = 1

    def open(self, transform: Any) -> TokenWindows:
        """Return the reader."""
        return TokenWindows(self, transform)


def survey(root: Path, known: CatalogEntry) -> TokenLayout | None:
    """Find the tokens; one sample is a window and the token after it, so windows do not overlap but for that one."""
    window = known.shape[0]
    for name, width in (("train.bin", 2), ("train.txt", 1)):
        path = root / name
        if path.is_file():
            count = path.stat().st_size // width
            classes = 256 if width == 1 else _vocabulary(root, path)
            samples = max(0, (count - 1) // window)
            return TokenLayout("tokens", root, (str(path),), samples, classes, width=width, window=window)
    return None


class TokenWindows:
    """A window of tokens and, as its target, the same window one token later."""

    def __init__(self, found: TokenLayout, transform: Any) -> None:
        self.transform = transform
        self._width, window = found.width, found.window
        self._records = RecordFile(found.files[0], 0, (window + 1) * self._width, window * self._width)
        self._samples = found.samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self._samples:
            raise IndexError(index)
        raw = self._records.read(index)
        tokens = np.frombuffer(raw, "<u2" if self._width == 2 else np.uint8).astype(np.int64)
        return self.transform(tokens[:-1]), self.transform(tokens[1:])
