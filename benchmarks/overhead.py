"""What does recording cost? Paired and interleaved: bare, recorded, and (on a GPU) under torch.profiler.

    python benchmarks/overhead.py --turns --seconds 120                         # MobileNetV3 and ResNet-18 on a GPU
    python benchmarks/overhead.py --turns --device cpu --network resnet18_cifar_gn --minibatches 2
    python benchmarks/overhead.py --small                                       # main-thread time a minibatch
    python benchmarks/overhead.py --cpu                                         # our CPU seconds, no GPU
    python benchmarks/overhead.py --quick                                       # all that runs here, briefly

In each repeat the variants take turns of a few minibatches in shuffled order and their means are compared within the
repeat; the interval is Student's t over the logarithms of the repeats' ratios. Beside it stand the ratio without the
slowest tenth of each repeat's minibatches, and that of two loaders that nobody looks at.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import mmap
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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, dataloader

from edgetrain.inside import session, stream
from edgetrain.store.codec import read_stream
from edgetrain.workload import networks

# Student's quantile by degrees of freedom.
T90 = {2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 9: 1.83, 14: 1.76, 19: 1.73, 24: 1.71, 29: 1.70, 59: 1.67, 99: 1.66}
PROFILED = 3  # turns of 20 steps under torch.profiler
PAIRS = 4  # of turns in a repeat
KEEP_S = session.KEEP_S  # how often the record is kept
ENCODE_S, LEFT_S = stream.ENCODE_S, stream.LEFT_S
RECORDED_SHARE = 0.45  # of the time in turns; for what goes by the machine's own clock
NULL_EVERY = 10  # repeats
LOADERS = 3  # of each kind: where a loader's memory happens to lie can make a per cent
MOST_RATIO, MOST_US, MOST_CPU_SHARE = 1.01, 25.0, 0.01  # what is promised


class Untouched(dataloader._MultiProcessingDataLoaderIter):
    """torch's iterator as it is before anybody watches: a session wraps these two for all loaders of the process."""

    __next__ = dataloader._BaseDataLoaderIter.__next__
    _try_put_index = dataloader._MultiProcessingDataLoaderIter._try_put_index


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


