"""What does recording cost? Paired and interleaved: bare, recorded, and (on a GPU) under torch.profiler.

    python benchmarks/overhead.py --gpu --seconds 90 --markdown docs/results/overhead.md   # MobileNetV3, ResNet-18
    python benchmarks/overhead.py --small                                       # main-thread time a minibatch
    python benchmarks/overhead.py --cpu                                         # our CPU seconds, no GPU
    python benchmarks/overhead.py --quick                                       # all that runs here, briefly

In each repeat the variants run one after the other in shuffled order and are compared within the repeat; the interval
is Student's t over the logarithms of the repeats' ratios. On a GPU the slowest tenth of a slice's minibatches is left
out, in every variant alike: on a shared machine single steps now and then take ten times as long, and three of those
hide a whole percent. The ratio of plain means stands beside it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import platform
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from edgetrain.inside import session
from edgetrain.store.codec import read_stream
from edgetrain.workload import networks

# Student's quantile by degrees of freedom.
T90 = {2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 9: 1.83, 14: 1.76, 19: 1.73, 24: 1.71, 29: 1.70, 59: 1.67, 99: 1.66}
PROFILED = 4  # repeats that also run under torch.profiler
MOST_RATIO, MOST_US, MOST_CPU_SHARE = 1.01, 25.0, 0.01  # what is promised


class Ready(Dataset[Any]):
    """Samples that cost nothing to make."""

    def __init__(self, count: int, sample: Any) -> None:
        self.count, self.sample = count, sample

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.sample


def ratio_interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios and its 90 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, count = statistics.fmean(logs), len(logs)
    if count < 2:
        return math.exp(mean), math.nan, math.nan
    quantile = T90[max((degrees for degrees in T90 if degrees <= count - 1), default=2)]
    half = quantile * statistics.stdev(logs) / math.sqrt(count)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


@contextmanager
def recording(sampler: bool, cores: list[int] | None = None) -> Iterator[tuple[subprocess.Popen[bytes] | None, Any]]:
    """Record as `edgetrain run` does: the stopwatch inside, the sampler beside; give both."""
    folder = tempfile.mkdtemp(prefix="edgetrain-overhead-")
    beside = None
    if sampler:
        command = [sys.executable, "-m", "edgetrain.sampling", "--run", folder, "--device", "auto"]
        beside = subprocess.Popen(
            [*command, "--watch-pid", str(os.getpid())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if cores is not None:
            os.sched_setaffinity(beside.pid, cores)
        # In a real run the sampler is up long before the first step; its start (and NVML's) is no cost of a step.
        until = time.monotonic() + 10
        while not list(Path(folder).glob("samples-*.ets")) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
    current = session.begin(folder)
    try:
        yield beside, current
        current.end()
        check(Path(folder))
    finally:
        current.end()
        if beside is not None:
            beside.terminate()
            beside.wait()
        shutil.rmtree(folder, ignore_errors=True)


def check(folder: Path) -> None:
    """A recording that is cheap because it recorded nonsense would not count: look at it."""
    facts = json.loads((folder / "inside.json").read_text())
    (path,) = folder.glob("minibatches-*.ets")
    rows = read_stream(path).columns
    assert not facts["problems"], facts["problems"]
    assert len(rows["batch"]) == facts["main_thread_cost"]["minibatches"]
    assert (rows["asked_us"] <= rows["ready_us"]).all() and (rows["launched_us"] <= rows["done_us"]).all()
    assert (rows["done_us"][1:] >= rows["done_us"][:-1]).all()
    if facts["gpu"] and (rows["copied_us"] >= 0).any():
        assert (rows["ready_us"] <= rows["copied_us"]).all() and (rows["copied_us"] <= rows["done_us"]).all()
        assert all(anchor["pm_us"] < 1000 for anchor in facts["anchors"]) and facts["anchors"]


# ---- on a GPU --------------------------------------------------------------------------------------------------------


def keep_to(cores: list[int], worker: int) -> None:
    """Hold a loader worker to some cores."""
    os.sched_setaffinity(0, cores)


class Slices:
    """One network on the GPU that trains in short slices: bare, with the stopwatch, with the sampler too, profiled.

    Both loaders live as long as the comparison, and neither is the bottleneck: workers that start anew for each slice
    make every page of this process shared again, and its faults would hide what is looked for. The sampler is stopped
    (SIGSTOP) while it is not wanted. The thread that keeps the record wakes ten times as often as in a real run, so
    that what a slice causes is paid in that slice. With eight cores or more the training process keeps to four of its
    own and the workers to the others: slices then differ by 2 % among themselves instead of 6. The sampler goes where
    the kernel puts it.
    """

    def __init__(self, name: str, steps: int, sampler: bool) -> None:
        self._cores = sorted(os.sched_getaffinity(0))
        if len(self._cores) >= 8:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), self._cores[:4])
        self.network = networks.build(name).cuda()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.steps = steps
        dataset = Ready(16 * 1_000_000, (torch.randn(networks.input_shape(name)), 1))
        self.bare = self._endless(dataset)  # before the session: nobody looks at it
        session.KEEP_S = 0.1
        self._stack = ExitStack()
        self.beside, self.marks = self._stack.enter_context(recording(sampler, self._cores))
        self.watched = self._endless(dataset)
        for iterator, marks in ((self.bare, None), (self.watched, self.marks)):
            self._train(iterator, marks, None, 20)

    def close(self) -> None:
        """End the recording, after a look at it."""
        self._sampler(signal.SIGCONT)
        del self.bare, self.watched
        os.sched_setaffinity(0, self._cores)
        self._stack.close()

    def take(self, variant: str) -> tuple[float, float]:
        """Train one slice; return seconds a minibatch: without the slowest tenth, and the plain mean."""
        self._sampler(signal.SIGCONT if variant == "recorded" else signal.SIGSTOP)
        if variant == "profiled":
            activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=activities) as profiler:
                return self._train(self.bare, None, profiler.step, self.steps)
        if variant == "bare":
            return self._train(self.bare, None, None, self.steps)
        return self._train(self.watched, self.marks, None, self.steps)

    def _endless(self, dataset: Dataset[Any]) -> Iterator[Any]:
        cores = self._cores[4:] if len(self._cores) >= 8 else self._cores
        pin = functools.partial(keep_to, cores)
        return iter(DataLoader(dataset, batch_size=16, num_workers=4, pin_memory=True, worker_init_fn=pin))

    def _sampler(self, number: signal.Signals) -> None:
        if self.beside is not None:
            self.beside.send_signal(number)
        time.sleep(0.15)  # the keeper and the prefetch of either loader come to rest

    def _train(self, batches: Iterator[Any], marks: Any, each: Callable[[], None] | None, steps: int) -> Any:
        torch.cuda.synchronize()
        start = time.perf_counter()
        ends: list[float] = []
        for _ in range(steps):
            images, labels = next(batches)
            if marks is not None:
                marks.copying()
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            if marks is not None:
                marks.copied()
            self.optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(self.network(images), labels).backward()
            self.optimizer.step()
            if marks is not None:
                marks.launched()
            if each is not None:
                each()
            ends.append(time.perf_counter())
        torch.cuda.synchronize()
        mean = (time.perf_counter() - start) / steps
        took = sorted(after - before for before, after in zip([start, *ends], ends, strict=False))
        usual = took[: len(took) - len(took) // 10]
        return statistics.fmean(usual), mean


def on_gpu(repeats: int, seconds: float, minibatches: int, sampler: bool, say: Callable[[str], None]) -> bool:
    """Compare the variants for both networks: so many repeats, and as many more as there are seconds for."""
    kept = True
    say(f"\n## On {torch.cuda.get_device_name()}, batch 16, async, slices of {minibatches} minibatches\n")
    heads = ("network", "repeats", "bare ms", "recorded ms", "ratio (90 % interval)", "kept, ≤ 1.01", "plain means")
    say(f"| {' | '.join((*heads, 'without the sampler', 'spread of a pair', 'torch.profiler ms', 'its ratio'))} |")
    say("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in ("mobilenet_v3", "resnet18"):
        slices = Slices(name, minibatches, sampler)
        times: dict[str, list[float]] = {"bare": [], "recorded": [], "stopwatch": [], "profiled": []}
        means: dict[str, list[float]] = {name: [] for name in times}
        until = time.monotonic() + seconds
        for repeat in itertools.count():
            if repeat >= repeats and time.monotonic() > until:
                break
            order = ["bare", "recorded", *(["stopwatch"] if repeat % 3 == 0 else [])]
            order += ["profiled"] if repeat < PROFILED else []
            random.shuffle(order)
            for variant in order:
                usual, mean = slices.take(variant)
                times[variant].append(usual)
                means[variant].append(mean)
        kept &= _say_ratios(name, times, means, say)
        slices.close()
    return kept


def _say_ratios(
    name: str, times: dict[str, list[float]], means: dict[str, list[float]], say: Callable[[str], None]
) -> bool:
    ratios = [recorded / bare for recorded, bare in zip(times["recorded"], times["bare"], strict=True)]
    mean, low, high = ratio_interval(ratios)
    plain = ratio_interval([after / before for after, before in zip(means["recorded"], means["bare"], strict=True)])
    bares = times["bare"][::3]  # the repeats that had a slice without the sampler
    alone = ratio_interval([after / before for after, before in zip(times["stopwatch"], bares, strict=True)])
    profiled, bare = statistics.median(times["profiled"]), statistics.median(times["bare"])
    say(
        f"| {name} | {len(ratios)} | {1e3 * bare:.2f} | {1e3 * statistics.median(times['recorded']):.2f} | "
        f"{mean:.4f} ({low:.4f}–{high:.4f}) | {'yes' if high <= MOST_RATIO else '**no**'} | "
        f"{plain[0]:.4f} ({plain[1]:.4f}–{plain[2]:.4f}) | {alone[0]:.4f} ({alone[1]:.4f}–{alone[2]:.4f}) | "
        f"± {100 * statistics.stdev(ratios):.1f} % | {1e3 * profiled:.2f} | {profiled / bare:.2f} |"
    )
    return high <= MOST_RATIO


# ---- main-thread time a minibatch ------------------------------------------------------------------------------------


def on_small(repeats: int, minibatches: int, say: Callable[[str], None]) -> bool:
    """Compare the training thread's CPU time of an empty loop over trivial minibatches."""
    kept = True
    say(f"\n## Main-thread time a minibatch, {repeats} pairs of {minibatches} empty minibatches of 16\n")
    say("| workers | bare µs | recorded µs | difference µs, median (quartiles) | kept, ≤ 25 |")
    say("|---|---|---|---|---|")
    for workers in (0, 1, 2):
        bare, recorded = [], []
        for _ in range(repeats):
            for variant in random.sample(("bare", "recorded"), 2):
                if variant == "bare":
                    bare.append(_empty_loop(workers, minibatches, None))
                else:
                    with recording(sampler=False) as (_, marks):
                        recorded.append(_empty_loop(workers, minibatches, marks))
        added = sorted(after - before for after, before in zip(recorded, bare, strict=True))
        middle = statistics.median(added)
        kept &= middle <= MOST_US
        say(
            f"| {workers} | {statistics.median(bare):.1f} | {statistics.median(recorded):.1f} | {middle:.1f} "
            f"({added[len(added) // 4]:.1f}–{added[-1 - len(added) // 4]:.1f}) | "
            f"{'yes' if middle <= MOST_US else '**no**'} |"
        )
    return kept


