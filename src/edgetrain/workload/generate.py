"""Generates a dataset of the right shape: same formats, file counts, sizes and decoding cost as the real one.

Deterministic by seed, resumable (files appear whole under their names, and existing ones are not drawn again), with
progress. Pictures are drawn by several processes; each draws its own indexes, so that their number does not change the
result.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import errno
import hashlib
import importlib.util
import json
import os
import selectors
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

import numpy as np

from edgetrain.inside.stream import write_json
from edgetrain.workload import compact
from edgetrain.workload.catalog import CATALOG, CatalogEntry
from edgetrain.workload.drawing import jpeg
from edgetrain.workload.errors import RequestError, TrainingError

Progress = Callable[[int, int], None]

VERSION = 1  # of what is drawn; after a change existing datasets are generated again
MARKER = "dataset.json"
USERS = 233  # in GLD-23k's training split
MAX_SAMPLES = 10_000_000
HEADROOM = 1.05  # sizes vary around their mean, and folders need blocks too
IN_ONE_PROCESS = 64  # pictures up to which other processes would cost more than they save


@dataclass(frozen=True)
class DatasetRecipe:
    """What to generate; the folder's name and contents follow from it."""

    kind: str
    samples: int
    seed: int

    @property
    def folder(self) -> str:
        """Return the name of its folder in the store."""
        return f"{self.kind}-{self.samples}-seed{self.seed}"


def recipe_for(known: CatalogEntry, scale: float, seed: int = 0) -> DatasetRecipe:
    """Return what a workload's generated dataset is at a scale; 1 is the size of the papers' dataset."""
    if not scale > 0:
        raise RequestError(f"a dataset's scale must be above 0, not {scale:g}; the papers use 0.25, 1 and 4")
    samples = max(1, round(known.samples * scale))
    if samples > MAX_SAMPLES:
        raise RequestError(f"scale {scale:g} asks for {samples} samples; at most {MAX_SAMPLES} can be generated")
    return DatasetRecipe(known.dataset, samples, seed)


def _entry(kind: str) -> CatalogEntry:
    return next(known for known in CATALOG.values() if known.dataset == kind)


def expected_bytes(what: DatasetRecipe) -> int:
    """Return about how large the dataset will be."""
    known = _entry(what.kind)
    return what.samples * (known.file_bytes or compact.SAMPLE_BYTES[what.kind])


def is_ready(root: Path, what: DatasetRecipe) -> bool:
    """Return whether this very dataset lies complete in the folder."""
    try:
        marker = json.loads((root / MARKER).read_text())
    except (OSError, ValueError):
        return False
    return bool(marker == _marker(what))


def _marker(what: DatasetRecipe) -> dict[str, str | int]:
    return {
        "edgetrain": "dataset",
        "version": VERSION,
        "kind": what.kind,
        "samples": what.samples,
        "seed": what.seed,
        "origin": "generated",
    }


def free_bytes(folder: Path) -> int:
    """Return the space left on the folder's file system."""
    return shutil.disk_usage(folder).free


def generate_dataset(
    root: Path,
    what: DatasetRecipe,
    progress: Progress | None = None,
    processes: int | None = None,
    in_one_process: int = IN_ONE_PROCESS,
    free: Callable[[Path], int] = free_bytes,
) -> Path:
    """Make the dataset in this folder, or what is missing of it; return the folder."""
    if is_ready(root, what):
        return root
    report = progress or (lambda done, total: None)
    if importlib.util.find_spec("PIL") is None:
        raise TrainingError("drawing a dataset needs Pillow; pip install Pillow, or give your own with --dataset")
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / MARKER).unlink(missing_ok=True)
        if what.kind in compact.WRITERS:
            report(0, what.samples)
            compact.WRITERS[what.kind](root, what.samples, what.seed)
        else:
            missing = _begin_pictures(root, what, free)
            processes = processes or len(os.sched_getaffinity(0))
            _draw_missing(root, what, report, missing, 1 if missing <= in_one_process else min(processes, missing))
        write_json(str(root / MARKER), _marker(what))
    except OSError as error:
        raise _spelled(error, root) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is drawn of the dataset in {root} stays, and the same command continues from there"
        ) from None
    report(what.samples, what.samples)
    return root


def _spelled(error: OSError, root: Path) -> TrainingError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TrainingError(
            f"no space left for the generated dataset in {root}; free some space and run it again (it continues from "
            f"what is there), or use a smaller scale or another --store"
        )
    return TrainingError(
        f"cannot write the generated dataset to {root}: {error.strerror}; give another folder (--store, or -o of "
        f"edgetrain data)"
    )


def picture_path(root: Path, what: DatasetRecipe, index: int) -> Path:
    """Return where picture `index` lies."""
    name = hashlib.sha1(f"{what.seed}-{index}".encode()).hexdigest()[:16] + ".jpg"
    if what.kind == "gld":
        return root / "images" / name
    return root / "train" / f"n{index % _entry(what.kind).classes:08d}" / name


