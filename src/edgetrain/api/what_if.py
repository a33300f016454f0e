"""What a recorded training would take under other settings, predicted."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetrain.analysis import Summary
from edgetrain.api.mode_effects import ModeEffects
from edgetrain.api.profiled import ProfiledSource
from edgetrain.api.records import RunLike, StoreLike, open_run
from edgetrain.api.records import summarize as sum_up
from edgetrain.api.repeats import began_alike, check_repeats, find_repeats, why_not_alike
from edgetrain.errors import UsageError
from edgetrain.lab import media as lab_media
from edgetrain.lab import preset as lab_preset
from edgetrain.lab import share_for as lab_core_speed
from edgetrain.lab import step as lab_step
from edgetrain.lab import training_bytes as lab_training_bytes
from edgetrain.prediction import (
    BoardFacts,
    ChangeFacts,
    PipelinePredictor,
    PublishedStep,
    TrainingMemory,
    WhatIfAnswer,
    WhatIfModel,
    WhatIfRow,
    later_mean_s,
    read_changes,
)
from edgetrain.record import Run
from edgetrain.schema import DEFAULT_BATCH_SIZE, Experiment, Scalar, StorageModel
from edgetrain.units import MS_PER_S
from edgetrain.workload import CATALOG

PHOTOGRAPH = (800, 600)  # pixels, of the pictures that the table of presets gives a time for
MAX_SWEPT = 64  # settings of one sweep
SAME_STEP = 1e-6  # relative: a paced step is the table's, or one of the user's own


def whatif(
    run: RunLike = "last",
    changes: Mapping[str, Scalar] | None = None,
    *,
    sweep: Mapping[str, Sequence[Scalar]] | tuple[str, Sequence[Scalar]] | None = None,
    repeats: Sequence[RunLike] | None = None,
    media: Path | str | None = None,
    profiled: ProfiledSource | None = None,
    store: StoreLike = None,
) -> WhatIfAnswer:
    """Predict a recorded training under changed settings: workers, storage, ram, batch_size, ...

    `changes` are settings of `edgetrain run` by name. `sweep` names one setting and the values it takes in turn, each
    beside the changes: {"workers": [0, 1, 2]}. `repeats` are other runs of the same setting, whose spread goes into the
    intervals; by default those that the store holds. `media` is a file of storage media of your own, `profiled`
    measured power modes of this network, for `power_mode`.
    """
    model = open_model(run, repeats, store)
    given = read_changes(dict(changes or {}))
    swept = None if sweep is None else _sweep_of(sweep)
    if profiled is not None and "power_mode" not in given and (swept is None or swept[0] != "power_mode"):
        raise UsageError("profiled modes are about power_mode, which is not changed; give power_mode=… too")
    known, modes = storage_media(media), ModeEffects(model.summary, profiled, store)
    if swept is None:
        if not given:
            raise UsageError("nothing to change; give for example --set workers=2, or --sweep workers=0..8")
        return model.answer([_row(model, given, known, modes)])
    name, values = swept
    if name in given:
        raise UsageError(f"{name} is given twice, as {name}={given[name]} and as a sweep; give one of them")
    if not values or len(values) > MAX_SWEPT:
        raise UsageError(f"a sweep takes 1 to {MAX_SWEPT} values, not {len(values)}")
    return model.answer([_row(model, read_changes({**given, name: value}), known, modes) for value in values], name)


def _sweep_of(sweep: object) -> tuple[str, Sequence[Scalar]]:
    """Return the setting that is swept and its values; UsageError for what names no setting with a list of values."""
    pair = tuple(sweep.items()) if isinstance(sweep, Mapping) else (sweep,)
    if len(pair) == 1 and isinstance(pair[0], Sequence) and len(pair[0]) == 2:
        name, values = pair[0]
        if isinstance(name, str) and isinstance(values, (Sequence, range)) and not isinstance(values, str):
            return name, values
    raise UsageError(
        f'cannot read {sweep!r} as a sweep; give one setting and its values: sweep={{"workers": [0, 1, 2]}}'
    )


def _row(
    model: WhatIfModel, changes: Mapping[str, Scalar], media: Mapping[str, StorageModel], modes: ModeEffects
) -> WhatIfRow:
    return model.row(changes, change_facts(model.summary, changes, media, modes, model.predictor.base.experiment))


def open_model(run: RunLike, repeats: Sequence[RunLike] | None = None, store: StoreLike = None) -> WhatIfModel:
    """Return the model of one recorded run; without `repeats`, those that the store holds are used."""
    opened = open_recorded(run, store)
    return model_of(opened, sum_up(opened), repeats, store)


def model_of(
    run: Run, summary: Summary, repeats: Sequence[RunLike] | None = None, store: StoreLike = None
) -> WhatIfModel:
    """Return the model of a run that is summed up already; `repeats` are checked to be some."""
    others = find_repeats(run, store) if repeats is None else [open_recorded(each, store) for each in repeats]
    if repeats is not None:
        check_repeats(run, others)
    summaries = [each for each in map(sum_up, others) if began_alike(each, summary)]
    seconds = [mean for each in summaries if (mean := later_mean_s(each.epochs)) is not None]
    notes = []
    if len(seconds) < len(others):
        notes.append(
            f"{len(seconds)} of {len(others)} other runs of this setting are used for the intervals: "
            f"{why_not_alike(summary)}"
        )
    return WhatIfModel(PipelinePredictor(run, summary, seconds, training_memory(summary), notes), summary)


def training_memory(summary: Summary) -> TrainingMemory:
    """Return what system and training hold of the RAM, as `edgetrain run --ram` counts it."""
    network = summary.workload.network or ""
    fixed_bytes = lab_training_bytes(network, 0)
    return TrainingMemory(float(fixed_bytes), float(lab_training_bytes(network, 1) - fixed_bytes))


def open_recorded(run: RunLike, store: StoreLike = None) -> Run:
    """Return a run with everything it recorded; a summary names its run."""
    if isinstance(run, Run):
        return run
    return open_run(run.run if isinstance(run, Summary) else run, store)


def storage_media(own: Path | str | None = None) -> dict[str, StorageModel]:
    """Return the storage media of the lab's table, and those of a file of your own."""
    return {
        name: StorageModel(name, each.read_s, each.bytes_per_s, each.at_once, tuple(each.gain), each.source)
        for name, each in lab_media(own).items()
    }