class Clock:
    """The sampler's, which goes in recorded time alone: eight bytes of a file say what it has missed."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="edgetrain-overhead-")  # noqa: SIM115  (lives as long)
        self._file.write(bytes(8))
        self._file.flush()
        self.path = self._file.name
        self._missed_us = memoryview(mmap.mmap(self._file.fileno(), 8)).cast("q")
        self._began_s = time.monotonic()

    def set(self, recorded_s: float) -> None:
        """Let it show so many seconds since it was made."""
        self._missed_us[0] = int((time.monotonic() - self._began_s - recorded_s) * 1e6)


@contextmanager
def recording(
    clock: Clock | None, cores: list[int] | None = None, unseen: list[int] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes] | None, Any]]:
    """Record as `edgetrain run` does: the stopwatch inside and, where it has a clock, the sampler beside; give both.

    The sampler does not look at processes that are `unseen`.
    """
    folder = tempfile.mkdtemp(prefix="edgetrain-overhead-")
    beside = None
    if clock is not None:
        command = [sys.executable, str(Path(__file__).with_name("sampler_in_turns.py")), clock.path]
        command += [str(RECORDED_SHARE), ",".join(map(str, unseen or []))]
        beside = subprocess.Popen(
            [*command, "--run", folder, "--device", "auto", "--watch-pid", str(os.getpid())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
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
    done = rows["done_us"][rows["ready_us"].argsort()]  # a loader's last minibatch stays in hand until its next turn
    assert (done[1:] >= done[:-1]).all()
    if facts["gpu"] and (rows["copied_us"] >= 0).any():
        assert (rows["ready_us"] <= rows["copied_us"]).all() and (rows["copied_us"] <= rows["done_us"]).all()
        assert all(anchor["pm_us"] < 1000 for anchor in facts["anchors"]) and facts["anchors"]


# ---- in turns --------------------------------------------------------------------------------------------------------


def keep_to(cores: list[int], worker: int) -> None:
    """Hold a loader worker to some cores."""
    os.sched_setaffinity(0, cores)


class Turns:
    """One network that takes turns of a few steps: with a loader that nobody looks at, and with one that is recorded.

    The machine's own ups and downs last longer than a turn, so both variants get the same share of them. There are a
    few loaders of each kind; they live as long as the comparison, each repeat draws one of each kind, and none is the
    bottleneck: a worker collates images that lie ready, and a thread of torch's pins them, as in any training.
    With `--numbers` they deliver numbers and the minibatch lies in pinned memory: steps as short as they can be.

    What runs beside a real recording runs here in recorded turns alone, as often for each second of them. The sampler
    is stopped (SIGSTOP) otherwise, and its clock with it; the workers of bare loaders it does not look at. A thread of
    its own keeps the record, woken at any instant of a turn's first step; the turn goes on, an even number of steps,
    until that is done.
    Turns are of a dozen steps: in the first one our code is not in any cache, which is so once in a real training.
    With eight cores or more the training process keeps to four of its own and the workers to the others; the sampler
    goes where the kernel puts it.
    """

    def __init__(self, name: str, device: str, sampler: bool, numbers: bool = False) -> None:
        self.name, self.numbers = name, numbers
        self._cores = sorted(os.sched_getaffinity(0))
        if len(self._cores) >= 8:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), self._cores[:4])
        self.network = networks.build(name).to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.cuda = device == "cuda"
        minibatch = torch.randn(16, *networks.input_shape(name)), torch.ones(16, dtype=torch.long)
        self._ready = [part.pin_memory() if self.cuda else part for part in minibatch]
        dataset = Ready(16 * 1_000_000, 1 if numbers else (minibatch[0][0], 1))
        self.bare = [self._endless(dataset) for _ in range(LOADERS)]  # before the session: nobody looks at them
        for iterator in self.bare:
            iterator.__class__ = Untouched
        session.KEEP_S = 3600.0  # not by itself
        stream.ENCODE_S, stream.LEFT_S = ENCODE_S / RECORDED_SHARE, LEFT_S / RECORDED_SHARE
        self._recorded_s = self._unkept_s = 0.0  # recorded in all, and since the record was kept
        self._clock = Clock() if sampler else None
        self._keep, self._kept = threading.Semaphore(0), threading.Event()
        self._kept.set()
        self._step_s = 0.0  # what a step of the last turn took
        self.keeps = False  # the record was kept during the last turn
        self._stack = ExitStack()
        unseen = [worker.pid for iterator in self.bare for worker in iterator._workers]
        self.beside, self.marks = self._stack.enter_context(recording(self._clock, self._cores, unseen))
        self.watched = [self._endless(dataset) for _ in range(LOADERS)]
        threading.Thread(target=self._keeper, daemon=True).start()
        for turn in range(LOADERS):
            for variant in ("bare", "recorded"):
                self.take(variant, turn, 10)

    def close(self) -> tuple[float | None, str]:
        """End the recording, after a look at it.

        Return what it says it cost the loop, µs a minibatch, and what the sampler did in a recorded second.
        """
        self._sampler(signal.SIGCONT)
        del self.bare, self.watched
        os.sched_setaffinity(0, self._cores)
        marks, sampled = self.marks, "–"
        if self.beside is not None:
            self.beside.terminate()
            self.beside.wait()
            account = json.loads(Path(marks.run, "sampler.json").read_text())
            reads = max(probe["reads"] for probe in account["per_probe"].values())
            cpu_ms = 1e3 * (account["cpu_s"] - account["start_cpu_s"])
            sampled = f"{reads / self._recorded_s:.1f}, {cpu_ms / self._recorded_s:.0f} ms"
        self._stack.close()
        return marks.cost_us(), sampled

    def take(self, variant: str, number: int, steps: int) -> list[float]:
        """Train a turn; return the seconds of its steps, the last one until the accelerator has finished too.

        "null" is bare too, with another loader: there to be compared with "bare".
        """
        batches = (self.watched if variant == "recorded" else self.bare)[number]
        marks = self.marks if variant == "recorded" else None
        self.keeps = marks is not None and self._unkept_s >= KEEP_S
        if marks is not None and self._clock is not None:
            self._clock.set(self._recorded_s)
            self._sampler(signal.SIGCONT)
        self.finish()
        ends = [time.perf_counter()]
        if self.keeps:
            self._unkept_s -= KEEP_S
            self._kept.clear()
            self._keep.release()
        while len(ends) <= steps or len(ends) % 2 == 0 or not self._kept.is_set():
            self._step(self.delivered(batches), marks)
            ends.append(time.perf_counter())
        self.finish()
        ends[-1] = time.perf_counter()
        self._sampler(signal.SIGSTOP)
        self._step_s = (ends[-1] - ends[0]) / (len(ends) - 1)
        if marks is not None:
            took_s = ends[-1] - ends[0]
            self._recorded_s += took_s
            self._unkept_s += took_s
        return [after - before for before, after in itertools.pairwise(ends)]

    def _keeper(self) -> None:
        chance = random.Random(1)
        while True:
            self._keep.acquire()
            time.sleep(chance.random() * self._step_s)
            self.marks.keep()
            self._kept.set()

    def profiled(self, steps: int) -> list[float]:
        """Train a turn under torch.profiler."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        activities += [torch.profiler.ProfilerActivity.CUDA] if self.cuda else []
        with torch.profiler.profile(activities=activities):
            return self.take("bare", 0, steps)

    def delivered(self, batches: Iterator[Any]) -> list[torch.Tensor]:
        """Return the next minibatch."""
        minibatch: list[torch.Tensor] = next(batches)
        return self._ready if self.numbers else minibatch

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

    def finish(self) -> None:
        """Wait for the accelerator."""
        if self.cuda:
            torch.cuda.synchronize()

    def _endless(self, dataset: Dataset[Any]) -> Iterator[Any]:
        cores = self._cores[4:] if len(self._cores) >= 8 else self._cores
        pin = functools.partial(keep_to, cores)
        return iter(
            DataLoader(
                dataset,
                batch_size=16,
                num_workers=1,  # six loaders' workers are already twice as many for the sampler as a training has
                prefetch_factor=4,
                pin_memory=self.cuda,
                worker_init_fn=pin,
                collate_fn=list if self.numbers else None,
            )
        )

    def _sampler(self, number: signal.Signals) -> None:
        if self.beside is not None:
            self.beside.send_signal(number)


