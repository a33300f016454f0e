"""Which kernel mechanisms this machine offers the lab."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgetrain.lab import cgroups
from edgetrain.lab.storage import missing
from edgetrain.schema import LabMechanisms


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """Control groups, and what the slow disk needs and does not find (by name, with the reason)."""

    hierarchies: cgroups.Hierarchies
    lacks: dict[str, str] = field(default_factory=dict)

    @property
    def slow_disk(self) -> bool:
        """Return whether storage can be emulated below the file system."""
        return "root" not in self.lacks and "fuse" not in self.lacks

    def facts(self) -> LabMechanisms:
        """Return what `lab status` shows."""
        return LabMechanisms(
            storage="; ".join(self.lacks.values()) or "slow disk",
            cgroups=self.hierarchies.version,
            memory=self.hierarchies.has("memory"),
            cpu=self.hierarchies.has("cpu"),
            cpuset=self.hierarchies.has("cpuset"),
            blkio=self.hierarchies.has("blkio"),
        )


def find_mechanisms() -> Mechanisms:
    """Find what this machine offers."""
    return Mechanisms(cgroups.find(), missing())
