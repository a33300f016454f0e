"""What a recorded training would take under other settings, predicted."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetrain.analysis import Summary
from edgetrain.api.mode_effects import ModeEffects
from edgetrain.api.profiled import ProfiledSource
from edgetrain.api.records import RunLike, StoreLike, open_run
from edgetrain.api.records import summarize as sum_up
from edgetrain.api.repeats import began_alike, find_repeats
from edgetrain.errors import UsageError
from edgetrain.lab import media as lab_media
from edgetrain.lab import preset as lab_preset
from edgetrain.lab import share_for as lab_core_speed
from edgetrain.lab import step as lab_step
from edgetrain.prediction import (
    BoardFacts,
    ChangeFacts,
    PipelinePredictor,
    WhatIfAnswer,
    WhatIfModel,
    later_mean_s,
    read_changes,
)
from edgetrain.record import Run
from edgetrain.schema import DEFAULT_BATCH_SIZE, Scalar, StorageModel
from edgetrain.workload import CATALOG

PHOTOGRAPH = (800, 600)  # pixels, of the pictures that the table of presets gives a time for
MAX_SWEPT = 64  # settings of one sweep


def whatif(
    run: RunLike = "last",
    changes: Mapping[str, Scalar] | None = None,
    *,
    sweep: tuple[str, Sequence[Scalar]] | None = None,
    repeats: Sequence[RunLike] | None = None,
    media: Path | str | None = None,
    profiled: ProfiledSource | None = None,
    store: StoreLike = None,
) -> WhatIfAnswer:
    """Predict a recorded training under changed settings: workers, storage, ram, batch_size, ...

    `changes` are settings of `edgetrain run` by name. `sweep` names one setting and the values it takes in turn, each
    beside the changes. `repeats` are other runs of the same setting, whose spread goes into the intervals; by default
    those that the store holds. `media` is a file of storage media of your own, `profiled` measured power modes of this
    network, for `power_mode`.
    """
    model = open_model(run, repeats, store)
    given = read_changes(dict(changes or {}))
    known, modes = storage_media(media), ModeEffects(model.summary, profiled, store)
    if sweep is None:
        if not given:
            raise UsageError("nothing to change; give for example --set workers=2, or --sweep workers=0..8")
        rows = [model.row(given, change_facts(model.summary, given, known, modes))]
        return model.answer(rows)
    name, values = sweep
    if not values or len(values) > MAX_SWEPT:
        raise UsageError(f"a sweep takes 1 to {MAX_SWEPT} values, not {len(values)}")
    rows = []
    for value in values:
        each = read_changes({**given, name: value})
        rows.append(model.row(each, change_facts(model.summary, each, known, modes)))
    return model.answer(rows, name)


def open_model(run: RunLike, repeats: Sequence[RunLike] | None = None, store: StoreLike = None) -> WhatIfModel:
    """Return the model of one recorded run; without `repeats`, those that the store holds are used."""
    opened = open_recorded(run, store)
    return model_of(opened, sum_up(opened), repeats, store)


def model_of(
    run: Run, summary: Summary, repeats: Sequence[RunLike] | None = None, store: StoreLike = None
) -> WhatIfModel:
    """Return the model of a run that is summed up already."""
    given = None if repeats is None else [open_recorded(each, store) for each in repeats]
    others = find_repeats(run, store) if given is None else given
    summaries = [each for each in map(sum_up, others) if began_alike(each, summary)]
    seconds = [mean for each in summaries if (mean := later_mean_s(each.epochs)) is not None]
    return WhatIfModel(PipelinePredictor(run, summary, seconds), summary)


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


def change_facts(
    summary: Summary,
    changes: Mapping[str, Scalar],
    media: Mapping[str, StorageModel],
    modes: ModeEffects | None = None,
) -> ChangeFacts:
    """Return what changes need from outside the record; `modes` are kept between questions about one run."""
    board = mode = None
    if changes.get("preset") is not None:
        board = _board(str(changes["preset"]), summary, changes)
    if changes.get("power_mode") is not None:
        mode = (modes or ModeEffects(summary)).of(str(changes["power_mode"]))
    return ChangeFacts(media, board, mode)


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
    )


def _trained_on_photographs(summary: Summary) -> bool:
    """Return whether the samples were photographs as those that a board's cores were measured with."""
    about = summary.workload
    known = CATALOG.get(about.network or "")
    if known is None or known.picture != PHOTOGRAPH or not (known.file_bytes and about.dataset_bytes):
        return False
    size = about.dataset_bytes / max(1, about.dataset_files or 1)
    return 0.5 < size / known.file_bytes < 2.0
