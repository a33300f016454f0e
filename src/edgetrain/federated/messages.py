"""What the server asks of a board for one training and what the board reports, as Flower's flat records carry it.

A ConfigRecord holds texts and numbers, a MetricRecord numbers only, and neither holds null: what is not known is left
out. The names below are the keys of edgetrain's records, next to those of the strategy and of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TypeAlias

from edgetrain.errors import EdgetrainError
from edgetrain.schema import Origin, PowerMode
from edgetrain.version import __version__

REQUEST = "edgetrain-request"  # ConfigRecord, server to board
METRICS = "edgetrain"  # MetricRecord, board to server
FACTS = "edgetrain-facts"  # ConfigRecord, board to server
IDENTITY = "edgetrain-identity"  # ConfigRecord, board to server

RecordValue: TypeAlias = (
    "str | int | float | bool | bytes | list[int] | list[float] | list[str] | list[bool] | list[bytes]"
)
RecordValues: TypeAlias = Mapping[str, RecordValue]
MODE_KEYS = ("cores", "cpu-hz", "gpu-hz", "emc-hz")


def flower_version() -> str | None:
    """Return the version of Flower installed here; None where it is not."""
    try:
        return metadata.version("flwr")
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a board is to do: the mode to hold (None: as it is), and the minibatches that the plan counts on."""

    mode: PowerMode | None = None
    minibatches: int | None = None

    def values(self) -> dict[str, RecordValue]:
        """Return it as the values of a ConfigRecord."""
        found = _mode_values("mode", self.mode)
        if self.minibatches is not None:
            found["minibatches"] = self.minibatches
        return found

    @classmethod
    def read(cls, values: RecordValues) -> TrainingRequest:
        """Read the values of a ConfigRecord."""
        return cls(_read_mode("mode", values), _whole(values.get("minibatches")))


@dataclass(frozen=True, slots=True)
class BoardIdentity:
    """Which board a Flower node is, by its node config, and what runs on it."""

    unit: str  # the name of this very board in the inventory
    device: str  # what edgetrain opens there: auto, sim:nano?unit=3
    board: str | None = None  # its kind: orin-nano
    edgetrain: str = __version__
    flower: str | None = field(default_factory=flower_version)

    def values(self) -> dict[str, RecordValue]:
        """Return it as the values of a ConfigRecord."""
        texts = {"unit": self.unit, "device": self.device, "board": self.board}
        texts |= {"edgetrain": self.edgetrain, "flower": self.flower}
        return {key: text for key, text in texts.items() if text is not None}

    @classmethod
    def read(cls, values: RecordValues) -> BoardIdentity:
        """Read the values of a ConfigRecord."""
        unit = values.get("unit")
        if unit is None:
            raise EdgetrainError("a board did not report its unit: its node config or its edgetrain is not ours")
        return cls(
            str(unit),
            str(values.get("device", "auto")),
            _text(values.get("board")),
            str(values.get("edgetrain", "unknown")),
            _text(values.get("flower")),
        )


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What one training took on a board, by the board's own clock and power sensor."""

    identity: BoardIdentity
    training_s: float
    setup_s: float = 0.0  # mode set, recorder started, record closed
    joules: float | None = None
    joules_pm: float | None = None
    mode: PowerMode | None = None  # the mode that was held; None: the board's own
    origin: Origin = Origin.MEASURED
    run: str | None = None  # the record on the board
    doubts: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Return its numbers as the values of a MetricRecord."""
        known = {"training-s": self.training_s, "setup-s": self.setup_s}
        optional = {"joules": self.joules, "joules-pm": self.joules_pm}
        return known | {key: value for key, value in optional.items() if value is not None}

    def facts(self) -> dict[str, RecordValue]:
        """Return the rest as the values of a ConfigRecord."""
        found = {**self.identity.values(), **_mode_values("held", self.mode), "origin": str(self.origin)}
        if self.run is not None:
            found["run"] = self.run
        if self.doubts:
            found["doubts"] = list(self.doubts)
        return found

    @classmethod
    def read(cls, metrics: RecordValues, facts: RecordValues) -> TrainingReport:
        """Read the values of both records."""
        training_s = _number(metrics.get("training-s"))
        if training_s is None:
            raise EdgetrainError("a board reported no training time; is its edgetrain of another version?")
        doubts = facts.get("doubts", [])
        return cls(
            BoardIdentity.read(facts),
            training_s,
            _number(metrics.get("setup-s")) or 0.0,
            _number(metrics.get("joules")),
            _number(metrics.get("joules-pm")),
            _read_mode("held", facts),
            Origin(str(facts.get("origin", Origin.MEASURED))),
            _text(facts.get("run")),
            tuple(str(text) for text in doubts) if isinstance(doubts, list) else (),
        )


def _mode_values(prefix: str, mode: PowerMode | None) -> dict[str, RecordValue]:
    if mode is None:
        return {}
    numbers = zip(MODE_KEYS, (mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz), strict=True)
    return {f"{prefix}-{key}": number for key, number in numbers if number is not None}


def _read_mode(prefix: str, values: RecordValues) -> PowerMode | None:
    cores, cpu, gpu, emc = (_whole(values.get(f"{prefix}-{key}")) for key in MODE_KEYS)
    if cores is None and cpu is None:
        return None
    if cores is None or cpu is None:
        raise EdgetrainError(f"a power mode came without its {'cores' if cores is None else 'CPU clock'}")
    return PowerMode(cores, cpu, gpu, emc)


def _number(value: RecordValue | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _whole(value: RecordValue | None) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _text(value: RecordValue | None) -> str | None:
    return None if value is None else str(value)
