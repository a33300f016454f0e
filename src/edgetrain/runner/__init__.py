"""Carries out one experiment, or a plan of them: settle, train, record, restore.

`execute(experiment, device, store, progress)` makes one run and returns its id; whatever happens on the way, the record
says so. `Progress` is told (stage, done, total) and may draw what it likes.
"""

from edgetrain.runner.executor import Interrupted, Progress, execute

__all__ = ["Interrupted", "Progress", "execute"]
