"""The experiments of HiPC-SRS 2021, III-A to III-F, as ready campaigns for the lab.

    workers   workers x storage on the NX and AGX presets, cold then later epochs          A, B, C, D
    sizes     0.25x, 1x, 4x the dataset on SSD and HDD, page cache held                    E, F
    ram       page caches that hold the dataset and that do not                            D
    batch     batch sizes 1 to 128 on the AGX preset                                       (not judged)
    networks  RAM held, a network that needs more of it leaves less page cache             (not judged)

Every time of a board is divided by `speed`, and the dataset by `shrink`; what was done is in the record and in the
report. An epoch has at least 60 minibatches, workers persist, the pipeline's fill is kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetrain.runner.plan import Plan
from edgetrain.runner.reproduce_data import MEAN_BYTES, light_pictures

SECTIONS = ("workers", "sizes", "ram")
MORE = ("batch", "networks")
BATCH = 16
EPOCH = 61  # minibatches: sixty, and the first, which is the pipeline's fill
PAPER_IMAGES = 23_080
FULL_SPEED = 2.5  # about as fast as one core of a plain machine can decode the papers' photographs for AGX Xavier
LIGHT_SPEED = 5.0
SIZES_BATCH = 8
SIZES_CACHED = 0.7  # of the 1x dataset, as on the paper's NX (see the preset's source)
RAM_FILES = 2560  # 312 MB
LIGHT = (400, 300)


@dataclass(frozen=True, slots=True)
class Section:
    """One campaign of the reproduction, at the speed its times must be multiplied with."""

    name: str
    plan: Plan
    speed: float
    dataset_bytes: int | None = None


def hipc(
    data: Path,
    quick: bool = False,
    sections: tuple[str, ...] = SECTIONS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Section]:
    """Return the campaigns; datasets of light pictures are made on the way, once, in `data`."""
    makers: dict[str, Callable[[], Section]] = {
        "workers": lambda: _workers(data, quick, progress),
        "sizes": lambda: _sizes(data, quick, progress),
        "ram": lambda: _ram(data, quick, progress),
        "batch": lambda: _batch(data, progress),
        "networks": lambda: _networks(data, progress),
    }
    return [makers[name]() for name in sections]


def _light(board: str, speed: float, dataset: Path) -> dict[str, Any]:
    """Return a board at a speed with light pictures, whose decoding the lab slows to the board's, at that speed."""
    return {"preset": board, "speed": speed, "dataset": str(dataset), "picture": f"{LIGHT[0]}x{LIGHT[1]}"}


def _plan(name: str, base: Mapping[str, Any], **rest: Any) -> Plan:
    common = {"network": "mobilenet_v3", "cache": "cold", "persistent": True, "epochs": 2}
    return Plan(f"hipc-{name}", {**common, **base}, cool_down_s=0.5, retries=1, **rest)


def _workers(data: Path, quick: bool, progress: Callable[[int, int], None]) -> Section:
    images = EPOCH * BATCH
    shrink = PAPER_IMAGES / images
    if not quick:
        factors = {
            "preset": ["xavier-nx", "xavier-agx"],
            "storage": ["hdd", "sd", "ssd"],
            "workers": [0, 1, 2, 4],
        }
        base: dict[str, Any] = {"speed": FULL_SPEED, "shrink": shrink}
        return Section("workers", _plan("workers", base, factors=factors), FULL_SPEED)
    dataset = light_pictures(data, images, *LIGHT, progress=progress)
    points = []
    for board, medium, workers in (
        *(("xavier-nx", medium, workers) for medium in ("hdd", "ssd") for workers in (0, 1, 2)),
        ("xavier-agx", "hdd", 0),
        ("xavier-agx", "ssd", 0),
    ):
        points.append({"preset": board, "storage": medium, "workers": workers})
    light_base = {**_light("xavier-nx", LIGHT_SPEED, dataset), "shrink": shrink}
    return Section("workers", _plan("workers-quick", light_base, points=tuple(points)), LIGHT_SPEED)


def _sizes(data: Path, quick: bool, progress: Callable[[int, int], None]) -> Section:
    scales = (0.25, 1.0) if quick else (0.25, 1.0, 4.0)
    smallest = (EPOCH - 1) * SIZES_BATCH
    held = int(SIZES_CACHED * smallest / 0.25 * MEAN_BYTES)
    points = []
    base: dict[str, Any] = {}
    for scale in scales:
        dataset = light_pictures(data, round(smallest * scale / 0.25), *LIGHT, progress=progress)
        base = _light("xavier-nx", LIGHT_SPEED, dataset)
        # As the paper: the SSD pipelined, the HDD with no workers.
        for medium, workers in (("ssd", 1), ("hdd", 0)):
            points.append({"storage": medium, "workers": workers, "dataset_scale": scale, "dataset": base["dataset"]})
    del base["dataset"]
    base |= {"batch_size": SIZES_BATCH, "page_cache": str(held)}
    name = "sizes-quick" if quick else "sizes"
    return Section("sizes", _plan(name, base, points=tuple(points)), LIGHT_SPEED)


def _ram(data: Path, quick: bool, progress: Callable[[int, int], None]) -> Section:
    """A tiny paced network, so that epochs are as short as reading allows."""
    dataset = light_pictures(data, RAM_FILES, *LIGHT, progress=progress)
    size_bytes = RAM_FILES * MEAN_BYTES
    speed = 2 * LIGHT_SPEED
    base = {
        "dataset": str(dataset),
        "compute": "paced",
        "compute_ms": 4.0,
        "storage": "hdd",
        "speed": speed,
        "workers": 2,
        "epochs": 2 if quick else 3,
    }
    caches = ["150MB", "400MB"] if quick else ["100MB", "200MB", "400MB"]
    name = "ram-quick" if quick else "ram"
    return Section("ram", _plan(name, base, factors={"page_cache": caches}), speed, size_bytes)


def _batch(data: Path, progress: Callable[[int, int], None]) -> Section:
    """Stall per batch rises and per epoch falls with the batch size, until the GPU is full."""
    dataset = light_pictures(data, 60 * 32, *LIGHT, progress=progress)
    base = _light("xavier-agx", LIGHT_SPEED, dataset) | {"storage": "ssd", "workers": 4, "epochs": 2}
    return Section("batch", _plan("batch", base, factors={"batch_size": [1, 8, 16, 32, 64, 128]}), LIGHT_SPEED)


def _networks(data: Path, progress: Callable[[int, int], None]) -> Section:
    """The same RAM: what the network needs of it is gone from the page cache."""
    dataset = light_pictures(data, RAM_FILES, *LIGHT, progress=progress)
    speed = 2 * LIGHT_SPEED
    base = {
        "dataset": str(dataset),
        "ram": "1.8GB",
        "compute": "paced",
        "compute_ms": 4.0,
        "storage": "hdd",
        "speed": speed,
        "workers": 2,
    }
    factors = {"network": ["resnet18", "mobilenet_v3"]}
    return Section("networks", _plan("networks", base, factors=factors), speed, RAM_FILES * MEAN_BYTES)
