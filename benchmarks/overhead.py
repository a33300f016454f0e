"""What does recording cost? Seconds per minibatch, bare and recorded alternately, on one network at a time.

    python benchmarks/overhead.py --turns --seconds 240                       # MobileNetV3 and ResNet-18 on a GPU
    python benchmarks/overhead.py --turns --device cpu --network lenet5 --seconds 60
    python benchmarks/overhead.py --turns --hooks                             # steps found by hooks, as under `profile`

A bare and a recorded loader take turns of a few seconds in shuffled order, and their means are compared within each
repeat; the interval is Student's t over the logarithms of the repeats' ratios. The sampler runs beside recorded turns
and is stopped in the others. Beside the ratio stands that of two bare loaders, which is what chance makes of it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, dataloader

from edgetrain.inside import session
from edgetrain.record.decoder import read_stream
from edgetrain.workload import networks

# Student's quantile for a 90 % interval, by degrees of freedom.
T90 = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 9: 1.83, 14: 1.76, 19: 1.73, 29: 1.70, 59: 1.67, 99: 1.66}
MAX_RATIO = 1.02  # what is promised
BATCH = 16


class Untouched(dataloader._MultiProcessingDataLoaderIter):
    """torch's iterator as it is without us: a session wraps these methods for all loaders of the process."""

    __next__ = dataloader._BaseDataLoaderIter.__next__
    _try_put_index = dataloader._MultiProcessingDataLoaderIter._try_put_index


class Ready(Dataset[Any]):
    """Samples that cost nothing to make."""

    def __init__(self, sample: Any) -> None:
        self.sample = sample

    def __len__(self) -> int:
        return BATCH * 1_000_000

    def __getitem__(self, index: int) -> Any:
        return self.sample