def emulated_media(summary: Summary, media: Mapping[str, StorageModel]) -> dict[str, StorageModel]:
    """Return media as fast as the lab would make them in a run: it may speed its emulation up."""
    speed = _emulated_speed(summary)
    return {name: each.faster(speed) for name, each in media.items()}


def _emulated_speed(summary: Summary) -> float:
    return (summary.limits.asked.speed or 1.0) if summary.limits is not None else 1.0


def change_facts(
    summary: Summary,
    changes: Mapping[str, Scalar],
    media: Mapping[str, StorageModel],
    modes: ModeEffects | None = None,
    experiment: Experiment | None = None,
) -> ChangeFacts:
    """Return what changes need from outside the record; `modes` are kept between questions about one run.

    `experiment` is the recorded one: a step that it paced by a board's figures follows the batch size as those do.
    """
    board = mode = None
    if changes.get("preset") is not None:
        board = _board(str(changes["preset"]), summary, changes)
    if changes.get("power_mode") is not None:
        mode = (modes or ModeEffects(summary)).of(str(changes["power_mode"]))
    return ChangeFacts(emulated_media(summary, media), board, mode, _published_step(experiment, changes))


def _published_step(experiment: Experiment | None, changes: Mapping[str, Scalar]) -> PublishedStep | None:
    """Return how a paced step follows the batch size, where its duration is a board's figure and not the user's own."""
    if experiment is None or experiment.preset is None or experiment.compute_ms is None:
        return None
    asked_size = int(changes.get("batch_size") or 0)
    if not asked_size:
        return None
    network, batch_size = experiment.workload.network, experiment.workload.batch_size or DEFAULT_BATCH_SIZE
    try:
        recorded = lab_step(experiment.preset, network, batch_size)
        asked = lab_step(experiment.preset, network, asked_size)
    except UsageError:
        return None
    paced_ms = recorded.seconds * MS_PER_S / (experiment.limits.speed or 1.0)
    if not math.isclose(paced_ms, experiment.compute_ms, rel_tol=SAME_STEP):
        return None
    return PublishedStep(experiment.preset, asked.seconds / recorded.seconds)


def _board(name: str, summary: Summary, changes: Mapping[str, Scalar]) -> BoardFacts:
    known = lab_preset(name)
    batch_size = int(changes.get("batch_size") or summary.workload.batch_size or DEFAULT_BATCH_SIZE)
    try:
        step_s: float | None = lab_step(known.name, summary.workload.network or "", batch_size).seconds
    except UsageError:
        step_s = None
    core_speed = None
    trained_on_photographs = known.image_s is not None and _trained_on_photographs(summary)
    if known.image_s is not None and not trained_on_photographs and summary.device.host == platform.node():
        core_speed = lab_core_speed(known.image_s)
    return BoardFacts(
        known.name,
        known.cores,
        float(known.cache_bytes),
        known.storage,
        core_speed,
        known.image_s if trained_on_photographs else None,
        step_s,
        _emulated_speed(summary),
    )


def _trained_on_photographs(summary: Summary) -> bool:
    """Return whether the samples were photographs as those that a board's cores were measured with."""
    about = summary.workload
    known = CATALOG.get(about.network or "")
    if known is None or known.picture != PHOTOGRAPH or not (known.file_bytes and about.dataset_bytes):
        return False
    size = about.dataset_bytes / max(1, about.dataset_files or 1)
    return 0.5 < size / known.file_bytes < 2.0
