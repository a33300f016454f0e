"""The limits that experiments and plans ask for, read, completed from presets and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetrain.errors import LabError, UsageError
from edgetrain.lab import cpu, tables
from edgetrain.lab.needs import training_bytes
from edgetrain.lab.queueing import MediumModel
from edgetrain.schema import DEFAULT_BATCH_SIZE, Experiment, Limits, LimitsAsked, StorageModel
from edgetrain.units import parse_bytes, spell_bytes

if TYPE_CHECKING:
    from edgetrain.lab.hold import Lab
    from edgetrain.lab.mechanisms import Mechanisms

# A smaller page cache cannot hold what one minibatch reads, and the kernel would thrash.
_SMALLEST_CACHE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """The smaller machine that this one is limited to. None: not limited."""

    storage: MediumModel | None = None
    ram_bytes: int | None = None  # of the smaller machine
    taken_bytes: int = 0  # of that, by system and training; the rest is page cache
    cores: int | None = None
    cpu_share: float | None = None  # of one core of this machine
    accelerator: str | None = None  # how the step takes its time, in words
    speed: float = 1.0  # every time divided by this

    @property
    def cache_bytes(self) -> int | None:
        """Return what is left for the page cache."""
        return None if self.ram_bytes is None else self.ram_bytes - self.taken_bytes

    @property
    def medium(self) -> MediumModel | None:
        """Return the storage medium at the speed asked for."""
        return None if self.storage is None else self.storage.faster(self.speed)

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.storage, self.ram_bytes, self.cores, self.cpu_share))

    def check(self) -> None:
        """Refuse what is impossible before anything is set up."""
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"requested {self.cores} cores; a machine has at least 1")
        if self.cpu_share is not None and not self.cpu_share > 0:
            raise UsageError(f"requested a CPU share of {self.cpu_share}; give one above 0, 1 is a whole core")
        if not self.speed > 0:
            raise UsageError(f"requested a speed of {self.speed}; give one above 0")
        if self.ram_bytes is not None and self.cache_bytes is not None:
            if self.cache_bytes < 0:
                raise LabError(
                    f"{spell_bytes(self.ram_bytes)} of RAM is less than the {spell_bytes(self.taken_bytes)} that system"
                    " and training need: the OOM killer would end it; ask for more RAM or a smaller network",
                )
            if self.cache_bytes < _SMALLEST_CACHE_BYTES:
                raise LabError(
                    f"{spell_bytes(self.ram_bytes)} of RAM leaves {spell_bytes(self.cache_bytes)} for the page cache;"
                    f" the lab cannot limit it to less than {spell_bytes(_SMALLEST_CACHE_BYTES)}"
                )

    def asked(self) -> LimitsAsked:
        """Return what the record keeps of it."""
        medium = self.storage
        return LimitsAsked(
            storage=None
            if medium is None
            else StorageModel(
                medium.name, medium.read_s, medium.bytes_per_s, medium.at_once, medium.gain, medium.source
            ),
            ram_bytes=self.ram_bytes,
            taken_bytes=self.taken_bytes,
            page_cache_bytes=self.cache_bytes,
            cores=self.cores,
            cpu_share=self.cpu_share,
            accelerator=self.accelerator,
            speed=self.speed,
        )

    def applied(
        self,
        workers: int = 0,
        say: Callable[[str], None] = lambda text: None,
        held: bool = False,
        mechanisms: Mechanisms | None = None,
        user_program: bool = False,
    ) -> Lab:
        """Return a context manager that applies the limits.

        `held` ones stay until `lab down`; a `user_program` is not our training program, which can wait by itself.
        """
        from edgetrain.lab.hold import Lab
        from edgetrain.lab.mechanisms import find_mechanisms

        self.check()
        return Lab(self, workers, say, held, mechanisms or find_mechanisms(), user_program)


def resolve_limits(asked: Limits, taken_bytes: int = 0, media_file: str | None = None) -> MachineLimits:
    """Return the limits of the settings in base units; LabError or UsageError where they are impossible.

    `ram` is the whole machine's, of which `taken_bytes` is not page cache; `page_cache` is the cache alone.
    """
    read_picture(asked.picture)
    limits = MachineLimits(
        storage=None if asked.storage is None else tables.medium(asked.storage, media_file),
        cores=asked.cores,
        cpu_share=asked.cpu_share,
        speed=asked.speed or 1.0,
    )
    if asked.page_cache is not None:
        limits = replace(limits, ram_bytes=parse_bytes(asked.page_cache), taken_bytes=0)
    elif asked.ram is not None:
        limits = replace(limits, ram_bytes=parse_bytes(asked.ram), taken_bytes=taken_bytes)
    limits.check()
    return limits


def read_picture(size: str | None) -> tuple[int, int]:
    """Read `400x300`, the size of the dataset's pictures where they replace the papers' 800x600; None: 800x600."""
    if size is None:
        return 800, 600
    width, _, height = size.partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) >= 100 and int(height) >= 100):
        raise UsageError(f"cannot read {size!r} as the size of a picture; write for example 400x300, from 100x100")
    return int(width), int(height)


def as_board(experiment: Experiment, image_s: Callable[[int, int], float | None] = cpu.image_s) -> Experiment:
    """Complete an experiment from its preset: limits and paced compute; what the experiment sets itself stays.

    `shrink` K makes the dataset and the page cache K times smaller, so that an epoch takes a K-th of the time.
    `image_s` measures how long this machine takes to decode and augment one photograph.
    """
    if experiment.preset is None:
        return experiment
    board, own = tables.preset(experiment.preset), experiment.limits
    speed = own.speed or 1.0
    cpu_share = own.cpu_share
    if board.image_s is not None and cpu_share is None:
        share = cpu.share_for(board.image_s, *read_picture(own.picture), image_s)
        cpu_share = None if share is None else share * speed
    page_cache = own.page_cache
    if page_cache is None and own.ram is None:
        page_cache = str(int(board.cache_bytes / experiment.shrink))
    limits = replace(
        own,
        storage=own.storage or board.storage,
        page_cache=page_cache,
        cores=board.cores if own.cores is None else own.cores,
        cpu_share=cpu_share,
        speed=speed,
    )
    workload = experiment.workload
    compute, compute_ms = experiment.compute, experiment.compute_ms
    if compute == "auto":
        compute = "paced"
    if compute == "paced" and compute_ms is None:
        step = tables.step(board.name, workload.network, workload.batch_size or DEFAULT_BATCH_SIZE)
        compute_ms = step.seconds * 1e3 / speed
    if workload.dataset is None and experiment.shrink != 1:
        workload = replace(workload, dataset_scale=workload.dataset_scale / experiment.shrink)
    return replace(experiment, limits=limits, compute=compute, compute_ms=compute_ms, workload=workload)


def limits_for(experiment: Experiment) -> MachineLimits:
    """Return the limits an experiment asks for; call `as_board` first where it names a preset."""
    asked, workload = experiment.limits, experiment.workload
    if not asked:
        return MachineLimits()
    taken_bytes = 0
    if asked.ram is not None:
        taken_bytes = training_bytes(workload.network, workload.batch_size or DEFAULT_BATCH_SIZE)
    limits = resolve_limits(asked, taken_bytes)
    if experiment.compute == "paced":
        limits = replace(limits, accelerator=f"paced, {experiment.compute_ms} ms per step")
    return limits
