"""Memory of a trial's processes while it runs: proportional set sizes of everything in its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

KIB = 1024
SESSION_FIELD = 3  # in /proc/PID/stat, after the name


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process. Pages that several processes share count in equal parts."""

    pid: int
    parent: int
    total_bytes: int
    own_bytes: int  # anonymous and shared memory: what cannot be given up
    private_bytes: int  # of it, what no other process has
    shared_bytes: int  # of it, shared memory: minibatches on their way


@dataclass(slots=True)
class MemoryWatch:
    """Follows the processes of one session; keeps the largest values seen."""

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
        """
        found = session_memory(self.session, self.root)
        total = sum(one.total_bytes for one in found)
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
    """Return the memory of every process of a session; those that end meanwhile are left out."""
    found = []
    for folder in (root / "proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[SESSION_FIELD]) != session:
                continue
            sizes = _rollup((folder / "smaps_rollup").read_text())
        except (OSError, IndexError, ValueError):
            continue
        shared = sizes.get("Pss_Shmem", 0)
        own, private = sizes.get("Pss_Anon", 0) + shared, sizes.get("Private_Dirty", 0)
        found.append(ProcessMemory(int(folder.name), int(fields[1]), sizes.get("Pss", 0), own, private, shared))
    return found


def _rollup(text: str) -> dict[str, int]:
    sizes = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * KIB
    return sizes
