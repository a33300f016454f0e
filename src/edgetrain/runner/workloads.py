"""What the runner and the commands use of `workload` before training, with this package's errors instead of its own."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from edgetrain import workload
from edgetrain.documents import from_document
from edgetrain.errors import EdgetrainError, UsageError, WorkloadError
from edgetrain.schema import MemoryNeed
from edgetrain.workload import CatalogEntry, DatasetLayout, DatasetRecipe


@contextlib.contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except workload.RequestError as error:
        raise UsageError(str(error)) from error
    except workload.TrainingError as error:
        raise WorkloadError(str(error)) from error


def find_workload(name: str) -> CatalogEntry:
    """Return the catalogued workload of this name; UsageError lists the known names."""
    with _our_errors():
        return workload.entry(name)


def survey_dataset(folder: str | Path, known: CatalogEntry) -> DatasetLayout:
    """Return what lies in a dataset's folder; UsageError where this workload cannot read it."""
    with _our_errors():
        return workload.survey(folder, known)


def dataset_recipe(known: CatalogEntry, scale: float, seed: int = 0) -> DatasetRecipe:
    """Return which dataset would be generated for a workload at a scale; 1 is the size of the papers' dataset."""
    with _our_errors():
        return workload.recipe_for(known, scale, seed)


def generate_dataset(folder: Path, recipe: DatasetRecipe, progress: Callable[[int, int], None] | None = None) -> Path:
    """Generate a dataset, or what is missing of it; return its folder."""
    with _our_errors():
        return workload.generate_dataset(folder, recipe, progress)


@functools.lru_cache(maxsize=256)  # a count takes seconds, and a catalogued network does not change
def count_memory(network: str, batch_size: int, optimizer: str = "sgd", momentum: float = 0.9) -> MemoryNeed:
    """Count what training a catalogued network needs, in a process of its own: torch stays out of this one."""
    command = [sys.executable, "-m", "edgetrain.workload.memory", network, "--batch", str(batch_size)]
    command += ["--optimizer", optimizer, "--momentum", str(momentum)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2].removeprefix("edgetrain: ")
        if "No module named 'torch'" in reason:
            raise EdgetrainError(
                f"counting a network needs torch in {sys.executable}; edgetrain doctor says how to get it"
            )
        raise UsageError(reason or f"counting {network} failed with status {done.returncode}")
    return from_document(MemoryNeed, json.loads(done.stdout))
