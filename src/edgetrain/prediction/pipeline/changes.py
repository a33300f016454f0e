"""Reads what a what-if asks to change, checks it as declared settings are checked, and applies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgetrain.analysis import Summary
from edgetrain.errors import UsageError
from edgetrain.prediction.pipeline.costs import StepKind, mean_step_s
from edgetrain.prediction.pipeline.from_record import RecordedPipeline
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
from edgetrain.prediction.pipeline.recorded_storage import present_ram_bytes
from edgetrain.prediction.pipeline.setting import COLD, WARM, PipelineSetting
from edgetrain.schema import Declared, Scalar, StorageModel, all_settings
from edgetrain.units import MS_PER_S, parse_bytes, spell_bytes, spell_seconds

MODELLED = (
    "workers",
    "prefetch",
    "persistent",
    "pin_memory",
    "batch_size",
    "dataset_scale",
    "storage",
    "ram",
    "page_cache",
    "cache",
    "cores",
    "cpu_share",
    "compute_ms",
    "power_mode",
    "preset",
)
NEED_WORKERS = ("prefetch", "persistent")
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
BOARD_STEP = 0.05  # published times of one network on one board differ by this between figures


@dataclass(frozen=True, slots=True)
class ModeEffect:
    """What another power mode changes, relative to the recorded one."""

    step_time: float  # duration of a step on the accelerator
    cpu_speed: float
    cores: int | None = None
    power: float = 1.0
    deviation: float = 0.0  # of the step's duration: standard deviation of its logarithm
    note: str = ""


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """What a preset implies: the board that is asked about."""

    name: str
    cores: int
    cache_bytes: float
    storage: str
    core_speed: float | None = None  # of one of its cores, relative to one of the recording machine
    image_s: float | None = None  # CPU time of one photograph on one of its cores, where the run trained on those
    step_s: float | None = None  # of this network on its accelerator, at the batch size asked for
    speed: float = 1.0  # of the lab's emulation that the run was recorded in: every time is divided by it


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """How a step that the lab paced by a board's figures follows the batch size."""

    board: str
    factor: float  # its duration at the batch size asked for, relative to the recorded one


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """What a change needs from outside the record: storage media by name, a board, the effect of a power mode, ...

    Media are as fast as the lab would make them in the recorded run.
    """

    media: Mapping[str, StorageModel] = field(default_factory=dict)
    board: BoardFacts | None = None
    mode: ModeEffect | None = None
    published_step: PublishedStep | None = None


