"""A storage medium as a queue: seconds per read, bytes per second, and how many reads it serves at once.

Standard library only: the slow disk's server runs this beside training.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# A read that continues where one of the last few ended needs no positioning: files above the kernel's readahead window
# (128 kB) arrive as several requests, and a disk does not seek between them.
_REMEMBERED_ENDS = 8


@dataclass(frozen=True, slots=True)
class MediumModel:
    """What one read costs on a storage medium, and how reads share it.

    `read_s` is paid once per read that does not continue an earlier one, `bytes_per_s` is shared by all.
    `gain` is how much faster positioning gets when several reads wait (a disk's elevator): pairs of queue depth
    and factor, linear between them.
    """

    name: str
    read_s: float
    bytes_per_s: float
    at_once: int = 1
    gain: tuple[tuple[int, float], ...] = ()
    source: str = ""

    def gain_at(self, depth: int) -> float:
        """Return how much faster a read is positioned when `depth` reads are in the queue."""
        below = (1, 1.0)
        for point in sorted(self.gain):
            if depth <= point[0]:
                if point[0] == below[0]:
                    return point[1]
                share = (depth - below[0]) / (point[0] - below[0])
                return below[1] + max(0.0, share) * (point[1] - below[1])
            below = point
        return below[1]

    def cost_s(self, size_bytes: int, depth: int = 1) -> float:
        """Return what one read costs the medium when `depth` reads are in its queue."""
        return self.read_s / self.gain_at(depth) + size_bytes / self.bytes_per_s

    def reads_per_s(self, size_bytes: int, readers: int) -> float:
        """Return how many reads of one size it serves per second to readers that each wait for theirs."""
        served = min(readers, self.at_once)
        positioned = served / self.cost_s(size_bytes, max(1, readers if self.at_once == 1 else served))
        return min(positioned, self.bytes_per_s / size_bytes)

    def faster(self, speed: float) -> MediumModel:
        """Return the same medium with every time divided by `speed`."""
        return MediumModel(
            self.name, self.read_s / speed, self.bytes_per_s * speed, self.at_once, self.gain, self.source
        )


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """What the slow disk's server is asked to emulate from now on; no medium: answer as fast as possible."""

    medium: MediumModel | None = None
    floor_s: float = 0.0
    floor_s_per_byte: float = 0.0


class MediumQueue:
    """When each read is done, one queue for all readers.

    The way from the reader to the server and back takes time too. That floor was measured (`floor_s` for an empty read
    and `floor_s_per_byte`) and is part of the medium's time, so a read starts that much before it arrived; but never
    before the medium was free, so a busy medium keeps its exact pace.
    """

    def __init__(self, medium: MediumModel | None, floor_s: float = 0.0, floor_s_per_byte: float = 0.0) -> None:
        self.medium = medium
        self.floor_s = floor_s
        self.floor_s_per_byte = floor_s_per_byte
        self._free_at_s = [float("-inf")] * (medium.at_once if medium else 1)
        self._channel_at_s = float("-inf")
        self._waiting: deque[float] = deque()
        self._ends: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED_ENDS)

    def admit(self, arrived_s: float, file: int, offset: int, size_bytes: int) -> float:
        """Return the instant at which the answer to this read may be sent."""
        medium = self.medium
        if medium is None:
            return arrived_s
        waiting = self._waiting
        while waiting and waiting[0] <= arrived_s:
            waiting.popleft()
        continues = (file, offset) in self._ends
        if continues:
            self._ends.remove((file, offset))
        self._ends.append((file, offset + size_bytes))
        asked_s = arrived_s - self.floor_s - self.floor_s_per_byte * size_bytes
        server = min(range(len(self._free_at_s)), key=self._free_at_s.__getitem__)
        start_s = max(asked_s, self._free_at_s[server])
        positioned_s = start_s if continues else start_s + medium.read_s / medium.gain_at(len(waiting) + 1)
        done_s = max(positioned_s, self._channel_at_s) + size_bytes / medium.bytes_per_s
        self._channel_at_s = self._free_at_s[server] = done_s
        # Sorted by construction for one server; for many, out of order by a little, which affects only the depth.
        waiting.append(done_s)
        return done_s