def _begin_pictures(root: Path, what: DatasetRecipe, free: Callable[[Path], int]) -> int:
    """Make the folders, check the space, and return how many pictures are missing."""
    known = _entry(what.kind)
    assert known.file_bytes is not None
    _index(root, what, known)
    for leftover in root.glob("**/*.part-*"):
        leftover.unlink(missing_ok=True)
    missing = sum(1 for index in range(what.samples) if not _is_there(picture_path(root, what, index)))
    needed, left = missing * known.file_bytes * HEADROOM, free(root)
    if needed > left:
        raise TrainingError(
            f"the dataset needs {needed / 1e6:.1f} MB more and {root} has {left / 1e6:.1f} MB left; free some space, "
            f"or use a smaller scale or another --store"
        )
    return missing


def _draw_missing(root: Path, what: DatasetRecipe, report: Progress, missing: int, processes: int) -> None:
    done = what.samples - missing
    report(done, what.samples)
    steps = (1 for _ in draw(root, what, 0, 1)) if processes <= 1 else _in_processes(root, what, processes)
    for step in steps:
        done += step
        report(min(done, what.samples), what.samples)


def _is_there(path: Path) -> bool:
    # An empty file is what a power cut leaves of a rename that was not synced.
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _index(root: Path, what: DatasetRecipe, known: CatalogEntry) -> None:
    """Make the folders and, for Google Landmarks, the CSV."""
    if what.kind == "folder":
        for index in range(min(known.classes, what.samples)):
            picture_path(root, what, index).parent.mkdir(parents=True, exist_ok=True)
        return
    (root / "images").mkdir(exist_ok=True)
    rng = np.random.default_rng([what.seed, 0x67D])
    # A few landmarks are photographed much more than the rest.
    weights = 1 / np.arange(1, known.classes + 1) ** 0.5
    classes = rng.choice(known.classes, what.samples, p=weights / weights.sum())
    # The largest class number must occur, or the network's size would depend on the scale.
    classes[0] = known.classes - 1
    users = np.sort(rng.integers(0, max(1, min(USERS, what.samples)), what.samples))
    temporary = root / f"mini_gld_train_split.csv.part-{os.getpid()}"
    with temporary.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("user_id", "image_id", "class"))
        for index in range(what.samples):
            table.writerow((int(users[index]), picture_path(root, what, index).stem, int(classes[index])))
    temporary.replace(root / "mini_gld_train_split.csv")


def draw(root: Path, what: DatasetRecipe, part: int, parts: int) -> Iterator[int]:
    """Draw the missing pictures whose index is `part` modulo `parts`; yield each index once it is written."""
    known = _entry(what.kind)
    assert known.picture is not None and known.file_bytes is not None
    for index in range(part, what.samples, parts):
        path = picture_path(root, what, index)
        if _is_there(path):
            continue
        temporary = path.with_name(f"{path.name}.part-{os.getpid()}")
        try:
            temporary.write_bytes(jpeg(what.seed, index, known.picture, known.file_bytes))
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        yield index


def _in_processes(root: Path, what: DatasetRecipe, processes: int) -> Iterator[int]:
    """Draw in several processes; yield how many pictures were drawn since the last time."""
    arguments = [str(root), what.kind, str(what.samples), str(what.seed)]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    children = []
    try:
        with selectors.DefaultSelector() as waiting:
            for part in range(processes):
                command = [sys.executable, "-m", "edgetrain.workload.generate", *arguments, f"{part}/{processes}"]
                # In a session of its own: Ctrl-C reaches it through us, and not amid its imports.
                child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)
                children.append(child)
                assert child.stdout is not None
                waiting.register(child.stdout.fileno(), selectors.EVENT_READ)
            while waiting.get_map():
                for ready, _ in waiting.select():
                    data = os.read(ready.fd, 4096)
                    if data:
                        yield data.count(b".")
                    else:
                        waiting.unregister(ready.fd)
        for child in children:
            status = child.wait()
            if status == errno.ENOSPC:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if status:
                raise TrainingError(
                    f"a process that draws pictures ended with status {status}; what it drew is kept, run it again"
                )
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                child.wait()


def main() -> int:
    """Draw one part; a dot per picture on stdout."""
    parser = argparse.ArgumentParser(prog="python -m edgetrain.workload.generate")
    parser.add_argument("root", type=Path)
    parser.add_argument("kind", choices=("gld", "folder"))
    parser.add_argument("samples", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("part", help="2/8: the third of eight")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    try:
        for _ in draw(given.root, DatasetRecipe(given.kind, given.samples, given.seed), part, parts):
            os.write(1, b".")
    except BrokenPipeError:
        return 0  # the process that started us is gone; what is drawn is kept
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return errno.ENOSPC
        print(f"edgetrain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
