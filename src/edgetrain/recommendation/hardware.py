"""Boards, storage media, targets and options: the types of choosing hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.errors import UsageError
from edgetrain.recommendation.fits import Fit
from edgetrain.schema import Estimate

RANKS = ("price", "time", "energy")
WORKERS = 4  # in every published figure


@dataclass(frozen=True, slots=True)
class BoardOffer:
    """A board as it can be bought: one RAM size, the media it takes."""

    board: str
    title: str
    ram_bytes: int
    media: tuple[str, ...]
    price_usd: float | None
    peak_power_w: float | None
    fit: Fit | None = None  # None: the network's need is not known


@dataclass(frozen=True, slots=True)
class MediumCost:
    """What reading one file that is not cached costs, alone and with other reads queued."""

    name: str
    read_s: float
    bytes_per_s: float
    at_once: int
    gain: Mapping[int, float]
    source: str

    def epoch_s(self, files: float, file_bytes: float, readers: int) -> float:
        """Return how long reading the files takes with a number of concurrent readers."""
        queued = max(readers, 1)
        gain = max((factor for depth, factor in self.gain.items() if depth <= queued), default=1.0)
        positioning = self.read_s / (gain * min(queued, self.at_once))
        return files * (positioning + file_bytes / self.bytes_per_s)


@dataclass(frozen=True, slots=True)
class TrainingTarget:
    """The training that a board is wanted for, and its limits; None: not limited."""

    network: str
    samples: int
    file_bytes: float | None  # mean size of one file; None: one file holds all (MNIST, CIFAR-10, text)
    epochs: int = 1
    deadline_s: float | None = None  # for the whole training
    max_energy_j: float | None = None  # of the whole training
    max_price_usd: float | None = None
    rank_by: str = "price"

    def __post_init__(self) -> None:
        if self.rank_by not in RANKS:
            raise UsageError(f"cannot rank by {self.rank_by!r}; choose one of {', '.join(RANKS)}")
        if self.epochs < 1 or self.samples < 1:
            raise UsageError(f"a training has at least one epoch and one sample, not {self.epochs} and {self.samples}")
        if self.file_bytes is not None and not self.file_bytes > 0:
            raise UsageError(
                f"the mean size of a file must be above zero, not {self.file_bytes:g}; write `one` for one file"
            )
        for name, value in (
            ("deadline", self.deadline_s),
            ("energy", self.max_energy_j),
            ("price", self.max_price_usd),
        ):
            if value is not None and not value > 0:
                raise UsageError(f"the limit on {name} must be above zero, not {value:g}")


@dataclass(frozen=True, slots=True)
class HardwareOption:
    """One board with one medium and one RAM size."""

    board: str
    title: str
    ram_bytes: int
    medium: str
    price_usd: float | None
    verdict: str  # meets | cannot say | fails
    fits: str | None  # whether the network fits into memory; None: not known
    epoch_s: Estimate | None  # warm
    cold_epoch_s: float | None  # the first one
    total_s: Estimate | None
    epoch_energy_j: Estimate | None
    fetch_s: float | None  # reading a whole epoch that is not cached
    fetch_hidden: bool | None  # training hides fetching in later epochs
    fetch_hidden_cold: bool | None  # and in the first
    cached_share: float | None
    just_enough: bool  # the slowest medium of this board whose fetching is hidden in later epochs
    fails: tuple[str, ...]
    unknown: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceRanking:
    """Every option for a target, best first."""

    network: str
    samples: int
    file_bytes: float | None
    epochs: int
    deadline_s: float | None
    max_energy_j: float | None
    max_price_usd: float | None
    rank_by: str
    workers: int
    notes: tuple[str, ...]
    options: tuple[HardwareOption, ...]
