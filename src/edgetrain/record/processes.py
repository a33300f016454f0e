"""Puts the training processes of a run together from what each wrote: facts, minibatches, rows of its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetrain.record.decoder import JoinedTable
from edgetrain.record.facts import ProcessFacts
from edgetrain.record.run import Process
from edgetrain.record.table import Table


def pid_in(stream: str) -> int:
    """Return the process id that the name of a stream ends with (`minibatches-1234`); 0 where there is none."""
    last = stream.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def join_processes(
    facts: Sequence[ProcessFacts], minibatches: Mapping[int, Sequence[Table]], workers: Mapping[int, Sequence[Table]]
) -> tuple[Process, ...]:
    """Return one Process per training process; the streams are given by process id, in the order they began."""
    by_pid = _facts_by_pid(facts, list(minibatches))
    pids = list(dict.fromkeys([*by_pid, *minibatches]))
    if not pids:
        pids = list(workers)[:1]
    of_workers: dict[int, list[Table]] = {pid: list(workers.get(pid, ())) for pid in pids}
    for stray in [pid for pid in workers if pid not in of_workers]:
        # A loader worker whose stream does not say which training process it belongs to: the first one's.
        of_workers[pids[0]] += workers[stray]
    return tuple(
        Process(
            by_pid.get(pid, ProcessFacts(pid=pid)),
            JoinedTable(minibatches.get(pid, ()), order_by="asked_us"),
            JoinedTable(of_workers[pid]),
        )
        for pid in pids
    )


def _facts_by_pid(facts: Sequence[ProcessFacts], recorded: Sequence[int]) -> dict[int, ProcessFacts]:
    """Return the facts by process id; facts without one (imported, simulated) take the streams that are left."""
    named = {one.pid for one in facts if one.pid is not None}
    free = [pid for pid in recorded if pid not in named]
    found: dict[int, ProcessFacts] = {}
    for place, one in enumerate(facts):
        pid = one.pid if one.pid is not None else (free.pop(0) if free else -1 - place)
        found[pid] = one
    return found
