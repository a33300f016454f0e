"""One setting of everything we choose. Each setting is declared here, once (see `schema.setting`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated

from edgetrain.errors import UsageError
from edgetrain.schema.device import PowerMode
from edgetrain.schema.setting import Declared, Scalar, Setting, settings_of, take_settings

DEFAULT_BATCH_SIZE = 16  # of the papers' recipe
MAX_WORKERS = 512  # more than any supported machine has cores; 100,000 workers would exhaust it
TRAINING, LOADING, LAB, RECORD = "Training", "Loading", "Lab limits and device", "Record"


@dataclass(frozen=True, slots=True)
class Workload:
    """Network, dataset and batch size, with the training recipe of the papers as default; or a command."""

    network: str  # a name of the catalogue, or module:function; of a command, its label
    command: tuple[str, ...] | None = None  # an unmodified training script, instead of a network
    dataset: Annotated[
        str | None,
        Setting(
            "Folder of the dataset; default: one is generated, for networks of the catalogue.",
            panel=TRAINING,
            for_commands=True,
        ),
    ] = None
    dataset_scale: Annotated[
        float,
        Setting("Size of the generated dataset; 1 is the published size.", above=0, maximum=1000, panel=TRAINING),
    ] = 1.0
    batch_size: Annotated[
        int | None,
        Setting(
            "Samples per minibatch; default: what your own workload sets, else 16.",
            minimum=1,
            maximum=1 << 20,
            panel=TRAINING,
        ),
    ] = None
    learning_rate: Annotated[float, Setting("Learning rate of the optimizer.", above=0, panel=TRAINING)] = 0.01
    momentum: Annotated[float, Setting("SGD momentum.", minimum=0, panel=TRAINING)] = 0.9
    optimizer: Annotated[str, Setting("Optimizer.", choices=("sgd", "adam", "adamw"), panel=TRAINING)] = "sgd"
    classes: Annotated[
        int | None,
        Setting("Number of outputs of the network; default: the dataset's classes.", minimum=1, panel=TRAINING),
    ] = None


@dataclass(frozen=True, slots=True)
class Loading:
    """Loader workers, prefetch depth, cache state."""

    workers: Annotated[
        int,
        Setting(
            "Loader worker processes; 0: the training loop loads the data itself.",
            minimum=0,
            maximum=MAX_WORKERS,
            panel=LOADING,
        ),
    ] = 2
    prefetch: Annotated[
        int, Setting("Minibatches that each worker loads ahead.", minimum=1, maximum=10_000, panel=LOADING)
    ] = 2
    pin_memory: Annotated[bool, Setting("Load minibatches into page-locked memory.", panel=LOADING)] = False
    persistent: Annotated[bool, Setting("Keep the loader workers alive between epochs.", panel=LOADING)] = True
    start_method: Annotated[
        str | None,
        Setting(
            "How loader workers are started; default: as torch does.",
            choices=("fork", "spawn", "forkserver"),
            panel=LOADING,
        ),
    ] = None
    cache: Annotated[
        str,
        Setting(
            "Page cache at the start: cold (dataset dropped), warm (dataset read in) or keep (unchanged).",
            choices=("cold", "warm", "keep"),
            panel=LOADING,
            for_commands=True,
        ),
    ] = "keep"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that make this machine behave like a smaller one, as a user writes them. None: not limited."""

    storage: Annotated[
        str | None,
        Setting(
            "Emulate a storage medium: ssd, emmc, sd or hdd; in a plan also a name from its `folders`.",
            panel=LAB,
            for_commands=True,
        ),
    ] = None
    ram: Annotated[
        str | None,
        Setting("Emulate a machine with this much RAM in total: 4GiB.", size=True, panel=LAB, for_commands=True),
    ] = None
    page_cache: Annotated[
        str | None, Setting("Limit only the page cache, to this size: 300MB.", size=True, panel=LAB, for_commands=True)
    ] = None
    cores: Annotated[
        int | None, Setting("Number of CPU cores to use.", minimum=1, maximum=4096, panel=LAB, for_commands=True)
    ] = None
    cpu_share: Annotated[
        float | None,
        Setting(
            "Speed of each core, relative to this machine's: 0.5.", above=0, maximum=64, panel=LAB, for_commands=True
        ),
    ] = None
    speed: Annotated[
        float | None,
        Setting("Speed up the emulation: divide emulated storage and step times by this.", above=0, panel=LAB),
    ] = None
    picture: Annotated[
        str | None,
        Setting("With --preset: size of the dataset's pictures, if not the papers' 800x600.", panel=LAB),
    ] = None

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) is not None for item in fields(self))

    def __str__(self) -> str:
        asked = ((item.name.replace("_", " "), getattr(self, item.name)) for item in fields(self))
        return ", ".join(f"{name} {value}" for name, value in asked if value is not None) or "none"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One setting of everything we choose; running it gives a Run."""

    workload: Workload
    loading: Loading = field(default_factory=Loading)
    limits: Limits = field(default_factory=Limits)
    power_mode: PowerMode | None = None  # a setting too, written as text: see `POWER_MODE`
    dvfs: Annotated[
        bool,
        Setting(
            "Let the governors lower clocks below --power-mode; off: clocks are held.", panel=LAB, for_commands=True
        ),
    ] = False
    full_fan: Annotated[
        bool, Setting("Run the board's fan at full speed during the run.", panel=LAB, for_commands=True)
    ] = False
    epochs: Annotated[int, Setting("Passes over the dataset.", minimum=1, panel=TRAINING)] = 2
    minibatches: Annotated[
        int | None, Setting("Stop each epoch after this many minibatches.", minimum=1, panel=TRAINING)
    ] = None
    seed: Annotated[int, Setting("Random seed.", minimum=0, maximum=2**63 - 1, panel=TRAINING)] = 0
    compute: Annotated[
        str,
        Setting(
            "How a step is computed: auto, cuda, cpu, or paced (each step only sleeps, for --compute-ms).",
            choices=("auto", "cuda", "cpu", "paced"),
            panel=LAB,
        ),
    ] = "auto"
    compute_ms: Annotated[float | None, Setting("Duration of a paced step, in ms.", above=0, panel=LAB)] = None
    python: Annotated[
        str | None,
        Setting(
            "Python to train with, such as /usr/bin/python3; it needs Python 3.8 or later, torch, numpy and Pillow.",
            panel=TRAINING,
        ),
    ] = None
    preset: Annotated[
        str | None, Setting("Emulate a board's storage, RAM, cores and step time: xavier-nx.", panel=LAB)
    ] = None
    shrink: Annotated[
        float, Setting("With --preset: divide the size of dataset and page cache by this.", above=0, panel=LAB)
    ] = 1.0
    timing: Annotated[
        str,
        Setting(
            "async, or sync: wait for the accelerator after every step, as the papers did.",
            choices=("async", "sync"),
            panel=RECORD,
            for_commands=True,
        ),
    ] = "async"
    probe_batch: Annotated[
        bool,
        Setting(
            "After training, measure a few steps at half and double the batch size, for `edgetrain whatif`.",
            panel=RECORD,
        ),
    ] = False
    baseload_s: Annotated[
        float,
        Setting(
            "Measure the idle power before training, for this many seconds.", minimum=0, panel=RECORD, for_commands=True
        ),
    ] = 0.0
    campaign: str | None = None
    factors: Mapping[str, Scalar] = field(default_factory=dict)
    repeat: int = 0
    position: int | None = None


POWER_MODE = Declared(
    "power_mode",
    str,
    True,
    None,
    Setting(
        "Hold a power mode of the board: the name (30W) or id of a stock mode, or cores/CPU/GPU/memory in MHz.",
        panel=LAB,
        for_commands=True,
    ),
)
SECTIONS = (Workload, Loading, Limits, Experiment)  # the classes that declare settings
NETWORK = Declared(
    "network", str, False, None, Setting("Network to train: a name from the catalogue, or module:function.")
)


def all_settings() -> dict[str, Declared]:
    """Return every setting by name; network and power mode, which are read by rules of their own, included."""
    declared = {one.name: one for kind in SECTIONS for one in settings_of(kind)}
    return {NETWORK.name: NETWORK, **declared, POWER_MODE.name: POWER_MODE}


def build_experiment(
    settings: Mapping[str, Scalar],
    power_mode: PowerMode | None = None,
    command: tuple[str, ...] | None = None,
    campaign: str | None = None,
    factors: Mapping[str, Scalar] | None = None,
    repeat: int = 0,
    position: int | None = None,
) -> Experiment:
    """Make an experiment of settings by name, checked; the last four arguments are what a campaign notes."""
    values = dict(settings)
    network = values.pop("network", None)
    values.pop("power_mode", None)
    if not isinstance(network, str) or not network:
        raise UsageError("the network to train is missing")
    workload = take_settings(Workload, values, network=network, command=command)
    loading, limits = take_settings(Loading, values), take_settings(Limits, values)
    experiment = take_settings(
        Experiment,
        values,
        workload=workload,
        loading=loading,
        limits=limits,
        power_mode=power_mode,
        campaign=campaign,
        factors=dict(factors or {}),
        repeat=repeat,
        position=position,
    )
    if values:
        raise UsageError(f"there is no setting {min(values)!r}; known: {', '.join(all_settings())}")
    return experiment
