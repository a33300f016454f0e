"""What is worth knowing about a training process: versions, threads, loaders, peaks. Written as inside.json."""

from __future__ import annotations

import errno
import os
import platform
import resource
import sys
from typing import Any

OMP = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "KMP_BLOCKTIME", "GOMP_SPINCOUNT")

MOST_PROCESSES = 500  # of one run; loaders are numbered by thousands, so that no two processes share a number


def claim(run: str) -> tuple[str, int]:
    """Return this process's facts file and which process of the run it is: 0, 1, ..."""
    for place in range(MOST_PROCESSES):
        path = os.path.join(run, "inside.json" if place == 0 else "inside-%d.json" % place)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return path, place
        except OSError as error:
            if error.errno != errno.EEXIST:
                break
    return os.path.join(run, "inside-%d.json" % os.getpid()), MOST_PROCESSES


def describe(loader: Any, number: int) -> dict[str, Any]:
    """Return the arguments of a loader, None where it has none of that name."""
    context = getattr(loader, "multiprocessing_context", None)
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
        "workers": getattr(loader, "num_workers", None),
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        "batch_size": getattr(loader, "batch_size", None),
        "pin_memory": getattr(loader, "pin_memory", None),
        "persistent_workers": getattr(loader, "persistent_workers", None),
        "start_method": _start_method(context) if getattr(loader, "num_workers", 0) else None,
        "dataset_class": type(getattr(loader, "dataset", loader)).__name__,
        "length": length,
        "samples": samples,
    }


def _start_method(context: Any) -> str | None:
    import multiprocessing

    return (context or multiprocessing).get_start_method()


def collect(session: Any, torch: Any, cuda: Any) -> dict[str, Any]:
    """Return the whole document."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    minibatches = session.minibatches
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
        "peak_rss_bytes": own,
        "peak_worker_rss_bytes": workers or None,  # known once a worker has ended
        "peak_gpu_bytes": cuda.peak_bytes() if cuda is not None else None,
        "anchors": list(cuda.anchors) if cuda is not None else [],
        "main_thread_cost": {"per_minibatch_us": session.cost_us(), "minibatches": minibatches},
        "keeper_cpu_s": session.keeper_cpu_ns / 1e9,
        "written_bytes": session.written_bytes(),
        "problems": list(session.problems),
    }
    document.update(session.describe())
    document.update(session.facts)
    return document
