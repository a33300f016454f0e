"""Turns a tegrastats log file of any era into a run: telemetry without minibatches.

Stamps are whole seconds of the board's wall clock, and older releases print none: then a line is one interval after
the line before it. Lines that are cut off, garbled or not tegrastats' are reported and lose their own readings only.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from edgetrain.importers.base import Draft, Problems, clean, read_text
from edgetrain.record import DeviceFacts, LoadingFacts, Manifest, WorkloadFacts
from edgetrain.schema import PowerSource, TegrastatsLine, parse_tegrastats, total_rails
from edgetrain.units import US_PER_S

DEFAULT_INTERVAL_S = 1.0  # what tegrastats does when nobody says otherwise
MAX_GAP_S = 3600.0  # a step of the wall clock beyond this is a clock being set, not a pause
SNIFF_BYTES = 65_536
MAX_UNKNOWN = 20  # distinct unknown tokens named in the manifest


def is_log(path: Path) -> bool:
    """Return whether a file begins like a tegrastats log: one line in the first 64 KiB with memory, cores or rails."""
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF_BYTES)
    except OSError:
        return False
    for text in clean(head, Problems(), path.name).splitlines()[:200]:
        line = parse_tegrastats(text[:4096])
        kinds = (bool(line.memory), bool(line.cores), bool(line.rails_w), bool(line.gpu or line.emc))
        if sum(kinds) >= 2:
            return True
    return False


def read_log(path: Path, interval_s: float | None = None) -> Draft:
    """Read a log file; `interval_s` says how far apart its lines are where they carry no stamp."""
    problems = Problems()
    name = path.name
    text = read_text(path, problems)
    texts = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    lines = [(number, raw, parse_tegrastats(raw)) for number, raw in texts]
    known = [(number, raw, line) for number, raw, line in lines if line.recognised]
    for number, raw, line in lines:
        if not line.recognised:
            problems.add(name, "a line that is not tegrastats'", f"line {number}: {raw[:40]!r}")
    draft = Draft(str(path), problems)
    usual = _usual_columns([line for _, _, line in known])
    whole: list[TegrastatsLine] = []
    for number, raw, line in known:
        kept = line
        if usual - _columns(line):
            # Cut off, or garbled: its last token may be half a number, so it is not believed.
            kept = parse_tegrastats(raw.rsplit(None, 1)[0])
            problems.add(name, "a line that lacks readings which the others have", f"line {number}")
        for problem in line.problems:
            problems.add(name, problem.partition(":")[0], f"line {number}: {problem}")
        whole.append(kept)
    for at_us, line in zip(_instants_us(whole, interval_s, problems, name), whole, strict=True):
        for stream, readings in line.streams().items():
            draft.stream(stream).add(at_us, readings)
    draft.manifest = _manifest(whole, usual, problems)
    unknown = Counter(token for _, _, line in known for token in line.unknown)
    draft.unknown_tokens = tuple(token for token, _ in unknown.most_common(MAX_UNKNOWN))
    draft.lines = len(texts)
    return draft


def _columns(line: TegrastatsLine) -> set[str]:
    return {f"{stream}.{column}" for stream, columns in line.streams().items() for column in columns}


def _usual_columns(lines: Sequence[TegrastatsLine]) -> set[str]:
    """Return the readings that more than half of the lines have."""
    counts = Counter(column for line in lines for column in _columns(line))
    return {column for column, count in counts.items() if 2 * count > len(lines)}


def _instants_us(lines: Sequence[TegrastatsLine], interval_s: float | None, problems: Problems, name: str) -> list[int]:
    """Place the lines on a clock that begins with the first of them and never runs back."""
    stamps = [line.stamp.timestamp() if line.stamp is not None else None for line in lines]
    if not any(stamp is not None for stamp in stamps):
        period = interval_s or DEFAULT_INTERVAL_S
        if interval_s is None and len(lines) > 1:
            problems.add(name, f"has no time stamps: its lines are taken to be {period:g} s apart (--interval-s)")
        return [round(place * period * US_PER_S) for place in range(len(lines))]
    # Lines within one second share a stamp; they are spread evenly over it.
    shared = Counter(stamp for stamp in stamps if stamp is not None)
    steps = [b - a for a, b in zip(sorted(shared), sorted(shared)[1:], strict=False) if b - a <= MAX_GAP_S]
    per_stamp = statistics.median(shared.values())
    period = interval_s or ((statistics.median(steps) if steps else 1.0) / max(per_stamp, 1.0))
    at_s = 0.0
    last: float | None = None
    within = 0
    base_s = 0.0
    instants = []
    for stamp in stamps:
        if stamp is None:
            problems.add(
                name, "a line without a time stamp among lines with one; placed one interval after the line before it"
            )
            at_s += period
        elif last is None:
            last, base_s, within = stamp, at_s, 0
        elif stamp == last:
            within += 1
            at_s = max(at_s, base_s + min(within / max(shared[stamp], 1), 0.999))
        else:
            step = stamp - last
            if not 0 < step <= MAX_GAP_S:
                problems.add(name, "the wall clock was set while logging; one interval is taken", f"{step:+.0f} s")
                step = period
            at_s = max(base_s + step, at_s)
            last, base_s, within = stamp, at_s, 0
        instants.append(round(at_s * US_PER_S))
    return instants


def _manifest(lines: Sequence[TegrastatsLine], usual: set[str], problems: Problems) -> Manifest:
    rails = {column[6:-2] for column in usual if column.startswith("rails.")}
    total = total_rails(rails)
    totals = [line.memory["ram_total_bytes"] for line in lines if "ram_total_bytes" in line.memory]
    cores = [len(line.cores) for line in lines if line.cores]
    ram_bytes = int(statistics.median(totals)) if totals else None
    first = next((line.stamp for line in lines if line.stamp is not None), None)
    source = PowerSource(
        "rails", tuple(f"{rail}_w" for rail in total), scope="board" if total == ("POM_5V_IN",) else "module"
    )
    return Manifest(
        state="finished",
        started_wall=first.isoformat() if first else None,
        workload=WorkloadFacts("tegrastats"),
        loading=LoadingFacts(),
        device=DeviceFacts(
            name=_board(rails, usual, ram_bytes, max(cores, default=0)) or "unknown",
            kind="jetson",
            cores=statistics.mode(cores) if cores else None,
            ram_bytes=ram_bytes,
            extra={"name_from": "guessed from rails, sensors and cores: the log does not name its board"},
        ),
        power=source if total else None,
        power_reason=None if total else "the log has no rail that is the board's input",
    )


def _board(rails: set[str], usual: set[str], ram_bytes: int | None, cores: int) -> str | None:
    """Guess the board; None where two would fit."""
    if "POM_5V_IN" in rails:
        return "nano"
    if "VDD_SYS_GPU" in rails:
        return "tx2"
    if "VDDRQ" in rails:
        return "xavier-agx"
    if "VDD_CPU_SOC_MSS" in rails:
        return "thor"
    if "VDD_GPU_SOC" in rails:
        return "orin-agx-64gb" if (ram_bytes or 0) > 40 * 2**30 else "orin-agx"
    if "VDD_CPU_GPU_CV" in rails:
        if "thermal.ao_temp_c" in usual or "thermal.aux_temp_c" in usual:
            return "xavier-nx"
        if "thermal.soc0_temp_c" in usual:
            return "orin-nx" if cores == 8 else "orin-nano"
    return None
