"""The lab for a person in a terminal: limits in force, what is up, what was measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.record import LimitsRecord
from edgetrain.report.text import plain_table, spell_limits
from edgetrain.schema import (
    LabDown,
    LabMeasured,
    LabPreview,
    LabStatus,
    LabUp,
    LimitsGot,
    SessionFacts,
)
from edgetrain.units import spell, spell_bytes, spell_seconds


def limits_got_lines(got: LimitsGot) -> Iterator[str]:
    """Return each limit as it was applied, with its mechanism, one line each."""
    if got.storage is not None:
        floor = "" if got.storage.floor_s is None else f", mechanism {spell_seconds(got.storage.floor_s)} per picture"
        device = "" if got.storage.device is None else f", {got.storage.device}"
        yield f"storage: {got.storage.medium}{device}{floor}; by {got.storage.by}"
    if got.ram is not None:
        yield f"page cache: {spell_bytes(got.ram.page_cache_bytes)}; by {got.ram.by}"
    if got.cores is not None:
        which = ", ".join(map(str, got.cores.which))
        yield f"cores: {got.cores.cores} (number {which}); by {got.cores.by}"
    if got.cpu_share is not None:
        yield f"CPU share: {got.cpu_share.share:.3g} of a core; by {got.cpu_share.by}"


def lab_up_text(up: LabUp) -> RenderableType:
    """Return what is limited now, and the command line to run a program under it."""
    lines = list(limits_got_lines(up.got))
    lines += [f"doubt: {doubt}" for doubt in up.doubts]
    if up.dataset is not None:
        lines.append(f"the dataset is at {up.dataset}")
    words = [f"{name}={shlex.quote(value)}" for name, value in up.environment.items()]
    words += [shlex.quote(word) for word in up.prefix]
    lines += ["to run a program under these limits:", " ".join([*words, "edgetrain profile -- python train.py"])]
    lines.append("to end them: edgetrain lab down")
    return Text("\n".join(lines), overflow="ignore", no_wrap=True)


def lab_preview_text(preview: LabPreview) -> RenderableType:
    """Return what would be limited."""
    lines = [f"would limit this machine: {spell_limits(LimitsRecord(preview.would_hold))}"]
    lines += [f"missing for the slow disk: {reason}" for reason in preview.missing.values()]
    lines.append(f"control groups: version {preview.cgroups}" if preview.cgroups else "control groups: none here")
    return Text("\n".join(lines))


def lab_down_text(down: LabDown) -> RenderableType:
    """Return what was removed."""
    done, found = ("would remove", down.would_remove) if down.would_remove else ("removed", down.removed)
    names = ", ".join(session.session for session in found) or "nothing: no limits of the lab were set"
    return Text(f"{done} {names}")


def lab_status_text(status: LabStatus) -> RenderableType:
    """Return sessions, mechanisms and disk images."""
    lines = [_session_line(session) for session in status.sessions] or ["the lab is down"]
    mechanisms = status.mechanisms
    offered = {
        "memory": mechanisms.memory,
        "cpu": mechanisms.cpu,
        "cpuset": mechanisms.cpuset,
        "blkio": mechanisms.blkio,
    }
    usable = ", ".join(name for name, works in offered.items() if works) or "no usable controller"
    lines.append(f"storage: {mechanisms.storage}")
    lines.append(
        f"control groups: version {mechanisms.cgroups}, {usable}" if mechanisms.cgroups else "control groups: none"
    )
    lines.append(f"disk images kept: {status.images} ({spell_bytes(status.images_bytes)})")
    return Text("\n".join(lines))


def _session_line(session: SessionFacts) -> str:
    if session.leftover:
        kind = "left by a killed run"
    elif session.held:
        kind = "stays until `edgetrain lab down`"
    else:
        kind = f"run of process {session.owner}"
    got = list(limits_got_lines(session.got)) if session.got is not None else []
    limited = ", ".join(line.partition(":")[0] for line in got) or "nothing yet"
    return (
        f"{session.session}: {kind}; limits {limited}; {len(session.mounts)} mounts, {len(session.loops)} loop devices"
    )


def lab_measured_table(measured: LabMeasured) -> RenderableType:
    """Return what was requested and measured for every limit, then the mechanisms; or a measured storage medium."""
    if measured.media:
        table = plain_table("medium", "per read", "transfer", "reads at once", "gain with 4 waiting")
        for medium in measured.media:
            rate, gain = spell(medium.bytes_per_s / 1e6, "MB/s"), dict(medium.gain).get(4)
            table.add_row(medium.name, spell_seconds(medium.read_s), rate, str(medium.at_once), spell(gain))
        return table
    table = plain_table("limit", "what", "requested", "measured", "deviation", f"within {measured.tolerance:.0%}")
    for proof in measured.limits:
        verdict = {True: "yes", False: "NO", None: "not judged"}[proof.holds]
        off = "–" if proof.off is None else f"{proof.off:+.1%}"
        asked, got = spell(proof.asked, proof.unit), spell(proof.got, proof.unit)
        table.add_row(proof.limit, proof.what, asked, got, off, verdict)
    lines = []
    for by in dict.fromkeys(proof.by for proof in measured.limits):
        names = ", ".join(dict.fromkeys(proof.limit for proof in measured.limits if proof.by == by))
        lines.append(f"{names}: by {by}")
    return Group(table, Text("\n".join(lines)))