def nothing(samples: list[Any]) -> torch.Tensor:
    """A collate function that makes one small tensor."""
    return torch.zeros(16)


def _empty_loop(workers: int, minibatches: int, marks: Any) -> float:
    """Return the training thread's CPU time a minibatch, in µs."""
    loader = DataLoader(Ready(16 * minibatches, 0), batch_size=16, num_workers=workers, collate_fn=nothing)
    iterator = iter(loader)
    start = time.thread_time()
    for _ in iterator:
        if marks is not None:
            marks.launched()
    return 1e6 * (time.thread_time() - start) / minibatches


# ---- our CPU seconds -------------------------------------------------------------------------------------------------


def on_cpu(quick: bool, say: Callable[[str], None]) -> bool:
    """Train on the CPU under `edgetrain run`, and set the CPU seconds of the sampler and the stopwatch against all."""
    loop_us, worker_us = _stopwatch_us(3 if quick else 15, 300 if quick else 1500)
    say("\n## Our CPU seconds in a training on the CPU\n")
    say(
        f"The stopwatch costs {loop_us:.1f} µs of CPU a minibatch in the loop and {worker_us:.1f} µs in the worker "
        "(medians of pairs of empty loops with one worker, in this run).\n"
    )
    say("| command | CPU s in all, with set-up | sampler | stopwatch, loop and worker | share | kept |")
    say("|---|---|---|---|---|---|")
    kept = True
    for network, minibatches in (("resnet18_cifar_gn", 30), ("lenet5", 900)):
        epochs = 1 if quick else 3
        command = f"run {network} --scale 0.25 --workers 1 --epochs {epochs} --minibatches {minibatches} --compute cpu"
        kept &= _share_of_run(command, loop_us + worker_us, say)
    return kept


