"""What a search for loader arguments asks for and gets: arguments, one measurement of them, the protocol between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
    read_bytes_per_s: float | None  # from the storage medium
    ram: RamUse | None
    power_w: float | None
    origin: Origin
    uses_gpu: bool
    iterable: bool
    run: str

    @property
    def e2e_s(self) -> float:
        """Time per minibatch, the starts of passes included."""
        return sum(self.block_s) / len(self.block_s) + self.pass_s

    @property
    def energy_j(self) -> float | None:
        """Energy per minibatch."""
        return None if self.power_w is None else self.power_w * self.e2e_s

    def cost(self, minimise: str) -> float:
        """Return what is minimised: time, or energy where power is known."""
        energy = self.energy_j
        return self.e2e_s if minimise == "time" or energy is None else energy


class MeasureLoader(Protocol):
    """Measures loader arguments; raises TrialError where the trial gave no measurement."""

    def __call__(self, arguments: LoaderArguments) -> LoaderMeasurement: ...