def in_turns(options: argparse.Namespace, say: Callable[[str], None]) -> bool:
    """Compare bare and recorded for each network: so many repeats, and as many more as there are seconds for."""
    kept = True
    where = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    say(f"\n## On {where}, batch 16, async, {PAIRS} pairs of turns of {options.minibatches} minibatches a repeat\n")
    heads = ("network", "repeats", "bare ms", "recorded ms", "ratio (90 % interval)", "kept, ≤ 1.01")
    heads += (
        "without the slowest tenth",
        "two bare loaders",
        "spread of a repeat",
        "loop's own µs",
        "sampler's reads and CPU a second",
        "torch.profiler ms",
        "its ratio",
    )
    say(f"| {' | '.join(heads)} |")
    say("|---" * len(heads) + "|")
    for name in options.network:
        turns = Turns(name, options.device, not options.no_sampler, options.numbers)
        compared: dict[str, list[Repeat]] = {"null": [], "recorded": []}
        until = time.monotonic() + options.seconds
        for repeat in itertools.count():
            if repeat >= options.repeats and time.monotonic() > until:
                break
            compared["recorded"].append(_repeat(turns, "recorded", options))
            if repeat % NULL_EVERY == 0:
                compared["null"].append(_repeat(turns, "null", options))
            if repeat % 20 == 19:
                so_far = ratio_interval([each.beside / each.bare for each in compared["recorded"]])
                print(
                    f"{name}: {repeat + 1} repeats, {so_far[0]:.4f} ({so_far[1]:.4f}–{so_far[2]:.4f})", file=sys.stderr
                )
        profiled = [step for _ in range(PROFILED) for step in turns.profiled(20)]
        kept &= _say_ratios(name, compared, profiled, *turns.close(), say)
    return kept


class Repeat(NamedTuple):
    """Seconds a minibatch in one repeat, bare and beside it: means, and means without the slowest tenth."""

    bare: float
    beside: float
    usual_bare: float
    usual_beside: float


