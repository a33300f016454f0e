"""Everything we raise on purpose.

    EdgetrainError            exit status 1: the thing asked about failed
    ├── UsageError            exit status 2: the command was wrong, nothing was started
    │   └── BadTable          a CSV, YAML or log that cannot be read as asked; names file and line
    ├── DeviceError
    │   ├── ProbeUnavailable  a sensor that is not there (raised when built, never when read)
    │   ├── ControlRefused    the board did not do what was asked; carries asked and found
    │   └── NeedsRoot         carries the exact command that would do it
    ├── LabError              limits that cannot be set here
    ├── WorkloadError         the training itself failed; the record up to then is kept
    ├── TrialError            a trial of a search gave no measurement; carries kind: failed, ignored, memory, refused
    ├── FleetError            a host of a fleet that cannot be reached or refuses; carries host
    ├── StoreError            a record that cannot be read or written
    └── PredictError          too little or contradictory data to predict from

Messages are lower case, say what happened with the values, and what to do next.
"""

from __future__ import annotations

from typing import Any


class EdgetrainError(Exception):
    """The thing asked about failed."""

    exit_status = 1

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Facts are read as attributes: refusal.asked, refusal.found.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)


class UsageError(EdgetrainError):
    """The command was wrong; nothing was started."""

    exit_status = 2


class BadTable(UsageError):
    """A CSV, YAML or log that cannot be read as asked."""


class DeviceError(EdgetrainError):
    """Something about the board."""


class ProbeUnavailable(DeviceError):
    """A sensor that is not there."""


class ControlRefused(DeviceError):
    """The board did not do what was asked."""


class NeedsRoot(DeviceError):
    """Carries `command`, the exact line that would do it."""


class LabError(EdgetrainError):
    """Limits that cannot be set here."""


class WorkloadError(EdgetrainError):
    """The training failed; the record up to then is kept."""


class TrialError(EdgetrainError):
    """A trial of a search gave no measurement; carries `kind`."""


class FleetError(EdgetrainError):
    """A host of a fleet that cannot be reached or refuses; carries `host`."""


class StoreError(EdgetrainError):
    """A record that cannot be read or written."""


class PredictError(EdgetrainError):
    """Too little or contradictory data to predict from."""
