"""What a search for loader arguments asks for and gets: arguments, one measurement of them, the protocol between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgetrain.schema.doubt import Doubt
from edgetrain.schema.origin import Origin


@dataclass(frozen=True, slots=True)
class LoaderArguments:
    """The arguments of a data loader that change its speed and nothing of what it delivers."""

    workers: int
    prefetch: int | None  # per worker; None without workers
    pin_memory: bool
    persistent: bool

    def __str__(self) -> str:
        if not self.workers:
            words = ["0 workers"]
        else:
            words = [f"{self.workers} worker{'' if self.workers == 1 else 's'}", f"prefetch {self.prefetch}"]
            words += ["persistent"] if self.persistent else []
        return ", ".join([*words, "pinned"] if self.pin_memory else words)

    def as_code(self) -> str:
        """Return them as they are written in a call of DataLoader."""
        words = [f"num_workers={self.workers}"]
        if self.workers:
            words += [f"prefetch_factor={self.prefetch}", f"persistent_workers={self.persistent}"]
        return ", ".join([*words, f"pin_memory={self.pin_memory}"])


@dataclass(frozen=True, slots=True)
class LoaderTarget:
    """Which loaders of a script are given other arguments: how the training loaders differ from its others.

    With a place, all loaders made there; of those, with a period only some of each period, with datasets only theirs.
    """

    created: int  # the order of creation of the training loader in the first trial; without a place only this one
    made_at: tuple[str, ...] = ()  # the place in the program, innermost frame first
    datasets: tuple[int, ...] = ()  # in the order in which loaders were made of them; empty: all
    period: int | None = None  # number of loaders made at this place after which the training ones come again
    phases: tuple[int, ...] = ()  # which ones of a period


@dataclass(frozen=True, slots=True)
class RamUse:
    """Memory of a training: the main process, one of its workers, and all together."""

    peak_bytes: int
    main_bytes: int
    main_own_bytes: int  # anonymous: what a forked worker may copy at worst
    worker_bytes: int | None  # of the largest worker, what no other process has; None without workers
    shared_bytes: int = 0  # minibatches on their way from workers that some process has mapped
    minibatch_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class LoaderMeasurement:
    """Steady state of one trial."""

    arguments: LoaderArguments  # as the record shows them
    block_s: tuple[float, ...]  # mean time per minibatch, block by block
    pass_s: float  # what the start of a pass adds, per minibatch; 0 where no pass began in the trial
    passes: int  # that began in it
    minibatches: int
    stall_share: float | None
    read_bytes_per_s: float | None  # from the storage medium, after warm-up
    ram: RamUse | None
    power_w: float | None
    origin: Origin
    uses_gpu: bool
    iterable: bool
    run: str
    behind: tuple[LoaderArguments, ...] = ()  # the different arguments of all loaders that the minibatches came from
    processes: int = 1  # that train
    doubts: tuple[Doubt, ...] = ()
    made_anew: bool = False  # the script makes a loader for each pass, and its workers end with it

    @property
    def e2e_s(self) -> float:
        """Time per minibatch, the starts of passes included."""
        return self.time_s()

    @property
    def energy_j(self) -> float | None:
        """Energy per minibatch."""
        return None if self.power_w is None else self.power_w * self.e2e_s

    def time_s(self, with_passes: bool = True) -> float:
        """Return the time per minibatch, with or without what the starts of passes add."""
        return sum(self.block_s) / len(self.block_s) + (self.pass_s if with_passes else 0.0)

    def cost(self, minimize: str, with_passes: bool = True) -> float:
        """Return what is minimized: time, or energy where power is known."""
        time_s = self.time_s(with_passes)
        return time_s if minimize == "time" or self.power_w is None else self.power_w * time_s


class MeasureLoader(Protocol):
    """Measures loader arguments; raises TrialError where the trial gave no measurement."""

    def __call__(self, arguments: LoaderArguments) -> LoaderMeasurement: ...
