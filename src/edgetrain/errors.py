"""Everything we raise on purpose.

    EdgetrainError            exit status 1: the thing asked about failed
    ├── UsageError            exit status 2: the command was wrong, nothing was started
    │   ├── BadTable          a CSV, YAML or log that cannot be read as asked; carries file and line
    │   └── DeadlineError     devices that cannot finish a round in time; carries devices and needs_s
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

Each may carry `run`, the record that was kept. Messages are lower case, say what happened with the values, and what to
do next.
"""

from __future__ import annotations

from collections.abc import Sequence


class EdgetrainError(Exception):
    """The thing asked about failed."""

    exit_status = 1

    def __init__(self, message: str, run: str | None = None) -> None:
        super().__init__(message)
        self.run = run  # what was recorded until then
        self.status: int | None = None  # of a user's command that had ended by itself


class UsageError(EdgetrainError):
    """The command was wrong; nothing was started."""

    exit_status = 2


class DeadlineError(UsageError):
    """Devices that cannot finish a round in time, slowest first, and how long each needs."""

    def __init__(self, message: str, devices: Sequence[str] = (), needs_s: Sequence[float] = ()) -> None:
        super().__init__(message)
        self.devices, self.needs_s = tuple(devices), tuple(needs_s)


class BadTable(UsageError):
    """A CSV, YAML or log that cannot be read as asked."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.file, self.line = file, line


class DeviceError(EdgetrainError):
    """Something about the board."""


class ProbeUnavailable(DeviceError):
    """A sensor that is not there; `root_only` are files that only root may read."""

    def __init__(self, message: str, root_only: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.root_only = tuple(root_only)


class ControlRefused(DeviceError):
    """The board did not do what was asked; `asked` and `found` are spelled for people."""

    def __init__(
        self,
        message: str,
        asked: str | None = None,
        found: str | None = None,
        reboot: bool = False,
        throttled: bool = False,
    ) -> None:
        super().__init__(message)
        self.asked, self.found = asked, found
        self.reboot, self.throttled = reboot, throttled  # what it would take, and what prevented it


class NeedsRoot(DeviceError):
    """Carries `command`, the exact line that would do it."""

    def __init__(self, message: str, command: str | None = None) -> None:
        super().__init__(message)
        self.command = command


class LabError(EdgetrainError):
    """Limits that cannot be set here."""


class WorkloadError(EdgetrainError):
    """The training failed; the record up to then is kept."""


class TrialError(EdgetrainError):
    """A trial of a search gave no measurement; carries `kind`."""

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class FleetError(EdgetrainError):
    """A host of a fleet that cannot be reached or refuses; carries `host`."""

    def __init__(self, message: str, host: str | None = None) -> None:
        super().__init__(message)
        self.host = host


class StoreError(EdgetrainError):
    """A record that cannot be read or written."""


class PredictError(EdgetrainError):
    """Too little or contradictory data to predict from."""
