"""Collects the reasons not to trust a run; they are shown beside the numbers and never remove them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetrain.analysis.samples import mean_of
from edgetrain.record import Event, Run, SamplerReport
from edgetrain.schema import Doubt
from edgetrain.units import spell_seconds

MAX_STEAL = 0.05  # of the CPU time of a virtual machine; above this waiting cannot be distinguished from being stopped
MAX_OTHER_LOAD = 0.15  # of all cores, taken by processes that are not ours
MAX_LATE_S = 0.1  # the sampler's 99th percentile of lateness, one period of the fast probes


def collect(run: Run, further: Iterable[Doubt] = ()) -> list[Doubt]:
    """Return every doubt about a run once, those of the recorder first."""
    manifest = run.manifest
    found: list[Doubt] = list(manifest.doubts)
    if manifest.state == "running":
        found.append(Doubt("unfinished", "the run has no recorded end: it was killed, or is still running"))
    elif manifest.state in ("failed", "interrupted"):
        found.append(Doubt(manifest.state, manifest.reason or f"the run was {manifest.state}"))
    found += [Doubt("lost", text) for text in run.lost]
    found += _missing_rows(run)
    found += [Doubt("inside", problem) for process in run.processes for problem in process.facts.problems]
    found += [Doubt(event.doubt or event.cause or "doubt", event.text) for event in _events(run, "doubt")]
    kinds = {doubt.kind for doubt in found}
    if "bad_files" not in kinds:
        found += _counted(run, "bad_file", "one file could not be decoded", "{} files could not be decoded")
    found += _counted(run, "worker_died", "one loader worker died", "{} loader workers died")
    found += _counted(run, "throttle", "the device throttled once", "the device throttled {} times")
    found += _counted(run, "over_current", "one over-current alarm", "{} over-current alarms")
    if run.sampler is not None:
        found += [doubt for doubt in _from_sampler(run.sampler) if doubt.kind not in kinds]
    found += _from_cpu(run)
    found += further
    return list(dict.fromkeys(found))


def _missing_rows(run: Run) -> list[Doubt]:
    """Compare the rows read back with the rows each process counted: a cut tail leaves no other trace."""
    found = []
    for process in run.processes:
        cost, read = process.facts.main_thread_cost, len(process.minibatches)
        counted = cost.minibatches if cost else None
        if counted is not None and read < counted:
            text = f"{counted - read} of {counted} counted minibatches are missing from the record"
            found.append(Doubt("lost", text))
    return found


def _events(run: Run, kind: str) -> list[Event]:
    return [event for event in run.events if event.kind == kind]


def _counted(run: Run, kind: str, once: str, often: str) -> list[Doubt]:
    events = _events(run, kind)
    if not events:
        return []
    what = once if len(events) == 1 else often.format(len(events))
    return [Doubt(kind, f"{what}: {_named(events)}")]


def _named(events: Sequence[Event]) -> str:
    return "; ".join(event.text for event in events[:3]) + (" …" if len(events) > 3 else "")


def _from_sampler(sampler: SamplerReport) -> list[Doubt]:
    found = []
    late_s = sampler.late_p99_s
    if late_s is not None and late_s > MAX_LATE_S:
        found.append(Doubt("sampler_fell_behind", f"1 % of the samples were more than {spell_seconds(late_s)} late"))
    failed = {column: count for column, count in sampler.reads_failed.items() if count}
    if failed:
        often = {column: "once" if count == 1 else f"{count} times" for column, count in failed.items()}
        worst = ", ".join(f"{column} {times}" for column, times in list(often.items())[:4])
        found.append(Doubt("sensor", f"readings that failed: {worst}"))
    return found


def _from_cpu(run: Run) -> list[Doubt]:
    found = []
    steal = mean_of(run, "cpu", "steal_share") or 0.0
    if steal > MAX_STEAL:
        found.append(Doubt("steal", f"the host took {steal:.0%} of this virtual machine's CPU time"))
    other, seen = mean_of(run, "load", "other_share") or 0.0, _events(run, "other_load")
    if other > MAX_OTHER_LOAD:
        when = "at one time" if len(seen) == 1 else "at times"
        which = f"; {when}: {_named(seen)}" if seen else ""
        text = f"other processes used {other:.0%} of the cores on average over the whole run{which}"
        found.append(Doubt("other_load", text))
    elif seen:
        found.append(Doubt("other_load", f"other processes used the cores for a while: {_named(seen)}"))
    return found
