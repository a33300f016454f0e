"""The lab for programs: apply limits until they are taken down, show them, measure them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgetrain import lab
from edgetrain.errors import UsageError
from edgetrain.lab import MachineLimits
from edgetrain.schema import (
    DEFAULT_BATCH_SIZE,
    LabDown,
    LabMeasured,
    LabPreview,
    LabStatus,
    LabUp,
    Limits,
    Origin,
    Scalar,
    StorageModel,
    build_experiment,
    settings_of,
)

MAX_WORKERS = 8  # loader workers that `lab_up` makes groups for
Say = Callable[[str], None]


def _quiet(text: str) -> None:
    return None


def lab_limits(
    network: str | None = None, media: str | None = None, has_dataset: bool = True, **settings: Scalar
) -> MachineLimits:
    """Return the limits asked for, completed from a board's preset; UsageError where there are none.

    `settings` are the lab limits of `edgetrain run`, by the same names: storage, page_cache, ram, cores, cpu_share,
    preset and shrink. `network` is what will be trained: its memory is not page cache.
    """
    known = {declared.name for declared in settings_of(Limits)} | {"preset", "shrink"}
    if wrong := set(settings) - known:
        raise UsageError(f"there is no limit {min(wrong)!r}; known: {', '.join(sorted(known))}")
    experiment = build_experiment({"network": network or "any", **settings})
    asked = experiment.limits
    if experiment.preset is not None:
        board = lab.preset(experiment.preset)
        page_cache = asked.page_cache
        if asked.ram is None and page_cache is None:
            page_cache = str(int(board.cache_bytes / experiment.shrink))
        asked = replace(
            asked,
            storage=asked.storage or (board.storage if has_dataset else None),
            page_cache=page_cache,
            cores=board.cores if asked.cores is None else asked.cores,
        )
    taken_bytes = lab.training_bytes(network or "", DEFAULT_BATCH_SIZE) if asked.ram else 0
    limits = lab.resolve_limits(asked, taken_bytes, media)
    if not limits:
        raise UsageError("nothing to limit: give --storage, --page-cache, --ram, --cores, --cpu-share or --preset")
    return limits


def lab_preview(limits: MachineLimits) -> LabPreview:
    """Return what `lab_up` would limit here, and what it lacks."""
    found = lab.find_mechanisms()
    return LabPreview(limits.asked(), found.lacks, found.hierarchies.version)


def lab_up(limits: MachineLimits, dataset: Path | None = None, say: Say = _quiet) -> LabUp:
    """Apply limits until `lab_down`; return how to start a program under them."""
    if limits.storage is not None and dataset is None:
        raise UsageError("a storage medium needs a dataset on it: give --dataset FOLDER")
    if dataset is not None and not dataset.is_dir():
        raise UsageError(f"{dataset} is not a folder; --dataset names the folder to put on the medium")
    held = limits.applied(workers=MAX_WORKERS, say=say, held=True, user_program=True)
    held.__enter__()
    try:
        place = None if dataset is None else held.dataset_path(dataset)
    except BaseException:
        lab.take_down(held.session)
        raise
    return LabUp(
        session=held.session.id,
        origin=Origin.EMULATED,
        asked=limits.asked(),
        got=held.got,
        doubts=tuple(held.doubts),
        dataset=None if place is None else str(place),
        prefix=tuple(held.command_prefix()),
        environment=held.environment(),
    )


def lab_down(images: bool = False, dry_run: bool = False) -> LabDown:
    """Remove everything the lab set up here, also what a killed run left; disk images too where asked."""
    sessions = lab.find_sessions()
    found = tuple(session.facts() for session in sessions)
    groups = tuple(str(path) for path in lab.find_groups())
    if dry_run:
        return LabDown((), found, groups, ())
    stayed = [reason for session in sessions for reason in lab.take_down(session)]
    stayed += lab.remove_groups()
    if images:
        lab.forget_images(every=True)
    return LabDown(found, (), groups, tuple(stayed))


def lab_status() -> LabStatus:
    """Return what the lab limits right now, what killed runs left, and which mechanisms this machine has."""
    kept = lab.kept_images()
    return LabStatus(
        sessions=tuple(session.facts() for session in lab.find_sessions()),
        mechanisms=lab.find_mechanisms().facts(),
        images=len(kept),
        images_bytes=sum(image.stat().st_size for image in kept),
    )


def lab_measure(
    storage: Sequence[str] = ("sd", "hdd", "ssd"), media: str | None = None, at: str | None = None, say: Say = _quiet
) -> LabMeasured:
    """Measure every limit that this machine can apply, asked against got; takes half a minute."""
    return LabMeasured(Origin.MEASURED, lab.TOLERANCE, tuple(lab.measure_limits(storage, media, say, at)))


def lab_measure_medium(name: str, at: Path | str, output: Path | str | None = None, say: Say = _quiet) -> LabMeasured:
    """Measure the storage medium that a folder lies on; `output` is a file of media for `whatif` and the lab."""
    found = lab.measure_medium(name, at, say)
    if output is not None:
        lab.add_medium(found, Path(output))
    medium = StorageModel(found.name, found.read_s, found.bytes_per_s, found.at_once, found.gain, found.source)
    return LabMeasured(Origin.MEASURED, lab.TOLERANCE, (), (medium,))