def _repeat(turns: Turns, variant: str, options: argparse.Namespace) -> Repeat:
    """Take turns with one loader of each kind, drawn by lot; for "null" two of the same kind."""
    first, second = random.sample(range(LOADERS), 2)
    numbers = {"bare": first, variant: second if variant == "null" else random.randrange(LOADERS)}
    times: dict[str, list[float]] = {"bare": [], variant: []}
    for _ in range(PAIRS):
        for which in random.sample(("bare", variant), 2):
            took = turns.take(which, numbers[which], options.minibatches)
            times[which] += took
            if options.steps:
                with options.steps.open("a") as file:
                    file.write(json.dumps([turns.name, variant, which, numbers[which], took, turns.keeps]) + "\n")
    bare, beside = (sorted(times[which]) for which in ("bare", variant))
    usual = [statistics.fmean(took[: len(took) - len(took) // 10]) for took in (bare, beside)]
    return Repeat(statistics.fmean(bare), statistics.fmean(beside), *usual)


def _say_ratios(
    name: str,
    compared: dict[str, list[Repeat]],
    profiled: list[float],
    own_us: float | None,
    sampled: str,
    say: Callable[[str], None],
) -> bool:
    repeats = compared["recorded"]
    ratios = [repeat.beside / repeat.bare for repeat in repeats]
    mean, low, high = ratio_interval(ratios)
    usual = ratio_interval([repeat.usual_beside / repeat.usual_bare for repeat in repeats])
    null = ratio_interval([repeat.beside / repeat.bare for repeat in compared["null"]])
    bare = statistics.median(repeat.bare for repeat in repeats)
    recorded = statistics.median(repeat.beside for repeat in repeats)
    under = statistics.fmean(profiled)
    say(
        f"| {name} | {len(ratios)} | {1e3 * bare:.2f} | {1e3 * recorded:.2f} | {mean:.4f} ({low:.4f}–{high:.4f}) | "
        f"{'yes' if high <= MOST_RATIO else '**no**'} | {usual[0]:.4f} ({usual[1]:.4f}–{usual[2]:.4f}) | "
        f"{null[0]:.4f} ({null[1]:.4f}–{null[2]:.4f}) | ± {100 * statistics.stdev(ratios):.1f} % | "
        f"{'–' if own_us is None else format(own_us, '.0f')} | "
        f"{sampled} | {1e3 * under:.2f} | {under / bare:.2f} |"
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
                    with recording(None) as (_, marks):
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
    """Train on the CPU under `edgetrain run`, and set the CPU seconds that it says it took against all."""
    say("\n## Our CPU seconds in a training on the CPU\n")
    say("| command | CPU s, with set-up | sampler | writing | loop µs a minibatch | worker µs | share | kept |")
    say("|---|---|---|---|---|---|---|---|")
    kept = True
    for network, minibatches, epochs in (("resnet18_cifar_gn", 30, 3), ("vgg11", 60, 3), ("lenet5", 900, 10)):
        epochs = 1 if quick else epochs
        command = f"run {network} --scale 0.25 --workers 1 --epochs {epochs} --minibatches {minibatches} --compute cpu"
        kept &= _share_of_run(command, say)
    return kept


def _children_s() -> float:
    """Return the CPU time of all children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _share_of_run(command: str, say: Callable[[str], None]) -> bool:
    with tempfile.TemporaryDirectory(prefix="edgetrain-overhead-") as store:
        before = _children_s()
        done = subprocess.run(
            [sys.executable, "-m", "edgetrain", *command.split(), "--store", store, "--json"],
            capture_output=True,
            text=True,
        )
        whole_s = _children_s() - before
        if done.returncode:
            say(f"| `edgetrain {command}` | failed: {done.stderr.strip().splitlines()[-1]} | | | | | | **no** |")
            return False
        cost = json.loads(done.stdout)["overhead"]
    share = cost["cpu_s"] / whole_s
    say(
        f"| `edgetrain {command}` | {whole_s:.1f} | {cost['sampler_cpu_s'] or 0.0:.2f} s | "
        f"{cost['writing_cpu_s']:.2f} s | {cost['main_thread_us_per_minibatch']:.0f} | "
        f"{cost['worker_us_per_minibatch']:.0f} | {100 * share:.2f} % | "
        f"{'yes' if share <= MOST_CPU_SHARE else '**no**'}, ≤ 1 % |"
    )
    return share <= MOST_CPU_SHARE


def main() -> int:
    """Run what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", action="store_true", help="seconds a minibatch, bare and recorded in turns")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of --turns")
    parser.add_argument("--network", action="append", help="of --turns; default: mobilenet_v3 and resnet18")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few repeats of everything that runs here")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.0, help="--turns: go on for so long with each network")
    parser.add_argument("--minibatches", type=int, default=12, help="in a turn; steps alternate, so an even number")
    parser.add_argument("--numbers", action="store_true", help="--turns: loaders deliver numbers, not images")
    parser.add_argument("--no-sampler", action="store_true", help="the stopwatch alone, without telemetry beside it")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument(
        "--steps", type=Path, help="--turns: append each turn's seconds to this file, and whether the record was kept"
    )
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    everything = not (arguments.turns or arguments.small or arguments.cpu)
    if arguments.turns and arguments.device == "cuda" and not gpu:
        parser.error("no CUDA device is visible; --device cpu compares on the CPU")
    repeats = arguments.repeats = 3 if arguments.quick else max(15, arguments.repeats)
    arguments.network = arguments.network or ["mobilenet_v3", "resnet18"]
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
    if arguments.turns or (everything and gpu):
        kept.append(in_turns(arguments, say))
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
