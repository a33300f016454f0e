"""The scenarios of the attribution benchmark: the injected cause of a stall, its true share, and the promised error.

There are three sets, because a scenario that has influenced the attribution rule cannot test it:

- tuning: scenarios that the rule was adjusted to. They include every scenario whose result led to a change.
- held out (`held_out`): evaluated while the rule was being built; no result of theirs led to a change.
- fresh (held out, names that begin with `fresh`): written after the last change of the rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import injection as inject

BATCH = 8
PURE, MIXED, HARD = "pure", "mixed", "hard"  # promises: 90 % right (85 with 4 workers), within 8, within 12 points


@dataclass(frozen=True)
class Scenario:
    """One injected cause, and where its true share comes from.

    `truth` gives it; or it is the stall that disappears with the dataset `without`; or it is the injector's log. With
    the log, the stall that remains when nothing is injected is the loader's own hand-over, which no log contains.
    """

    name: str
    make: Callable[[int], Any]  # dataset for a number of minibatches
    promise: str
    workers: tuple[int, ...] = (0, 1, 2, 4)
    minibatches: int = 32
    step_s: float = 0.005
    truth: dict[str, float] | None = None  # None: the injector's log
    without: Callable[[int], Any] | None = None  # the same without the cause; then `vanishes` is what is judged
    vanishes: str = "blocked"
    hogs: int = 0
    held_out: bool = False
    loader: dict[str, Any] = field(default_factory=dict)
    cold: bool = False


def every(period: int, rare: Callable[[], inject.Log], usual: Callable[[], inject.Log], index: int) -> inject.Log:
    """The usual cost for each sample, and a rare one for the first sample of every nth minibatch."""
    slow = index % (period * BATCH) == 0
    return inject.add(usual(), rare()) if slow else usual()


def both(first: Callable[[], inject.Log], second: Callable[[], inject.Log], index: int) -> inject.Log:
    """Two causes, one after the other, in every sample."""
    return inject.add(first(), second())


def halves(first: Callable[[], inject.Log], second: Callable[[], inject.Log], index: int) -> inject.Log:
    """The first half of each minibatch's samples for one cause, the second half for the other."""
    return first() if index % BATCH < BATCH // 2 else second()


def lose(cause: Callable[[float], inject.Log], milliseconds: float) -> Callable[..., inject.Log]:
    """A cost that does not depend on the sample."""
    return functools.partial(_lose, cause, milliseconds / 1e3)


def _lose(cause: Callable[[float], inject.Log], seconds: float, *_: int) -> inject.Log:
    return cause(seconds)


@dataclass(frozen=True)
class Source:
    """A dataset for any number of minibatches, and the same with nothing injected in it."""

    kind: Callable[[int, Callable[[int], inject.Log]], Any]
    function: Callable[[int], inject.Log]

    def __call__(self, minibatches: int) -> Any:
        return self.kind(minibatches, self.function)

    def idle(self, minibatches: int) -> Any:
        """Return the dataset that loses nothing."""
        return self.kind(minibatches, nothing)


def nothing(index: int) -> inject.Log:
    """Lose nothing."""
    return inject.NOTHING


def _map(function: Callable[[int], inject.Log]) -> Source:
    return Source(lambda minibatches, lose: inject.Injected(minibatches * BATCH, lose), function)


def _stream(function: Callable[[int], inject.Log]) -> Source:
    return Source(lambda minibatches, lose: inject.InjectedStream(minibatches * BATCH, lose), function)


def _pool(threads: int, function: Callable[[int], inject.Log]) -> Source:
    return Source(lambda minibatches, lose: inject.Pool(minibatches, BATCH, threads, lose), function)


