"""Collects the reasons not to trust a run; they stand beside the numbers and never remove them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgetrain.analysis.samples import mean_of
from edgetrain.schema import Run
from edgetrain.units import spell_seconds

MOST_STEAL = 0.05  # of the CPU time of a virtual machine; above this a wait cannot be told from being stopped
MOST_OTHER_LOAD = 0.15  # of all cores, taken by processes that are not ours
MOST_LATE_S = 0.1  # the sampler's 99th percentile of lateness, one period of the fast probes


def collect(run: Run, further: Iterable[Mapping[str, str]] = ()) -> list[dict[str, str]]:
    """Return every doubt about a run once, those of the recorder first."""
    manifest = run.manifest
    found: list[dict[str, str]] = [dict(doubt) for doubt in manifest.get("doubts") or ()]
    state = manifest.get("state")
    if state == "running":
        found.append(_doubt("unfinished", "the run never said that it ended: it was killed, or still goes on"))
    elif state in ("failed", "interrupted"):
        found.append(_doubt(str(state), str(manifest.get("reason") or f"the run was {state}")))
    found += [_doubt("lost", text) for text in run.lost]
    inside = manifest.get("inside") or {}
    found += _missing_rows(run, inside)
    found += [_doubt("inside", str(problem)) for problem in inside.get("problems") or ()]
    for event in _events(run, "doubt"):
        found.append(_doubt(str(event.get("doubt") or event.get("cause") or "doubt"), str(event.get("text"))))
    told = {doubt["kind"] for doubt in found}
    if "bad_files" not in told:
        found += _counted(run, "bad_file", "one file could not be decoded", "{} files could not be decoded")
    found += _counted(run, "worker_died", "one loader worker died", "{} loader workers died")
    found += _counted(run, "throttle", "the device throttled once", "the device throttled {} times")
    found += _counted(run, "over_current", "one over-current alarm", "{} over-current alarms")
    found += [doubt for doubt in _from_sampler(manifest.get("sampler") or {}) if doubt["kind"] not in told]
    found += _from_cpu(run)
    found += [dict(doubt) for doubt in further]
    unique: dict[tuple[str, str], dict[str, str]] = {}
    for doubt in found:
        unique.setdefault((doubt["kind"], doubt["text"]), doubt)
    return list(unique.values())


def _doubt(kind: str, text: str) -> dict[str, str]:
    return {"kind": kind, "text": text}


def _missing_rows(run: Run, inside: Mapping[str, Any]) -> list[dict[str, str]]:
    """Compare the rows read back with how many the loop counted: a tail cut between two frames leaves no trace."""
    counted = (inside.get("main_thread_cost") or {}).get("minibatches")
    read = len(run.minibatches["asked_us"]) if run.minibatches else 0
    if counted is None or read >= counted:
        return []
    return [_doubt("lost", f"{counted - read} of {counted} minibatches that the loop counted are not in the record")]


def _events(run: Run, kind: str) -> list[Mapping[str, Any]]:
    return [event for event in run.events if event.get("kind") == kind]


def _counted(run: Run, kind: str, once: str, often: str) -> list[dict[str, str]]:
    events = _events(run, kind)
    if not events:
        return []
    what = once if len(events) == 1 else often.format(len(events))
    return [_doubt(kind, f"{what}: {_named(events)}")]


def _named(events: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(str(event.get("text")) for event in events[:3]) + (" …" if len(events) > 3 else "")


def _from_sampler(sampler: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    late_s = sampler.get("late_p99_s")
    if late_s is not None and late_s > MOST_LATE_S:
        found.append(
            _doubt("sampler_fell_behind", f"one sample in a hundred came more than {spell_seconds(late_s)} late")
        )
    failed = {column: count for column, count in (sampler.get("reads_failed") or {}).items() if count}
    if failed:
        often = {column: "once" if count == 1 else f"{count} times" for column, count in failed.items()}
        worst = ", ".join(f"{column} {times}" for column, times in list(often.items())[:4])
        found.append(_doubt("sensor", f"readings that failed: {worst}"))
    return found


def _from_cpu(run: Run) -> list[dict[str, str]]:
    found = []
    steal = mean_of(run, "cpu", "steal_share") or 0.0
    if steal > MOST_STEAL:
        found.append(_doubt("steal", f"the host took {steal:.0%} of this virtual machine's CPU time"))
    other, seen = mean_of(run, "load", "other_share") or 0.0, _events(run, "other_load")
    if other > MOST_OTHER_LOAD:
        which = f": {_named(seen)}" if seen else ""
        found.append(_doubt("other_load", f"other processes used {other:.0%} of the cores on average{which}"))
    elif seen:
        found.append(_doubt("other_load", f"other processes took the cores for a while: {_named(seen)}"))
    return found
