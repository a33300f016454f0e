"""Estimates how much memory a trial with other loader arguments would need, from the trials seen so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgetrain.schema import LoaderArguments, LoaderMeasurement, RamUse

RAM_MARGIN = 1.05  # on the estimate
WORKER_LEAST_BYTES = 32 << 20  # a forked interpreter dirties about this much
COPIED = 0.5  # of what the main process holds, by a worker, as long as none was seen; a fork can copy all of it


@dataclass(slots=True)
class MemoryEstimate:
    """What was seen of memory; with several training processes, each has its own workers and minibatches."""

    processes: int = 1  # that train, the most seen
    _seen: dict[int, RamUse] = field(default_factory=dict)  # the most that was seen, by workers
    _worker_bytes: int | None = None  # the largest worker seen
    _batch_bytes: float = 0.0  # the largest minibatch seen on its way from a worker

    def learn(self, found: LoaderMeasurement) -> None:
        """Take in a trial."""
        ram, workers = found.ram, found.arguments.workers
        self.processes = max(self.processes, found.processes)
        if ram is None:
            return
        known = self._seen.get(workers)
        if known is None or ram.peak_bytes > known.peak_bytes:
            self._seen[workers] = ram
        if ram.worker_bytes is not None and workers:
            self._worker_bytes = max(self._worker_bytes or 0, ram.worker_bytes)
            # Where the loop waits for data, each worker has about one minibatch on its way.
            self._batch_bytes = max(self._batch_bytes, ram.shared_bytes / (workers * found.processes))
        self._batch_bytes = max(self._batch_bytes, ram.minibatch_bytes or 0.0)

    def needed(self, arguments: LoaderArguments) -> int | None:
        """Return what a trial would need, from the trial with the nearest number of workers; None: not known.

        Each worker more adds what the largest worker seen had to itself; as long as none was seen, half of what the
        main process holds: a trial in which workers copy more is ended at the limit. All minibatches that can be on
        their way count, and the loop's own: one that waits in a queue is mapped by no process, and readings of
        processes miss it.
        """
        if not self._seen:
            return None
        workers = arguments.workers
        near = min(self._seen, key=lambda other: (abs(other - workers), other))
        ram = self._seen[near]
        each = self._worker_bytes
        if each is None:
            each = max(int(COPIED * ram.main_own_bytes), WORKER_LEAST_BYTES)
        flight = workers * (arguments.prefetch or 2) + 1 if workers else 0
        more = (workers - near) * each + flight * self._batch_bytes
        return int((ram.peak_bytes + more * self.processes) * RAM_MARGIN)