def read_changes(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the changes with checked values; text is read as the setting's own type."""
    known, found = all_settings(), {}
    for name, value in given.items():
        if name not in MODELLED:
            reason = "is not part of the model" if name in known else "is not a setting"
            raise UsageError(f"{name!r} {reason}; what can be changed: {', '.join(MODELLED)}")
        try:
            found[name] = known[name].read(_typed(known[name], value))
        except UsageError as error:
            raise UsageError(f"{name} {error}") from None
    if found.get("cache") not in (None, COLD, WARM):
        raise UsageError(
            f"cache={found['cache']} does not say what the first epoch finds in the page cache; write cache=cold or "
            "cache=warm, or leave it out: the run's own start is kept"
        )
    _check_contradictions(found)
    return found


def _typed(declared: Declared, value: Scalar) -> Scalar:
    """Return text as the type of the setting; what cannot be read stays text, and is refused by its check."""
    if not isinstance(value, str):
        return value
    if declared.kind is bool:
        return True if value.lower() in TRUE else False if value.lower() in FALSE else value
    if declared.kind in (int, float):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


def _check_contradictions(changes: Mapping[str, Scalar]) -> None:
    if changes.get("workers") == 0:
        for name in NEED_WORKERS:
            if name in changes:
                raise UsageError(f"workers=0 and {name}={changes[name]} contradict each other: {name} needs workers")
    for pair in (("ram", "page_cache"), ("preset", "power_mode"), ("cores", "power_mode")):
        if all(name in changes for name in pair):
            raise UsageError(f"{pair[0]} and {pair[1]} contradict each other; give one of them")


def changed_setting(
    pipeline: RecordedPipeline, summary: Summary, changes: Mapping[str, Scalar], facts: ChangeFacts | None = None
) -> PipelineSetting:
    """Apply checked changes to the recorded setting; UsageError where the record does not have what one needs."""
    facts = facts or ChangeFacts()
    setting = _with_board(pipeline, pipeline.setting, facts)
    plain = {name: changes[name] for name in ("workers", "prefetch", "persistent", "pin_memory") if name in changes}
    setting = replace(setting, **plain)  # type: ignore[arg-type]
    for name in NEED_WORKERS:
        if name in changes and not setting.workers:
            raise UsageError(f"{name}={changes[name]} needs workers, and the run has none; add workers=1 or more")
    if "batch_size" in changes:
        setting = _with_batch_size(setting, int(changes["batch_size"] or 1))
    if "dataset_scale" in changes:
        setting = _with_dataset_scale(setting, summary, float(changes["dataset_scale"] or 1.0))
    if "cores" in changes:
        setting = _with_cores(pipeline, setting, float(changes["cores"] or 1))
    if "cpu_share" in changes:
        setting = replace(setting, cpu_speed=float(changes["cpu_share"] or 1.0))
    if "cache" in changes:
        setting = replace(setting, cache=str(changes["cache"]))
    setting = _with_step(pipeline, setting, facts)
    if facts.mode is not None:
        setting = in_mode(setting, facts.mode, pipeline.most_cores)
    if "compute_ms" in changes:
        if pipeline.costs.step.kind is not StepKind.PACED:
            raise UsageError("compute_ms is the duration of a paced step, and this run computed its steps")
        setting = replace(setting, step_deviation=0.0, fixed_step_s=float(changes["compute_ms"] or 0.0) / MS_PER_S)
    return _with_storage(pipeline, setting, summary, changes, facts)


def _with_board(pipeline: RecordedPipeline, setting: PipelineSetting, facts: ChangeFacts) -> PipelineSetting:
    board = facts.board
    if board is None:
        return setting
    changed = replace(setting, cores=float(board.cores), cache_bytes=board.cache_bytes, others=0.0)
    speed = _core_speed(pipeline, board)
    return changed if speed is None else replace(changed, cpu_speed=speed)


def _with_step(pipeline: RecordedPipeline, setting: PipelineSetting, facts: ChangeFacts) -> PipelineSetting:
    """Replace a step by what is published of it; the batch size of the setting is the one asked for already."""
    board, published, kind = facts.board, facts.published_step, pipeline.costs.step.kind
    if board is not None and board.step_s is not None:
        step_s = board.step_s / board.speed
        if kind is StepKind.PACED:
            return replace(setting, fixed_step_s=step_s, step_deviation=BOARD_STEP)
        if kind is StepKind.ACCELERATOR:
            as_recorded_s = mean_step_s(pipeline.costs, replace(setting, step_time=1.0))
            return replace(setting, step_time=step_s / as_recorded_s, step_deviation=BOARD_STEP)
        return replace(setting, step_deviation=BOARD_STEP)
    if board is None and published is not None and setting.fixed_step_s is not None:
        fixed_step_s = setting.fixed_step_s * published.factor
        return replace(setting, fixed_step_s=fixed_step_s, step_deviation=BOARD_STEP)
    return setting


def _core_speed(pipeline: RecordedPipeline, board: BoardFacts) -> float | None:
    """Return how fast a core of the board is, relative to the recorded run's; None where that is not known.

    A faster emulation makes it faster; the lab cannot make a core faster than this machine's for that.
    """
    speed = board.core_speed
    if board.image_s is not None:
        speed = float(pipeline.costs.fetch_cpu_s.mean()) / pipeline.costs.batch_size / board.image_s
    if speed is None or board.speed == 1.0:
        return speed
    return min(max(1.0, speed), speed * board.speed)


def change_assumptions(
    pipeline: RecordedPipeline, changes: Mapping[str, Scalar], facts: ChangeFacts
) -> tuple[str, ...]:
    """Return what is assumed where changes are applied to the recorded setting."""
    found = list(board_assumptions(pipeline, facts.board)) if facts.board is not None else []
    batch_size, recorded = int(changes.get("batch_size") or 0), pipeline.setting.batch_size
    paced = pipeline.costs.step.kind is StepKind.PACED and "compute_ms" not in changes
    if paced and facts.board is None and batch_size not in (0, recorded):
        step_s = pipeline.setting.fixed_step_s or mean_step_s(pipeline.costs, pipeline.setting)
        if facts.published_step is not None:
            found.append(
                f"step: {spell_seconds(step_s * facts.published_step.factor)} at a batch size of {batch_size}, by "
                f"published figures of {facts.published_step.board}"
            )
        else:
            found.append(
                f"step: paced, so it stays at {spell_seconds(step_s)} for a batch size of {batch_size}; compute_ms=… "
                "gives another duration"
            )
    if changes.get("ram") is not None:
        held_bytes = pipeline.memory.at(batch_size or recorded)
        found.append(f"ram: system and training hold {spell_bytes(held_bytes)} of it, at most the rest is page cache")
    return tuple(found)


def board_assumptions(pipeline: RecordedPipeline, board: BoardFacts) -> tuple[str, ...]:
    """Return what is assumed about a board that stands in for the recorded machine."""
    speed = _core_speed(pipeline, board)
    core = f"cores: the speed of those of {board.name} is not known, and that of the recording machine is used"
    if speed is not None:
        core = f"cores: one of {board.name} is {speed:.2f} times as fast as one of the recording machine"
    if pipeline.costs.step.kind is StepKind.CPU:
        step = f"step: computed by the CPU of {board.name}, as it was recorded"
    elif board.step_s is None:
        step = f"step: its time on {board.name} is not known, and the recorded one is used"
    else:
        step = f"step: {spell_seconds(board.step_s / board.speed)} on {board.name}, by published figures"
    return step, core


def in_mode(setting: PipelineSetting, mode: ModeEffect, most_cores: float | None = None) -> PipelineSetting:
    """Return the setting in another power mode; `most_cores` is what the run may use of the mode's cores."""
    cores = setting.cores if mode.cores is None else float(mode.cores)
    return replace(
        setting,
        step_time=setting.step_time * mode.step_time,
        cpu_speed=setting.cpu_speed * mode.cpu_speed,
        cores=cores if most_cores is None else min(cores, most_cores),
        step_deviation=mode.deviation,
        fixed_step_s=None if setting.fixed_step_s is None else setting.fixed_step_s * mode.step_time,
    )


def _with_cores(pipeline: RecordedPipeline, setting: PipelineSetting, cores: float) -> PipelineSetting:
    """Change the cores; a step that used all of them goes on doing so.

    Other programs are on all cores of the machine: more of these meet more of that load, at most all of it.
    """
    used_all = setting.threads >= int(setting.cores)
    threads = max(1, int(cores)) if used_all else min(setting.threads, max(1, int(cores)))
    machine = max(pipeline.machine_cores or setting.cores, setting.cores)
    others = setting.others * min(cores, machine) / setting.cores
    return replace(setting, cores=cores, threads=threads, others=others)


def _with_batch_size(setting: PipelineSetting, batch_size: int) -> PipelineSetting:
    if batch_size > setting.samples:
        raise UsageError(f"batch_size={batch_size} is more than the {setting.samples} samples of an epoch")
    return replace(setting, batch_size=batch_size)


def _with_dataset_scale(setting: PipelineSetting, summary: Summary, scale: float) -> PipelineSetting:
    """Make the dataset larger or smaller; the scale is that of `edgetrain run`, not relative to the recorded one."""
    factor = scale / (summary.workload.dataset_scale or 1.0)
    dataset = setting.dataset
    if dataset is not None:
        packed = dataset.packed
        dataset = DatasetOnMedium(
            dataset.total_bytes * factor,
            max(1, round(dataset.samples * factor)),
            dataset.files if packed else max(1, round(dataset.files * factor)),
        )
    capped = summary.workload.max_minibatches is not None
    samples = max(setting.batch_size, round(setting.samples * factor))
    if capped:  # an epoch takes as many minibatches as before, where the dataset has them
        samples = setting.samples if dataset is None else min(setting.samples, max(setting.batch_size, dataset.samples))
    return replace(setting, dataset=dataset, samples=samples)


def _with_storage(
    pipeline: RecordedPipeline,
    setting: PipelineSetting,
    summary: Summary,
    changes: Mapping[str, Scalar],
    facts: ChangeFacts,
) -> PipelineSetting:
    name = changes.get("storage") or (facts.board.storage if facts.board else None)
    if name is not None:
        if name not in facts.media:
            raise UsageError(f"storage={name} is not a known medium; known: {', '.join(facts.media)}")
        if setting.medium is None or setting.medium.name != name:  # by the same name it is the recorded one
            setting = replace(setting, medium=facts.media[str(name)])
    limited = "ram" in changes or "page_cache" in changes
    if (name is not None or limited or setting.cache == COLD) and setting.dataset is None:
        raise UsageError(
            "the run did not record the size of its dataset, so reads cannot be predicted; record it with "
            "--dataset FOLDER"
        )
    if (limited or setting.cache == COLD) and setting.medium is None:
        raise UsageError(
            "the run read nothing from its storage medium, so its speed is not known; add storage=ssd or another "
            f"of: {', '.join(facts.media)}"
        )
    setting = _with_cache(pipeline, setting, summary, changes)
    dataset = setting.dataset
    if "dataset_scale" in changes and dataset is not None and setting.medium is None and setting.cached_share() < 1.0:
        raise UsageError(
            f"dataset_scale={changes['dataset_scale']} makes a dataset of {spell_bytes(dataset.total_bytes)}, more "
            f"than the {spell_bytes(setting.cache_bytes or 0.0)} left for the page cache, and the run read nothing "
            f"from its storage medium; add storage=ssd or another of: {', '.join(facts.media)}"
        )
    return setting


def _with_cache(
    pipeline: RecordedPipeline, setting: PipelineSetting, summary: Summary, changes: Mapping[str, Scalar]
) -> PipelineSetting:
    if "page_cache" in changes:
        return replace(setting, cache_bytes=float(parse_bytes(str(changes["page_cache"]))))
    if "ram" not in changes:
        return setting
    ram_bytes = float(parse_bytes(str(changes["ram"])))
    held_bytes = pipeline.memory.at(setting.batch_size)
    if ram_bytes <= held_bytes:
        raise UsageError(
            f"ram={changes['ram']} ({spell_bytes(ram_bytes)}) is less than the {spell_bytes(held_bytes)} that system "
            "and training need"
        )
    left_bytes, present_bytes = ram_bytes - held_bytes, present_ram_bytes(summary)
    now_bytes = pipeline.setting.cache_bytes
    if now_bytes is not None and present_bytes is not None and "preset" not in changes:
        # What the recorded page cache was seen to hold is right for the present RAM: it is not all that system and
        # training leave, where a container or other programs take some. Less RAM leaves no more, more RAM adds to it.
        more_bytes = ram_bytes - present_bytes
        left_bytes = now_bytes + more_bytes if more_bytes >= 0 else min(now_bytes, left_bytes)
    return replace(setting, cache_bytes=left_bytes)
