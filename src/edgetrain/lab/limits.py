"""What a lab is asked to hold this machine down to, as it is written in experiments and plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgetrain.errors import LabError, UsageError
from edgetrain.lab import cpu, tables
from edgetrain.lab.queueing import Medium
from edgetrain.units import parse_bytes, spell_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgetrain.lab.hold import Lab
    from edgetrain.schema import Experiment

KEYS = ("storage", "ram", "page_cache", "cores", "cpu_share", "speed", "picture", "media")
# Below this a page cache cannot hold what one minibatch reads, and the kernel would thrash rather than limit.
_SMALLEST_CACHE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The smaller machine that this one stands in for. None: as it is."""

    storage: Medium | None = None
    ram_bytes: int | None = None  # of the machine stood for
    taken_bytes: int = 0  # of that, what system and training hold; the rest is page cache
    cores: int | None = None
    cpu_share: float | None = None  # of one of our cores
    accelerator: str | None = None  # how the step is made to take its time, in words
    speed: float = 1.0  # every time divided by this

    @property
    def cache_bytes(self) -> int | None:
        """Return what is left for the page cache."""
        return None if self.ram_bytes is None else self.ram_bytes - self.taken_bytes

    @property
    def medium(self) -> Medium | None:
        """Return the storage medium at the speed asked for."""
        return None if self.storage is None else self.storage.faster(self.speed)

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.storage, self.ram_bytes, self.cores, self.cpu_share))

    def check(self) -> None:
        """Refuse what is impossible before anything is set up."""
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"asked for {self.cores} cores; a machine has at least 1")
        if self.cpu_share is not None and not self.cpu_share > 0:
            raise UsageError(f"asked for a CPU share of {self.cpu_share}; give one above 0, 1 is a whole core")
        if not self.speed > 0:
            raise UsageError(f"asked for a speed of {self.speed}; give one above 0")
        if self.ram_bytes is not None and self.cache_bytes is not None:
            if self.cache_bytes < 0:
                raise LabError(
                    f"{spell_bytes(self.ram_bytes)} of RAM is below the {spell_bytes(self.taken_bytes)} that system and"
                    " training hold: the OOM killer would end it; ask for more RAM or a smaller network",
                    asked=self.ram_bytes,
                    needed=self.taken_bytes,
                )
            if self.cache_bytes < _SMALLEST_CACHE_BYTES:
                raise LabError(
                    f"{spell_bytes(self.ram_bytes)} of RAM leaves {spell_bytes(self.cache_bytes)} for the page cache;"
                    f" the lab cannot hold less than {spell_bytes(_SMALLEST_CACHE_BYTES)}"
                )

    def asked(self) -> dict[str, Any]:
        """Return it as plain values, for the manifest."""
        return {
            "storage": None if self.storage is None else self.storage.as_dict(),
            "ram_bytes": self.ram_bytes,
            "taken_bytes": self.taken_bytes,
            "page_cache_bytes": self.cache_bytes,
            "cores": self.cores,
            "cpu_share": self.cpu_share,
            "accelerator": self.accelerator,
            "speed": self.speed,
        }

    def applied(self, workers: int = 0, say: Callable[[str], None] = lambda text: None, held: bool = False) -> Lab:
        """Return a context manager that holds the machine down to this."""
        from edgetrain.lab.hold import Lab

        self.check()
        return Lab(self, workers, say, held)


def _size(value: Any) -> int:
    return parse_bytes(str(value))


def read_limits(asked: Mapping[str, Any], taken_bytes: int = 0) -> Limits:
    """Read limits as people write them: `{storage: sd, ram: 4GiB, cores: 2, cpu_share: 0.5}`.

    `ram` is the whole machine's, of which `taken_bytes` is not page cache; `page_cache` says the cache alone.
    """
    unknown = set(asked) - set(KEYS)
    if unknown:
        raise UsageError(f"the lab has no limit '{min(unknown)}'; known: {', '.join(KEYS)}")
    storage = asked.get("storage")
    read_picture(asked.get("picture"))
    try:
        limits = Limits(
            storage=None if storage is None else tables.medium(str(storage), asked.get("media")),
            cores=None if asked.get("cores") is None else int(asked["cores"]),
            cpu_share=None if asked.get("cpu_share") is None else float(asked["cpu_share"]),
            speed=float(asked.get("speed") or 1.0),
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"a limit cannot be read: {error}; write for example cores: 2, cpu_share: 0.5") from error
    if asked.get("page_cache") is not None:
        limits = replace(limits, ram_bytes=_size(asked["page_cache"]), taken_bytes=0)
    elif asked.get("ram") is not None:
        limits = replace(limits, ram_bytes=_size(asked["ram"]), taken_bytes=taken_bytes)
    limits.check()
    return limits


def read_picture(size: Any) -> tuple[int, int]:
    """Read `400x300`: pictures that stand for the papers' 800x600 when times are divided; decoding must be, too."""
    if size is None:
        return 800, 600
    width, _, height = str(size).partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) >= 100 and int(height) >= 100):
        raise UsageError(f"cannot read {size!r} as the size of a picture; write for example 400x300, from 100x100")
    return int(width), int(height)


def as_board(experiment: Experiment) -> Experiment:
    """Fill in what a preset stands for: limits and paced compute, shrunk where asked; what was said stays said.

    `shrink` K makes the dataset and the page cache K times smaller, so that an epoch takes a K-th of the time.
    """
    if experiment.preset is None:
        return experiment
    board = tables.preset(experiment.preset)
    said = dict(experiment.limits or {})
    speed = float(said.get("speed") or 1.0)
    limits: dict[str, Any] = {
        "storage": board.storage,
        "page_cache": None if said.get("ram") is not None else int(board.cache_bytes / experiment.shrink),
        "cores": board.cores,
        "speed": speed,
    }
    if board.image_s is not None and "cpu_share" not in said:
        share = cpu.share_for(board.image_s, *read_picture(said.get("picture")))
        limits["cpu_share"] = None if share is None else share * speed
    limits.update(said)
    limits = {name: value for name, value in limits.items() if value is not None}
    compute, compute_ms = experiment.compute, experiment.compute_ms
    if compute == "auto":
        compute = "paced"
    if compute == "paced" and compute_ms is None:
        step = tables.step(board.name, experiment.workload.network, experiment.workload.batch_size)
        compute_ms = step.seconds * 1e3 / speed
    workload = experiment.workload
    if workload.dataset is None and experiment.shrink != 1:
        workload = replace(workload, dataset_scale=workload.dataset_scale / experiment.shrink)
    return replace(experiment, limits=limits, compute=compute, compute_ms=compute_ms, workload=workload)


def limits_for(experiment: Experiment) -> Limits:
    """Return the limits an experiment asks for; call `as_board` first where it names a preset."""
    from edgetrain.lab.needs import training_bytes

    asked = dict(experiment.limits or {})
    if not asked:
        return Limits()
    taken_bytes = 0
    if asked.get("ram") is not None:
        taken_bytes = training_bytes(experiment.workload.network, experiment.workload.batch_size)
    limits = read_limits(asked, taken_bytes)
    if experiment.compute == "paced":
        limits = replace(limits, accelerator=f"paced, {experiment.compute_ms} ms a step")
    return limits
