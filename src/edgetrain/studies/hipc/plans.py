"""The experiments of HiPC-SRS 2021, III-A to III-F, as campaigns for the lab.

    workers   workers x storage on the NX and AGX presets, cold and later epochs           A, B, C, D
    sizes     0.25x, 1x, 4x the dataset on SSD and HDD, page cache limited                  E, F
    ram       page caches that hold the dataset and that do not                             D
    batch     batch sizes 1 to 128 on the AGX preset                                        (not judged)
    networks  RAM limited: a network that needs more of it leaves less page cache           (not judged)

Every time of a board is divided by `speed`, and the dataset by `shrink`; both are in the record and in the report. An
epoch has at least 60 minibatches, workers persist, the pipeline's fill is kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from edgetrain.runner import Plan
from edgetrain.schema import Origin, Scalar
from edgetrain.studies.base import PlannedSection, StudyPlan
from edgetrain.studies.hipc.claims import FINDINGS
from edgetrain.studies.pictures import MEAN_BYTES, LightPictures

SECTIONS = ("workers", "sizes", "ram")
NOT_JUDGED = ("batch", "networks")
ANSWERED_BY = {"workers": "ABCD", "sizes": "EF", "ram": "D"}
BATCH = 16
EPOCH = 61  # minibatches: sixty, and the first, which is the pipeline's fill
PAPER_IMAGES = 23_080
FULL_SPEED = 2.5  # about as fast as one core of a plain machine can decode the papers' photographs for AGX Xavier
LIGHT_SPEED = 5.0
SIZES_BATCH = 8
SIZES_CACHED = 0.7  # of the 1x dataset, as on the paper's NX (see the preset's source)
RAM_FILES = 2560  # 312 MB

Settings: TypeAlias = dict[str, Scalar]
Factors: TypeAlias = dict[str, list[Scalar]]


def plan(data: Path, quick: bool = False, sections: Sequence[str] = SECTIONS) -> StudyPlan:
    """Return the study with these sections; datasets lie below `data` and are not made here."""
    makers = {
        "workers": lambda: _workers(data, quick),
        "sizes": lambda: _sizes(data, quick),
        "ram": lambda: _ram(data, quick),
        "batch": lambda: _batch(data),
        "networks": lambda: _networks(data),
    }
    planned = tuple(makers[name]() for name in sections)
    letters = set("".join(ANSWERED_BY.get(name, "") for name in sections))
    claims = tuple(claim for claim in FINDINGS if claim.letter in letters)
    return StudyPlan("hipc", "HiPC-SRS 2021 in the lab", "III-", data, planned, claims, Origin.EMULATED)


def _light(board: str, dataset: LightPictures, data: Path) -> Settings:
    """Return a board's settings with light pictures, whose decoding the lab slows to the board's pace."""
    picture = f"{dataset.width}x{dataset.height}"
    return {"preset": board, "speed": LIGHT_SPEED, "dataset": str(dataset.folder(data)), "picture": picture}


def _plan(name: str, base: Settings, factors: Factors | None = None, points: tuple[Settings, ...] = ()) -> Plan:
    common: Settings = {"network": "mobilenet_v3", "cache": "cold", "persistent": True, "epochs": 2}
    return Plan(f"hipc-{name}", {**common, **base}, factors or {}, points, cool_down_s=0.5, retries=1)


def _workers(data: Path, quick: bool) -> PlannedSection:
    images = EPOCH * BATCH
    shrink = PAPER_IMAGES / images
    if not quick:
        factors: Factors = {
            "preset": ["xavier-nx", "xavier-agx"],
            "storage": ["hdd", "sd", "ssd"],
            "workers": [0, 1, 2, 4],
        }
        base: Settings = {"speed": FULL_SPEED, "shrink": shrink}
        return PlannedSection("workers", _plan("workers", base, factors=factors), FULL_SPEED)
    points: tuple[Settings, ...] = tuple(
        {"preset": board, "storage": medium, "workers": workers}
        for board, medium, workers in (
            *(("xavier-nx", medium, workers) for medium in ("hdd", "ssd") for workers in (0, 1, 2)),
            *(("xavier-agx", "hdd", workers) for workers in (0, 1, 2)),
            ("xavier-agx", "ssd", 0),
        )
    )
    dataset = LightPictures(images)
    light_base = {**_light("xavier-nx", dataset, data), "shrink": shrink}
    return PlannedSection("workers", _plan("workers-quick", light_base, points=points), LIGHT_SPEED, (dataset,))


def _sizes(data: Path, quick: bool) -> PlannedSection:
    scales = (0.25, 1.0) if quick else (0.25, 1.0, 4.0)
    smallest = (EPOCH - 1) * SIZES_BATCH
    datasets = {scale: LightPictures(round(smallest * scale / 0.25)) for scale in scales}
    # As in the paper: the SSD pipelined, the HDD with no workers.
    points: tuple[Settings, ...] = tuple(
        {"storage": medium, "workers": workers, "dataset_scale": scale, "dataset": str(dataset.folder(data))}
        for scale, dataset in datasets.items()
        for medium, workers in (("ssd", 1), ("hdd", 0))
    )
    base = _light("xavier-nx", datasets[0.25], data)
    del base["dataset"]
    base |= {"batch_size": SIZES_BATCH, "page_cache": str(int(SIZES_CACHED * smallest / 0.25 * MEAN_BYTES))}
    name = "sizes-quick" if quick else "sizes"
    return PlannedSection("sizes", _plan(name, base, points=points), LIGHT_SPEED, tuple(datasets.values()))


def _small_network(data: Path, dataset: LightPictures, speed: float) -> Settings:
    """Return a short paced step on the HDD, so that epochs are as short as reading allows."""
    return {
        "dataset": str(dataset.folder(data)),
        "compute": "paced",
        "compute_ms": 4.0,
        "storage": "hdd",
        "speed": speed,
        "workers": 2,
    }


def _ram(data: Path, quick: bool) -> PlannedSection:
    dataset, speed = LightPictures(RAM_FILES), 2 * LIGHT_SPEED
    base = {**_small_network(data, dataset, speed), "epochs": 2 if quick else 3}
    caches: list[Scalar] = ["150MB", "400MB"] if quick else ["100MB", "200MB", "400MB"]
    name = "ram-quick" if quick else "ram"
    campaign = _plan(name, base, factors={"page_cache": caches})
    return PlannedSection("ram", campaign, speed, (dataset,), dataset.size_bytes)


def _batch(data: Path) -> PlannedSection:
    """Stall per batch rises and per epoch falls with the batch size, until the GPU is full."""
    dataset = LightPictures(60 * 32)
    base = {**_light("xavier-agx", dataset, data), "storage": "ssd", "workers": 4, "epochs": 2}
    campaign = _plan("batch", base, factors={"batch_size": [1, 8, 16, 32, 64, 128]})
    return PlannedSection("batch", campaign, LIGHT_SPEED, (dataset,))


def _networks(data: Path) -> PlannedSection:
    """The same RAM: what the network needs of it is not available to the page cache."""
    dataset, speed = LightPictures(RAM_FILES), 2 * LIGHT_SPEED
    base = {**_small_network(data, dataset, speed), "ram": "1.8GB"}
    campaign = _plan("networks", base, factors={"network": ["resnet18", "mobilenet_v3"]})
    return PlannedSection("networks", campaign, speed, (dataset,), dataset.size_bytes)
