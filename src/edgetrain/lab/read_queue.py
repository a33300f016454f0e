"""The slow medium without root, as the training process gets it: the value of EDGETRAIN_READ_QUEUE.

The waiting itself happens in the process that reads (`edgetrain.workload.slow_reads`).
"""

from __future__ import annotations

import json
from pathlib import Path

from edgetrain.lab.queueing import MediumModel
from edgetrain.workload import READ_QUEUE

__all__ = ["READ_QUEUE", "queue_setting"]

_MOST_PLACES = 64  # beyond a few dozen reads at once the queue in user space no longer matters


def queue_setting(path: Path, folder: Path, medium: MediumModel) -> str:
    """Return the value of EDGETRAIN_READ_QUEUE for a dataset's folder; `path` is the file that processes share."""
    at_once = min(medium.at_once, _MOST_PLACES)
    return json.dumps(
        {
            "file": str(path),
            "folder": str(folder.resolve()),
            "position_s": [medium.read_s / medium.gain_at(depth) for depth in range(1, at_once + 2)],
            "bytes_per_s": medium.bytes_per_s,
            "at_once": at_once,
        }
    )
