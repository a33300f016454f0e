"""What `doctor` measures of sampling itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from edgetrain.device import Probe
from edgetrain.device.host import HostDevice
from edgetrain.sampling import sampling_cost


class SlowProbe:
    """A power monitor whose registers wait for the next average."""

    name = "rails"
    period_s = 0.43
    blocking = True
    columns: Sequence[str] = ("VDD_IN_w",)

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> Sequence[float]:
        self.reads += 1
        time.sleep(0.05)
        return [5.0]

    def close(self) -> None:
        """Nothing is held open."""


class SlowBoard(HostDevice):
    """A machine with that monitor alone."""

    def __init__(self, probe: SlowProbe) -> None:
        super().__init__()
        self._probe = probe

    def probes(self) -> list[Probe]:
        return [self._probe]


def test_a_slow_sensor_does_not_hold_up_the_doctor() -> None:
    probe = SlowProbe()
    cost = sampling_cost(SlowBoard(probe), readings=20, limit_s=0.1)
    assert 2 <= probe.reads <= 5
    assert cost.per_probe["rails"].read_s == pytest.approx(0.05, rel=0.5)
