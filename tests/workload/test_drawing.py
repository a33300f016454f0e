"""Drawn pictures cost a decoder what photographs of the same size cost."""

from __future__ import annotations

import io
import statistics
import time
from pathlib import Path

import pytest

from edgetrain.workload import drawing

SIZE = (800, 600)


def photographs():
    """Return the photographs scikit-learn ships, at our resolution, encoded to about the mean size."""
    from PIL import Image

    sklearn = pytest.importorskip("sklearn")
    found = []
    for path in sorted((Path(sklearn.__file__).parent / "datasets" / "images").glob("*.jpg")):
        with Image.open(path) as picture:
            image = picture.convert("RGB").resize(SIZE)
        for quality in range(98, 50, -1):
            file = io.BytesIO()
            image.save(file, "JPEG", quality=quality)
            if len(file.getvalue()) <= 122_000:
                found.append(file.getvalue())
                break
    if not found:
        pytest.skip("this scikit-learn ships no photographs")
    return found


def test_decoding_a_drawn_picture_costs_what_decoding_a_photograph_does():
    from PIL import Image

    def cost_s(data):
        began_s = time.thread_time()
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
        return time.thread_time() - began_s

    real = photographs()
    drawn = [drawing.jpeg(0, index, SIZE, 122_000) for index in range(12)]
    drawn = [data for data in drawn if 90_000 < len(data) < 150_000]
    # Interleaved, and the least of each: the machine's own hiccups fall on both.
    ratios = []
    for _ in range(7):
        ratios.append(statistics.mean(map(cost_s, drawn)) / statistics.mean(map(cost_s, real)))
    assert 0.6 < statistics.median(ratios) < 1.6, ratios
