"""A value with its interval, unit and origin."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema.origin import Origin


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval: in `level` of all cases the true value lies in [lo, hi].

    A measured value has no interval of this kind: its `lo` and `hi` equal its `value`.
    """

    value: float
    lo: float
    hi: float
    unit: str  # s, W, J
    origin: Origin
    level: float = 0.9

    @property
    def is_exact(self) -> bool:
        """Whether the interval is empty, as for a measured value."""
        return self.hi <= self.lo * (1 + 1e-6)