def scenarios(files: Path, quick: bool) -> list[Scenario]:
    """All of them, tuning first."""
    sleep, pipe, python, native = (
        functools.partial(lose, c) for c in (inject.sleep, inject.pipe, inject.spin, inject.hash_)
    )
    usual, little = native(2), native(0.02)
    mix = functools.partial
    straggler = mix(every, 10, inject_sleep_100, usual)
    alone = {"batch_size": 1, "collate_fn": first_of}
    whole = {"batch_size": None}
    many = [
        Scenario("sleep", _map(sleep(4)), PURE),
        Scenario("pipe read", _map(pipe(4)), PURE),
        Scenario("CPU, lock free", _map(native(4)), PURE),
        Scenario("CPU, pure Python", _map(python(4)), PURE),
        Scenario("64 MiB array, pickled", lambda n: inject.Huge(n, 64, False), PURE, (1, 2, 4), 16,
                 truth={"handover": 1.0}, loader=alone),
        Scenario("64 MiB tensor", lambda n: inject.Huge(n, 64, True), PURE, (1, 2, 4), 16, step_s=0.0,
                 truth={"handover": 1.0}, loader=alone),
        Scenario("half sleep, half CPU", _map(mix(both, sleep(2), native(2))), MIXED),
        Scenario("sleep first, then CPU", _map(mix(halves, sleep(4), native(4))), MIXED, (1, 2)),
        Scenario("CPU + 1 hog, one core", _map(native(4)), MIXED, (0, 1, 2, 4), 24, hogs=1),
        Scenario("CPU + 2 hogs, one core", _map(native(4)), MIXED, (1, 2), 24, hogs=2),
        Scenario("sleep + 1 hog, one core", _map(sleep(4)), MIXED, (1, 2), hogs=1),
        Scenario("100 ms sleep every 10th", _map(straggler), HARD, (1, 2), 60, 0.020, without=_map(usual)),
        Scenario("pool of 4 threads, CPU", _pool(4, native(4)), HARD, (0, 1, 2, 4), 32, 0.002, loader=whole),
        # ---- held out
        Scenario("three parts sleep, one CPU", _map(mix(both, sleep(3), python(1))), MIXED, held_out=True),
        Scenario("stream, CPU first, then pipe", _stream(mix(halves, native(3), pipe(5))), MIXED, (1, 2),
                 held_out=True),
        Scenario("sleep, prefetch 1, persistent", _map(sleep(6)), PURE, (1, 2, 4),
                 loader={"prefetch_factor": 1, "persistent_workers": True}),
        Scenario("CPU, spawned workers", _map(native(3)), PURE, (1,), held_out=True,
                 loader={"multiprocessing_context": "spawn"}),
        Scenario("16 MiB array, pickled", lambda n: inject.Huge(n, 16, False), PURE, (1, 2, 4), 32, 0.002,
                 truth={"handover": 1.0}, held_out=True, loader=alone),
        Scenario("half sleep, half CPU + 1 hog", _map(mix(both, sleep(2), native(2))), MIXED, (1, 2), 24,
                 hogs=1, held_out=True),
        Scenario("60 ms sleep every 5th, prefetch 4", _map(mix(every, 5, inject_sleep_60, native(1))), HARD,
                 (1, 2), 60, 0.012, without=_map(native(1)), held_out=True, loader={"prefetch_factor": 4}),
        Scenario("80 ms CPU every 8th", _map(mix(every, 8, inject_hash_80, sleep(1.5))), HARD, (1, 2), 60,
                 0.015, without=_map(sleep(1.5)), vanishes="preprocess", held_out=True),
        Scenario("pool of 3 threads, sleeping", _pool(3, sleep(4)), HARD, (0, 1, 2), 32, 0.002, loader=whole),
        Scenario("pool of 2 threads, CPU + 1 hog", _pool(2, native(3)), HARD, (1,), 24, 0.002, hogs=1, loader=whole),
        Scenario("pipe, then pure Python", _map(mix(both, pipe(2), python(3))), MIXED, (0, 1, 2)),
        Scenario("stream of lock-free CPU", _stream(native(5)), PURE, (1, 2, 4)),
        Scenario("70 ms sleep every 7th over Python", _map(mix(every, 7, inject_sleep_70, python(1))), HARD,
                 (1, 2), 60, 0.015, without=_map(python(1))),
        Scenario("sleep, prefetch 3, spawned", _map(sleep(5)), PURE, (2,),
                 loader={"prefetch_factor": 3, "multiprocessing_context": "spawn"}),
        Scenario("pure Python, then sleep", _map(mix(halves, python(6), sleep(3))), MIXED, (1, 2, 4)),
        Scenario("90 ms Python every 6th over sleep", _map(mix(every, 6, inject_spin_90, sleep(1))), HARD,
                 (1, 2), 60, 0.012, without=_map(sleep(1)), vanishes="preprocess"),
        Scenario("stream of pure Python, prefetch 4", _stream(python(5)), PURE, (1, 2, 4),
                 loader={"prefetch_factor": 4}),
        Scenario("pipe + 1 hog, one core", _map(pipe(5)), MIXED, (1, 2), 24, hogs=1),
        Scenario("120 ms pipe every 9th over CPU", _map(mix(every, 9, inject_pipe_120, native(1))), HARD,
                 (1, 2, 4), 60, 0.010, without=_map(native(1))),
        # ---- fresh: written when the rule was final
        Scenario("fresh: sleep, then pure Python, prefetch 3", _map(mix(both, sleep(3), python(2))), MIXED, (1, 2),
                 held_out=True, loader={"prefetch_factor": 3}),
        Scenario("fresh: stream, one part Python, three pipe", _stream(mix(both, python(1), pipe(3))), MIXED, (1, 2, 4),
                 held_out=True),
        Scenario("fresh: 50 ms Python every 4th over Python", _map(mix(every, 4, inject_spin_50, python(1))), HARD,
                 (1, 2), 60, 0.014, without=_map(python(1)), vanishes="preprocess", held_out=True),
        Scenario("fresh: 150 ms sleep every 12th, prefetch 1", _map(mix(every, 12, inject_sleep_150, native(1))), HARD,
                 (1, 2), 60, 0.012, without=_map(native(1)), held_out=True, loader={"prefetch_factor": 1}),
        Scenario("fresh: pure Python + 1 hog, one core", _map(python(3)), MIXED, (1, 2), 24, hogs=1, held_out=True),
        Scenario("fresh: 32 MiB array, pickled, prefetch 1", lambda n: inject.Huge(n, 32, False), PURE, (1, 2), 16,
                 truth={"handover": 1.0}, held_out=True, loader={**alone, "prefetch_factor": 1}),
        # ---- fresh: written when the counters of short fetches came to be read less often
        Scenario("fresh: 60 ms sleep every 10th over next to nothing", _map(mix(every, 10, inject_sleep_60, little)),
                 HARD, (0, 1, 2), 60, 0.003, without=_map(little), held_out=True),
        Scenario("fresh: 50 ms Python every 10th over short sleeps", _map(mix(every, 10, inject_spin_50, sleep(0.02))),
                 HARD, (0, 1, 2), 60, 0.003, without=_map(sleep(0.02)), vanishes="preprocess", held_out=True),
    ]  # fmt: skip
    paths = inject.write_files(files, 400 if quick else 1000, 100_000)
    read = lambda n: inject.Files(paths)  # noqa: E731
    mapped = lambda n: inject.Files(paths, mapped=True)  # noqa: E731
    many += [
        Scenario("cold files", read, HARD, without=read, step_s=0.0, cold=True, minibatches=len(paths) // BATCH),
        Scenario("cold files, mapped", mapped, HARD, (1, 2), without=mapped, step_s=0.0, cold=True, held_out=True,
                 minibatches=len(paths) // BATCH),
    ]  # fmt: skip
    return many


inject_sleep_100 = functools.partial(_lose, inject.sleep, 0.100)
inject_sleep_70 = functools.partial(_lose, inject.sleep, 0.070)
inject_sleep_60 = functools.partial(_lose, inject.sleep, 0.060)
inject_pipe_120 = functools.partial(_lose, inject.pipe, 0.120)
inject_sleep_150 = functools.partial(_lose, inject.sleep, 0.150)
inject_spin_50 = functools.partial(_lose, inject.spin, 0.050)
inject_spin_90 = functools.partial(_lose, inject.spin, 0.090)
inject_hash_80 = functools.partial(_lose, inject.hash_, 0.080)


def first_of(samples: list[Any]) -> Any:
    """A collate function that copies nothing."""
    return samples[0]
