"""The sampler as a program: python -m edgetrain.sampling --run DIR --device auto --dataset PATH --watch-pid PID."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import resource
import sys
from pathlib import Path

from edgetrain.device import Probe, open_device
from edgetrain.errors import EdgetrainError, ProbeUnavailable
from edgetrain.inside.stream import append_event
from edgetrain.sampling.cache import ResidencyProbe
from edgetrain.sampling.monitor import StopMonitor
from edgetrain.sampling.otherload import LoadProbe
from edgetrain.sampling.sampler import Sampler
from edgetrain.sampling.tree import ProcessProbe, ProcessTree

# Training goes first where both want a core; a task that sleeps this much is woken in time all the same.
NICENESS = 5
MAX_FILES = 4096


def main(argv: list[str] | None = None) -> int:
    """Sample until the watched process ends, we are asked to stop, or our parent is gone."""
    options = _options(argv)
    run = Path(options.run)
    monitor = StopMonitor(options.watch_pid, None if options.keep_going else os.getppid(), run)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError, ValueError):
        # Every sensor and every process of the training is a descriptor or two.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, MAX_FILES) if limit > 0 else MAX_FILES, limit))
    # Threads change often, so that a count of the page cache does not delay the fast probes.
    sys.setswitchinterval(0.001)
    try:
        device = open_device(options.device)
        probes = device.probes()
    except EdgetrainError as error:
        append_event(
            os.fspath(run / "events-sampler.jsonl"), "doubt", f"no sensors: {error}", doubt="no_telemetry", by="sampler"
        )
        print(f"edgetrain: {error}", file=sys.stderr)
        probes = []
    if options.period_s:
        for probe in probes:
            probe.period_s = max(probe.period_s, options.period_s)
    probes += _process_probes(options.watch_pid, options.ours)
    if options.dataset:
        probes.append(ResidencyProbe(options.dataset, options.exact, options.seed))
    try:
        sampler = Sampler(run, probes, monitor)
    except OSError as error:
        print(f"edgetrain: cannot write to {error.filename or run}: {error.strerror}", file=sys.stderr)
        return 1
    gc.freeze()  # what is built by now stays: collections can skip it
    sampler.run()
    return 0


def _process_probes(pid: int | None, ours: list[int]) -> list[Probe]:
    """Return the probes of the training's processes and of all others."""
    if pid is None:
        return []
    try:
        tree = ProcessTree(pid)
        return [ProcessProbe(tree), LoadProbe(tree, (*ours, os.getppid()))]
    except ProbeUnavailable:
        return []


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m edgetrain.sampling", description=__doc__)
    parser.add_argument("--run", required=True, help="the run's folder, where samples-*.ets go")
    parser.add_argument("--device", default="auto", help="auto, host, jetson, jetson:/tree, sim:orin-agx")
    parser.add_argument("--dataset", help="folder or file whose share in the page cache is recorded")
    parser.add_argument("--watch-pid", type=int, help="the training process; sampling ends with it")
    parser.add_argument(
        "--ours", type=int, action="append", default=[], help="process id of edgetrain's own processes: not other load"
    )
    parser.add_argument("--period-s", type=float, help="read no probe more often than this")
    parser.add_argument("--exact", action="store_true", help="count every page of the dataset, do not sample")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the choice of files to check")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the parent process")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