def _children_s() -> float:
    """Return the CPU time of all children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stopwatch_us(repeats: int, minibatches: int) -> tuple[float, float]:
    """Return the stopwatch's CPU time a minibatch, in the loop and in a worker, µs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    added: list[tuple[float, float]] = []
    for _ in range(repeats):
        spent: dict[str, tuple[float, float]] = {}
        for variant in random.sample(("bare", "recorded"), 2):
            before = _children_s()
            if variant == "bare":
                loop = _empty_loop(1, minibatches, None)
            else:
                with recording(sampler=False) as (_, marks):
                    loop = _empty_loop(1, minibatches, marks)
            spent[variant] = loop, 1e6 * (_children_s() - before) / minibatches
        added.append((spent["recorded"][0] - spent["bare"][0], spent["recorded"][1] - spent["bare"][1]))
    torch.set_num_threads(threads)
    loops, workers = zip(*added, strict=True)
    return max(0.0, statistics.median(loops)), max(0.0, statistics.median(workers))


def _share_of_run(command: str, stopwatch_us: float, say: Callable[[str], None]) -> bool:
    with tempfile.TemporaryDirectory(prefix="edgetrain-overhead-") as store:
        before = _children_s()
        done = subprocess.run(
            [sys.executable, "-m", "edgetrain", *command.split(), "--store", store, "--json"],
            capture_output=True,
            text=True,
        )
        whole_s = _children_s() - before
        if done.returncode:
            say(f"| `edgetrain {command}` | failed: {done.stderr.strip().splitlines()[-1]} | | | | **no** |")
            return False
        document = json.loads(done.stdout)
    sampler_s = document["overhead"]["sampler_cpu_s"] or 0.0
    stopwatch_s = stopwatch_us * sum(epoch["minibatches"] for epoch in document["epochs"]) / 1e6
    share = (sampler_s + stopwatch_s) / whole_s
    say(
        f"| `edgetrain {command}` | {whole_s:.1f} | {sampler_s:.2f} s | {stopwatch_s:.3f} s | "
        f"{100 * share:.2f} % | {'yes' if share <= MOST_CPU_SHARE else '**no**'}, ≤ 1 % |"
    )
    return share <= MOST_CPU_SHARE


