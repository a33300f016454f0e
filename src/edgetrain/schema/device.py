"""What a device is, and the power modes it can hold."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema.setting import Scalar


@dataclass(frozen=True, slots=True, order=True)
class PowerMode:
    """Cores and clocks, all held. None where the device has no such clock."""

    cores: int
    cpu_hz: int
    gpu_hz: int | None = None
    emc_hz: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        clocks = ((" GPU", self.gpu_hz), (" memory", self.emc_hz))
        known = [f"{name} {hertz / 1e6:g} MHz" for name, hertz in clocks if hertz is not None]
        return ",".join([f"{self.cores} cores at {self.cpu_hz / 1e6:g} MHz", *known])


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """What a device is; None where it cannot be known here."""

    name: str  # short key: `orin-agx`, `host`, ...
    kind: str  # host | nvml | jetson | simulated
    model: str | None = None  # as the machine names itself
    module: str | None = None  # p3701-0005
    chip: str | None = None  # tegra234
    l4t: str | None = None
    jetpack: str | None = None
    serial: str | None = None
    host: str | None = None  # name of the machine in its network
    cores: int | None = None
    ram_bytes: int | None = None
    gpu: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    extra: tuple[tuple[str, Scalar], ...] = ()
