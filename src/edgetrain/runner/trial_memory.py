"""Memory of a trial's processes while it runs: what its session and all its descendants have and cannot give up."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgetrain.runner.trial_processes import family

KIB = 1024


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
    peak_bytes: int = 0
    peak_shared_bytes: int = 0
    by_process: dict[int, ProcessMemory] = field(default_factory=dict)
    unified: bool = False  # an accelerator takes RAM that no process shows: what the machine lost counts too
    _available_bytes: int | None = None  # at the first reading
    _last_bytes: int = 0  # at the last one

    def read(self) -> int:
        """Read all processes once; return what they used together at this reading and the one before.

        Processes are read one after the other, so a fork in between counts its pages twice: one reading is no proof.
        Pages of files (a memory-mapped dataset) do not count: the kernel gives them up when memory is needed.
        """
        found = session_memory(self.session, self.root)
        total = sum(one.own_bytes for one in found)
        if self.unified:
            available = available_bytes(self.root)
            if self._available_bytes is None:
                self._available_bytes = available
            total = max(total, self._available_bytes - available)
        both, self._last_bytes = min(total, self._last_bytes), total
        self.peak_bytes = max(self.peak_bytes, both)
        self.peak_shared_bytes = max(self.peak_shared_bytes, sum(one.shared_bytes for one in found))
        for one in found:
            known = self.by_process.get(one.pid)
            if known is None or one.private_bytes > known.private_bytes:
                self.by_process[one.pid] = one
        return both


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
    found = []
    for one in family(session, root):
        try:
            sizes = _rollup((root / "proc" / str(one.pid) / "smaps_rollup").read_text())
        except (OSError, ValueError):
            continue
        total, shared = sizes.get("Pss", 0), sizes.get("Pss_Shmem", 0)
        # Kernels before 5.3 do not say of which kind the pages are: then all count.
        own = sizes["Pss_Anon"] + shared if "Pss_Anon" in sizes else total
        own += sizes.get("SwapPss", 0)
        private = sizes.get("Private_Dirty", 0)
        found.append(ProcessMemory(one.pid, one.parent, total, own, private, shared))
    return found


def _rollup(text: str) -> dict[str, int]:
    sizes = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * KIB
    return sizes
