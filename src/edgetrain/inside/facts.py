"""Facts about a training process: versions, threads, rank, loaders, peaks. Written as inside.json."""

from __future__ import annotations

import errno
import os
import platform
import resource
import sys
import weakref
from typing import Any

from . import overrides, steps
from .loaders import Totals

OMP = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "KMP_BLOCKTIME", "GOMP_SPINCOUNT")

MAX_PROCESSES = 500  # of one run with a facts file numbered from 0
MAX_LOADERS = 1000  # described; a program that makes a new loader for each step has no end of them
# Which process of a distributed training this is: torchrun, SLURM, Open MPI.
RANKS = {
    "rank": ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"),
    "local_rank": ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "world_size": ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"),
}


def claim(run: str) -> str:
    """Return the facts file of this process: inside.json for the first of a run, inside-1.json, ... for others."""
    for place in range(MAX_PROCESSES):
        path = os.path.join(run, "inside.json" if place == 0 else "inside-%d.json" % place)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return path
        except OSError as error:
            if error.errno != errno.EEXIST:
                break
    return os.path.join(run, "inside-%d.json" % os.getpid())


class Loaders:
    """The loaders of one process: numbers in order of their first pass, descriptions, totals, passes."""

    def __init__(self, guard: Any) -> None:
        self._guard = guard
        self._pid = os.getpid()
        self._count = 0
        self._descriptions: list[dict[str, Any]] = []
        self._totals: dict[int, Totals] = {}
        self._others: dict[int, tuple[int, Any]] = {}  # by id: objects without attributes, and a reference to them
        self.passes: dict[int, int] = {}  # how many passes there were over each

    def number_of(self, loader: Any) -> int:
        """Return the number of a loader, or of anything else that is iterated; the same for each pass over it."""
        try:
            own = loader.__dict__
        except AttributeError:
            number, known = self._others.get(id(loader), (0, None))
            if known is loader or (type(known) is weakref.ref and known() is loader):
                return number
            self._others[id(loader)] = (self._count, _reference(loader))
            return self._describe(loader)
        before = self.known(loader)
        if before is not None:
            return before
        own["_edgetrain_number"] = (self._pid, self._count)
        return self._describe(loader)

    def known(self, loader: Any) -> int | None:
        """Return the number of a loader that has been iterated in this process; None where it has not."""
        known = getattr(loader, "__dict__", {}).get("_edgetrain_number")
        return known[1] if known is not None and known[0] == self._pid and known[1] < self._count else None

    def totals(self, number: int) -> Totals:
        """Return what was done with the batches of a loader."""
        return self._totals.setdefault(number, Totals())

    def described(self) -> list[dict[str, Any]]:
        """Return the descriptions with their totals."""
        found = []
        for one in list(self._descriptions):
            totals = self.totals(one["loader"])
            size = totals.minibatch_bytes()
            found.append(dict(one, delivered=totals.delivered, trained=totals.trained, minibatch_bytes=size))
        return found

    def _describe(self, loader: Any) -> int:
        number = self._count
        self._count += 1
        if number < MAX_LOADERS:
            description = {"loader": number}
            with self._guard("a loader could not be described"):
                description = describe(loader, number)
            self._descriptions.append(description)
        return number


def _reference(thing: Any) -> Any:
    """Return a weak reference, or the thing itself where it has none: its id must not be used again."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return thing


def ranks(torch: Any, environment: Any = os.environ) -> dict[str, int | None]:
    """Return rank, local rank and world size: from torch.distributed, else from the environment; None alone."""
    found: dict[str, int | None] = {}
    for name, variables in RANKS.items():
        values = [environment.get(variable) for variable in variables]
        found[name] = next((int(value) for value in values if value is not None and value.isdigit()), None)
    try:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            found["rank"], found["world_size"] = distributed.get_rank(), distributed.get_world_size()
    except (AttributeError, RuntimeError, ValueError):
        pass
    return found


def describe(loader: Any, number: int) -> dict[str, Any]:
    """Return the arguments of a loader, None where it has none of that name."""
    context = getattr(loader, "multiprocessing_context", None)
    created, made_at, made_before, dataset = overrides.creation_of(loader)
    try:
        length = len(loader)
    except Exception:
        length = None
    try:
        samples = len(loader.dataset)
    except Exception:
        samples = None
    return {
        "loader": number,
        "created": created,
        "made_at": list(made_at),
        "made_before": made_before,
        "dataset": dataset,
        "workers": getattr(loader, "num_workers", None),
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        "batch_size": getattr(loader, "batch_size", None),
        "pin_memory": getattr(loader, "pin_memory", None),
        "persistent_workers": getattr(loader, "persistent_workers", None),
        "start_method": _start_method(context) if getattr(loader, "num_workers", 0) else None,
        "dataset_class": type(getattr(loader, "dataset", loader)).__name__,
        "iterable": _is_iterable(loader),
        "length": length,
        "samples": samples,
    }


def _is_iterable(loader: Any) -> bool | None:
    """Return whether the dataset is a stream: each worker iterates a copy of it. None where there is no dataset."""
    data = sys.modules.get("torch.utils.data")
    dataset = getattr(loader, "dataset", None)
    return None if data is None or dataset is None else isinstance(dataset, data.IterableDataset)


def _start_method(context: Any) -> str | None:
    import multiprocessing

    return (context or multiprocessing).get_start_method()


def collect(session: Any) -> dict[str, Any]:
    """Return the whole document."""
    torch, cuda = session.torch, session.cuda
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    document = {
        "schema": "edgetrain/1",
        "pid": session.pid,
        "python": platform.python_version(),
        "executable": sys.executable,
        "argv": list(getattr(sys, "argv", [])),
        "torch": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "gpu": cuda.name() if cuda is not None else None,
        "timing": session.timing,
        "threads": torch.get_num_threads(),
        "omp": {name: os.environ.get(name) for name in OMP},
        "parameters": None,
        "optimizers": steps.made_optimizers(),
        "compiled_frames": steps.compiled_frames(),
        "peak_rss_bytes": own,
        "peak_worker_rss_bytes": workers or None,  # known once a worker has ended
        "peak_gpu_bytes": cuda.peak_bytes() if cuda is not None else None,
        "anchors": list(cuda.anchors) if cuda is not None else [],
        "main_thread_cost": {"per_minibatch_us": session.cost_us(), "minibatches": session.rows},
        "writer_cpu_s": session.writer_cpu_ns / 1e9,
        "written_bytes": session.written_bytes(),
        "loader_places": [{"made_at": list(place), "made": made} for place, made in overrides.places()],
        "problems": list(session.problems),
        "ended": session.ended,
    }
    document.update(ranks(torch))
    document.update(session.describe())
    document.update(session.facts)
    return document