class Turns:
    """One network that trains a turn with a loader that is recorded, or with one that is not."""

    def __init__(self, name: str, device: str, sampler: bool, hooks: bool) -> None:
        self.network = networks.build(name).to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.cuda, self.hooks = device == "cuda", hooks
        sample = torch.randn(*networks.input_shape(name)), 1
        self.loaders = {"bare": self._endless(sample), "null": self._endless(sample)}
        for iterator in self.loaders.values():
            iterator.__class__ = Untouched
        self.folder = Path(tempfile.mkdtemp(prefix="edgetrain-overhead-"))
        self.beside = self._sampler() if sampler else None
        self.marks = session.begin(str(self.folder), steps=hooks)
        self.loaders["recorded"] = self._endless(sample)
        for variant in self.loaders:
            self.take(variant, 1.0)

    def take(self, variant: str, seconds: float) -> float:
        """Train for this long; return the seconds per minibatch."""
        recorded = variant == "recorded"
        self.marks.finds_steps = recorded and self.hooks
        self._signal(signal.SIGCONT if recorded else signal.SIGSTOP)
        batches, marks = self.loaders[variant], self.marks if recorded and not self.hooks else None
        self._finish()
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            self._step(next(batches), marks)
            steps += 1
        self._finish()
        return (time.perf_counter() - began) / steps

    def close(self) -> float | None:
        """End the recording and check it; return what it says it cost the loop, in µs per minibatch."""
        self._signal(signal.SIGCONT)
        self.marks.end()
        try:
            check(self.folder)
        finally:
            if self.beside is not None:
                self.beside.terminate()
                self.beside.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        cost_us: float | None = self.marks.cost_us()
        return cost_us

    def _step(self, minibatch: list[torch.Tensor], marks: Any) -> None:
        images, labels = minibatch
        if marks is not None:
            marks.copying()
        if self.cuda:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        if marks is not None:
            marks.copied()
        self.optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(self.network(images), labels).backward()
        self.optimizer.step()
        if marks is not None:
            marks.launched()

    def _endless(self, sample: Any) -> Iterator[Any]:
        return iter(DataLoader(Ready(sample), batch_size=BATCH, num_workers=1, prefetch_factor=4, pin_memory=self.cuda))

    def _finish(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def _sampler(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "edgetrain.sampling", "--run", str(self.folder), "--device", "auto"]
        beside = subprocess.Popen(
            [*command, "--watch-pid", str(os.getpid())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # In a real run the sampler is up long before the first step.
        until = time.monotonic() + 10
        while not list(self.folder.glob("samples-*.ets")) and time.monotonic() < until:
            time.sleep(0.05)
        return beside

    def _signal(self, number: signal.Signals) -> None:
        if self.beside is not None and self.beside.poll() is None:
            self.beside.send_signal(number)


def check(folder: Path) -> None:
    """A recording that is cheap because it recorded nonsense would not count."""
    facts = json.loads((folder / "inside.json").read_text())
    (path,) = folder.glob("minibatches-*.ets")
    rows = read_stream(path).table
    assert not facts["problems"], facts["problems"]
    assert len(rows) == facts["main_thread_cost"]["minibatches"]
    assert (rows["asked_us"] <= rows["ready_us"]).all() and (rows["launched_us"] <= rows["done_us"]).all()
    assert (rows["done_us"][1:] >= rows["done_us"][:-1]).all()
    assert not facts["gpu"] or all(anchor["pm_us"] < 1000 for anchor in facts["anchors"])


def ratio_interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios and its 90 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, count = statistics.fmean(logs), len(logs)
    if count < 2:
        return math.exp(mean), math.nan, math.nan
    quantile = T90[max(degrees for degrees in T90 if degrees <= count - 1)]
    half = quantile * statistics.stdev(logs) / math.sqrt(count)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def compare(name: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Compare bare and recorded for one network; return a line of the table and whether the promise is kept."""
    turns = Turns(name, options.device, not options.no_sampler, options.hooks)
    took: dict[str, list[float]] = {"bare": [], "null": [], "recorded": []}
    until = time.monotonic() + options.seconds
    while time.monotonic() < until or len(took["bare"]) < 3:
        for variant in random.sample(list(took), len(took)):
            took[variant].append(turns.take(variant, options.turn_s))
    own_us = turns.close()
    ratio = ratio_interval([one / bare for one, bare in zip(took["recorded"], took["bare"], strict=True)])
    null = ratio_interval([one / bare for one, bare in zip(took["null"], took["bare"], strict=True)])
    bare_ms, recorded_ms = (1e3 * statistics.median(took[variant]) for variant in ("bare", "recorded"))
    kept = ratio[2] <= MAX_RATIO
    cells = (
        name,
        str(len(took["bare"])),
        f"{bare_ms:.2f}",
        f"{recorded_ms:.2f}",
        f"{ratio[0]:.4f} ({ratio[1]:.4f}–{ratio[2]:.4f})",
        "yes" if kept else "**no**",
        f"{null[0]:.4f} ({null[1]:.4f}–{null[2]:.4f})",
        "–" if own_us is None else f"{own_us:.0f}",
    )
    return f"| {' | '.join(cells)} |", kept


def main() -> int:
    """Compare each network and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", action="store_true", help="the only comparison there is")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--network", action="append", help="default: mobilenet_v3 and resnet18")
    parser.add_argument("--seconds", type=float, default=120.0, help="with each network")
    parser.add_argument("--turn-s", type=float, default=3.0, help="length of a turn in seconds")
    parser.add_argument("--hooks", action="store_true", help="find steps by hooks, as under `edgetrain profile`")
    parser.add_argument("--no-sampler", action="store_true", help="without telemetry beside it")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is visible; --device cpu compares on the CPU")
    random.seed(0)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    heads = ("network", "repeats", "bare ms", "recorded ms", "ratio (90 % interval)", f"kept, ≤ {MAX_RATIO}")
    heads += ("two bare loaders", "loop's own µs")
    rows, kept = [], True
    for name in options.network or ["mobilenet_v3", "resnet18"]:
        row, good = compare(name, options)
        rows.append(row)
        kept &= good
        print(row, flush=True)
    verdict = "The promise is kept." if kept else "The promise is **not** kept."
    lines = [
        "# What recording costs",
        "",
        f"**{verdict}** On {where}, batch {BATCH}, turns of {options.turn_s:g} s.",
        "",
    ]
    lines += [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows, ""]
    lines.append(
        f"`python {' '.join(sys.argv)}`, {time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores, Linux "
        f"{platform.release()}, Python {platform.python_version()}, torch {torch.__version__}."
    )
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
