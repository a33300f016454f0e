"""Memory of a trial's processes while it runs: what its session and all its descendants have and cannot give up.

An exact reading (smaps_rollup of each process) makes the kernel walk the pages of a process, about 30 ms per GB, and
holds up the process meanwhile. So it is made rarely. In between, sizes that the kernel counts anyway say what the
processes can have taken since; where that may be too much, they are stopped and read exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgetrain.runner.trial_processes import ProcessStat, continue_processes, family, stop_session

KIB = 1024
EVERY_S = 0.3  # between two estimates
NEAR, NEAR_EVERY_S = 0.85, 0.05  # share of the limit above which estimates are made more often
EXACT_EVERY_S = 1.0
# A reading waits until this multiple of its own cost has passed since the last one: estimates and exact readings take
# at most 2 % of the time each, estimates near the limit 20 %.
COSTS, NEAR_COSTS = 50, 5


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process. Pages that several processes share count in equal parts."""

    pid: int
    parent: int
    total_bytes: int
    own_bytes: int  # anonymous and shared memory, swapped or not: what cannot be given up, as pages of files can
    private_bytes: int  # of it, what no other process has
    shared_bytes: int  # of it, shared memory: minibatches on their way


@dataclass(slots=True)
class MemoryWatch:
    """Follows the processes of one trial; keeps the largest values seen."""

    session: int
    root: Path = Path("/")
    unified: bool = False  # an accelerator takes RAM that no process shows: what the machine lost counts too
    most_bytes: int | None = None  # that all of them may use together
    now_s: Callable[[], float] = time.monotonic
    stop: Callable[[int], Sequence[int]] = stop_session
    go_on: Callable[[Sequence[int]], None] = continue_processes
    peak_bytes: int = 0
    peak_shared_bytes: int = 0
    by_process: dict[int, ProcessMemory] = field(default_factory=dict)
    poll_s: float = EVERY_S  # until `exceeded` has something to read
    _available_bytes: int = 0  # of the machine, before the trial
    _exact: tuple[int, int, int] = (0, 0, 0)  # at the last exact reading: used, what they can have at most, available
    _due_s: float = 0.0
    _exact_due_s: float = 0.0

    def __post_init__(self) -> None:
        self._available_bytes = available_bytes(self.root)
        self._exact = (0, 0, self._available_bytes)

    def exceeded(self) -> bool:
        """Read what is due; return whether the processes use more than they may. If so they are left stopped.

        Processes are read one after the other, so a fork in between counts pages twice, and what the machine lost may
        be another program's: only a reading of stopped processes is proof.
        """
        began_s, most = self.now_s(), self.most_bytes
        if began_s < self._due_s:
            return False
        used = self._estimate()
        cost_s = self.now_s() - began_s
        if began_s >= self._exact_due_s and (most is None or used <= most):
            used = self.read()
        near = most is not None and used > NEAR * most
        wait_s = max(NEAR_EVERY_S, NEAR_COSTS * cost_s) if near else max(EVERY_S, COSTS * cost_s)
        if most is not None and used > most:
            stopped_s = self.now_s()
            if self._confirmed(most):
                return True
            wait_s = max(wait_s, NEAR_COSTS * (self.now_s() - stopped_s))
        self.poll_s, self._due_s = wait_s, self.now_s() + wait_s
        return False

    def _confirmed(self, most: int) -> bool:
        """Stop all processes and read them; let them go on unless they use more than this."""
        stopped = self.stop(self.session)
        if self.read() > most:
            return True
        self.go_on(stopped)
        return False

    def read_last(self) -> None:
        """Stop the processes, which are about to be killed, and read what they have."""
        self.stop(self.session)
        self.read()

    def read(self) -> int:
        """Read all processes exactly; return what they use together.

        Pages of files (a memory-mapped dataset) do not count: the kernel gives them up when memory is needed.
        """
        began_s = self.now_s()
        before = family(self.session, self.root)
        found = [one for each in before if (one := process_memory(each, self.root)) is not None]
        after = family(self.session, self.root)
        if {one.pid for one in after} - {one.pid for one in before}:
            # A fork in between counts pages twice: as the parent's alone, and in equal parts.
            again = [one for each in after if (one := process_memory(each, self.root)) is not None]
            found = min(found, again, key=lambda each: sum(one.own_bytes for one in each))
        total = sum(one.own_bytes for one in found)
        available = available_bytes(self.root)
        self._exact = (total, most_possible(after, self.root), available)
        self._exact_due_s = self.now_s() + max(EXACT_EVERY_S, COSTS * (self.now_s() - began_s))
        if self.unified:
            total = max(total, self._available_bytes - available)
        self.peak_bytes = max(self.peak_bytes, total)
        self.peak_shared_bytes = max(self.peak_shared_bytes, sum(one.shared_bytes for one in found))
        for one in found:
            known = self.by_process.get(one.pid)
            if known is None or one.private_bytes > known.private_bytes:
                self.by_process[one.pid] = one
        return total

    def _estimate(self) -> int:
        """Return about how much the processes use, from sizes that cost nothing to read.

        It is what the last exact reading showed and what they, or the machine, have taken since; and never more than
        all their pages together, were none of them shared.
        """
        used, possible, available = self._exact
        available_now = available_bytes(self.root)
        possible_now = most_possible(family(self.session, self.root), self.root)
        grown = max(0, possible_now - possible, available - available_now)
        estimate = min(possible_now, used + grown)
        return max(estimate, self._available_bytes - available_now) if self.unified else estimate


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory that new processes can use."""
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * KIB
    raise OSError("/proc/meminfo has no MemAvailable")


def session_memory(session: int, root: Path = Path("/")) -> list[ProcessMemory]:
    """Return the memory of every process of a session and of its leader's descendants; those that end are left out.

    `torchrun` starts each training process in a session of its own.
    """
    return [one for each in family(session, root) if (one := process_memory(each, root)) is not None]


def process_memory(process: ProcessStat, root: Path = Path("/")) -> ProcessMemory | None:
    """Return the memory of one process; None where it has ended or belongs to another user."""
    try:
        sizes = _sizes((root / "proc" / str(process.pid) / "smaps_rollup").read_text())
    except (OSError, ValueError):
        return None
    total, shared = sizes.get("Pss", 0), sizes.get("Pss_Shmem", 0)
    # Kernels before 5.3 do not say of which kind the pages are: then all count.
    own = sizes["Pss_Anon"] + shared if "Pss_Anon" in sizes else total
    own += sizes.get("SwapPss", 0)
    return ProcessMemory(process.pid, process.parent, total, own, sizes.get("Private_Dirty", 0), shared)


def most_possible(processes: Sequence[ProcessStat], root: Path = Path("/")) -> int:
    """Return what processes would use together if they shared no page: the kernel counts that all the time."""
    total = 0
    for process in processes:
        try:
            sizes = _sizes((root / "proc" / str(process.pid) / "status").read_text())
        except (OSError, ValueError):
            continue
        kinds = ("RssAnon", "RssShmem") if "RssAnon" in sizes else ("VmRSS",)  # kernels before 4.5 do not tell
        total += sum(sizes.get(kind, 0) for kind in (*kinds, "VmSwap"))
    return total


def _sizes(text: str) -> dict[str, int]:
    """Return the lines `Name: 123 kB` of a file, in bytes."""
    sizes = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            sizes[name] = int(words[0]) * KIB
    return sizes
