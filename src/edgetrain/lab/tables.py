"""The lab's tables, each figure with its source: storage media, presets of boards, step times of accelerators."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edgetrain.errors import BadTable, UsageError
from edgetrain.lab.queueing import MediumModel
from edgetrain.units import MS_PER_S

_HERE = Path(__file__).parent
_MOST_YAML_BYTES = 1_000_000
_MB = 10**6
_GB = 10**9
PUBLISHED_BATCH = 16
_MEDIA_SCHEMA = "edgetrain/media/1"
# Mean size of a file of the papers' dataset: 2.8 GB in 23,080 files.
IMAGE_BYTES = 122_000


@dataclass(frozen=True, slots=True)
class Preset:
    """Limits that make this machine behave like a board."""

    name: str
    title: str
    cores: int
    ram_bytes: int
    taken_bytes: int
    image_s: float | None
    storage: str
    sources: dict[str, str]  # by figure

    @property
    def cache_bytes(self) -> int:
        """Return what is left of the RAM for the page cache."""
        return self.ram_bytes - self.taken_bytes


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long one training step takes on a board's accelerator, and where that figure is from."""

    seconds: float
    source: str


def _load(path: Path, key: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_YAML_BYTES:
            raise BadTable(f"{path} is over 1 MB, too large for a table of the lab")
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror}; check the path") from error
    except yaml.YAMLError as error:
        raise BadTable(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not isinstance(document.get(key), dict):
        raise BadTable(f"{path} has no mapping '{key}'; see the lab's own tables for the shape")
    entries: dict[str, Any] = document[key]
    return entries


def _medium(name: str, entry: Any, path: Path) -> MediumModel:
    try:
        medium = MediumModel(
            name,
            float(entry["read_ms"]) / MS_PER_S,
            float(entry["mb_per_s"]) * _MB,
            int(entry.get("at_once", 1)),
            tuple((int(depth), float(factor)) for depth, factor in (entry.get("gain") or {}).items()),
            str(entry.get("source", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadTable(
            f"{path}: medium '{name}' cannot be read ({error}); give read_ms, mb_per_s and, where they matter, at_once,"
            " gain and source"
        ) from error
    if medium.read_s < 0 or medium.bytes_per_s <= 0 or medium.at_once < 1 or medium.at_once > 1024:
        raise BadTable(f"{path}: medium '{name}' is impossible: read_ms >= 0, mb_per_s > 0, 1 <= at_once <= 1024")
    if any(depth < 1 or factor <= 0 for depth, factor in medium.gain):
        raise BadTable(f"{path}: medium '{name}': a gain maps a queue depth (from 1) to a factor above 0")
    return medium


def media(own: str | os.PathLike[str] | None = None) -> dict[str, MediumModel]:
    """Return every storage medium by name; your own file's come before ours."""
    own = own or os.environ.get("EDGETRAIN_MEDIA")
    known: dict[str, MediumModel] = {}
    for path in [_HERE / "media.yaml", *([Path(own)] if own else [])]:
        known.update({name: _medium(name, entry, path) for name, entry in _load(path, "media").items()})
    return known


def add_medium(found: MediumModel, path: Path) -> None:
    """Write a medium into a table of media, beside those that the file has."""
    document: dict[str, Any] = {"schema": _MEDIA_SCHEMA, "media": {}}
    if path.exists():
        media(path)  # raises where it is not such a table
        document = yaml.safe_load(path.read_text())
    entry: dict[str, Any] = {
        "read_ms": round(found.read_s * MS_PER_S, 4),
        "mb_per_s": round(found.bytes_per_s / _MB, 1),
        "at_once": found.at_once,
    }
    if found.gain:
        entry["gain"] = dict(found.gain)
    entry["source"] = found.source
    document["media"][found.name] = entry
    try:
        path.write_text(yaml.safe_dump(document, sort_keys=False))
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); choose another path with -o") from error


def medium(name: str, own: str | os.PathLike[str] | None = None) -> MediumModel:
    """Return one storage medium."""
    known = media(own)
    if name not in known:
        raise UsageError(
            f"there is no storage medium '{name}'; known: {', '.join(known)}; add your own with --media FILE"
        )
    return known[name]


@functools.lru_cache(maxsize=1)
def presets() -> dict[str, Preset]:
    """Return every board that has a preset."""
    boards = {}
    for name, entry in _load(_HERE / "presets.yaml", "presets").items():
        image_ms = entry["image_ms"]
        boards[name] = Preset(
            name,
            entry["title"],
            int(entry["cores"]),
            int(entry["ram_gb"] * _GB),
            int(entry["taken_gb"] * _GB),
            None if image_ms is None else image_ms / MS_PER_S,
            entry["storage"],
            entry["sources"],
        )
    return boards


def preset(name: str) -> Preset:
    """Return the preset of one board."""
    if name not in presets():
        raise UsageError(f"there is no preset '{name}'; known: {', '.join(presets())}")
    return presets()[name]


def step(device: str, network: str, batch_size: int = PUBLISHED_BATCH) -> StepTime:
    """Return how long a step of this network takes on this board, by a published figure."""
    known = _load(_HERE / "compute.yaml", "steps")
    entry = known.get(device, {}).get(network)
    if entry is None:
        pairs = [f"{board}/{name}" for board, networks in known.items() for name in networks]
        raise UsageError(
            f"no published step time for {network} on {device}; give --compute-ms, or use one of: {', '.join(pairs)}"
        )
    at = {int(size): float(ms) for size, ms in (entry.get("at") or {PUBLISHED_BATCH: entry["ms"]}).items()}
    source = entry["source"]
    if batch_size in at:
        return StepTime(at[batch_size] / MS_PER_S, source)
    nearest = min(at, key=lambda size: abs(size - batch_size))
    seconds = at[nearest] / MS_PER_S * batch_size / nearest
    return StepTime(seconds, f"{source}; scaled from batch {nearest} to {batch_size}")