def main() -> int:
    """Run what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few repeats of everything that runs here")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.0, help="on a GPU: go on for so long with each network")
    parser.add_argument("--minibatches", type=int, default=20, help="in a slice, on a GPU")
    parser.add_argument("--no-sampler", action="store_true", help="the stopwatch alone, without telemetry beside it")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    everything = not (arguments.gpu or arguments.small or arguments.cpu)
    if arguments.gpu and not gpu:
        parser.error("no CUDA device is visible")
    repeats = 3 if arguments.quick else max(15, arguments.repeats)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)
        if arguments.markdown:
            arguments.markdown.write_text("\n".join(lines) + "\n")

    random.seed(0)
    began = time.monotonic()
    say("# What recording costs\n")
    say(f"`{' '.join(['python', *sys.argv])}` on {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}.")  # fmt: skip
    kept = []
    if arguments.gpu or (everything and gpu):
        slice_ = 10 if arguments.quick else arguments.minibatches
        kept.append(on_gpu(repeats, arguments.seconds, slice_, not arguments.no_sampler, say))
    if arguments.small or everything:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        kept.append(on_small(repeats, 300 if arguments.quick else 1500, say))
        torch.set_num_threads(threads)
    if arguments.cpu or everything:
        kept.append(on_cpu(arguments.quick, say))
    say(f"\nTook {time.monotonic() - began:.0f} s.")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
