"""Where the numbers of a run come from: machine, software, settings as asked and as found, command, clocks."""

from __future__ import annotations

from collections.abc import Sequence

from edgetrain.analysis import Summary
from edgetrain.record import Manifest, Run
from edgetrain.report.text import spell_limits, spell_workers
from edgetrain.units import spell_bytes, spell_seconds

Facts = list[tuple[str, str]]


def machine_facts(summary: Summary) -> Facts:
    """Return what the machine is."""
    device = summary.device
    return _known(
        ("device", device.model or device.name),
        ("module", device.module),
        ("GPU", device.gpu),
        ("cores", device.cores),
        ("memory", spell_bytes(device.ram_bytes) if device.ram_bytes else None),
        ("serial", device.serial),
        ("L4T", device.l4t),
        ("JetPack", device.jetpack),
        ("kernel", device.kernel),
        ("torch", device.torch),
        ("CUDA", device.cuda),
        ("Python", device.python),
        ("CPU governor", device.governor),
    )


def provenance(run: Run, summary: Summary) -> Facts:
    """Return everything that is needed to judge, or to repeat, a run."""
    manifest = run.manifest
    return [
        *_known(("run", summary.run), ("origin", summary.origin), ("state", _state(manifest))),
        *_known(("started", manifest.started_wall), ("command", " ".join(manifest.command) or None)),
        *_known(("edgetrain", manifest.version), ("campaign", summary.campaign), ("seed", manifest.seed)),
        *machine_facts(summary),
        *_settings(manifest, summary),
        *_measuring(run, summary),
    ]


def _known(*facts: tuple[str, str | int | float | None]) -> Facts:
    return [(name, str(value)) for name, value in facts if value is not None and value != ""]


def _state(manifest: Manifest) -> str:
    return f"{manifest.state}: {manifest.reason}" if manifest.reason else manifest.state


def _settings(manifest: Manifest, summary: Summary) -> Facts:
    workload, loading, mode = manifest.workload, manifest.loading, manifest.power_mode
    found = _known(
        ("network", workload.network),
        ("parameters", f"{summary.parameters:,}" if summary.parameters else None),
        ("batch size", workload.batch_size),
        ("dataset", workload.dataset),
        ("dataset size", _dataset(workload.dataset_files, workload.dataset_bytes)),
        ("storage medium", _medium(workload.medium, workload.filesystem, workload.storage_device)),
        ("loader", _loader(summary)),
        ("timing", summary.timing),
    )
    if loading and loading.cache:
        found.append(("page cache at the start", loading.cache))
    if manifest.limits:
        found.append(("lab limits asked", spell_limits(manifest.limits)))
    if mode:
        asked, held = mode.asked, mode.held
        found += _known(("power mode asked", str(asked) if asked else None), ("power mode read back", str(held)))
    return found


def _dataset(files: int | None, size: int | None) -> str | None:
    if files is None and size is None:
        return None
    return ", ".join(part for part in (f"{files:,} files" if files else "", spell_bytes(size) if size else "") if part)


def _medium(medium: str | None, filesystem: str | None, device: str | None) -> str | None:
    return ", ".join(part for part in (medium, filesystem, device) if part) or None


def _loader(summary: Summary) -> str | None:
    loading = summary.loading
    if loading is None:
        return None
    words = [spell_workers(loading.workers)]
    words += [f"prefetch {loading.prefetch}"] if loading.prefetch is not None else []
    words += ["pinned memory"] if loading.pin_memory else []
    words += ["persistent workers"] if loading.persistent else []
    words += [f"started by {loading.start_method}"] if loading.start_method else []
    return ", ".join(word for word in words if word) or None


def _measuring(run: Run, summary: Summary) -> Facts:
    power, own, sampler = run.manifest.power, summary.overhead, run.sampler
    found = _known(
        ("energy from", {"counter": "the device's energy counter", "trapezoids": "power readings"}.get(
            summary.energy_method or "", summary.energy_method)),
        ("power sensor refresh", spell_seconds(power.refresh_s) if power and power.refresh_s else None),
        ("baseload", f"{summary.baseload_w:.3g} W, measured before the run" if summary.baseload_w else None),
        ("steady minibatches", f"{summary.steady.first} to {summary.steady.last} ({summary.steady.rule})"),
        ("overhead of edgetrain", None if summary.overhead_pct is None else f"{summary.overhead_pct:.2g} % of the run"),
        ("sampler", f"{100 * own.sampler_cpu_share:.2g} % of one core" if own.sampler_cpu_share is not None else None),
        ("sampler lateness, p99", spell_seconds(sampler.late_p99_s) if sampler and sampler.late_p99_s else None),
    )  # fmt: skip
    clock = run.manifest.clock
    if clock and clock.start.within_us is not None:
        found.append(("clock alignment within", spell_seconds(clock.start.within_us * 1e-6)))
    return found


def all_doubts(summary: Summary, lost: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return every reason not to trust a run: kind and text."""
    imported = summary.imported.problems if summary.imported else ()
    known = [(doubt.kind.replace("_", " "), doubt.text) for doubt in summary.doubts]
    told = " ".join(text for _, text in known)
    return [
        *known,
        *(("in the log", problem) for problem in imported),
        *(("could not be read", text) for text in lost if text not in told),
    ]
