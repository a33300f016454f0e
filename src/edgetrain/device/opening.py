"""Finds the device we are on, or opens a named one.

device = detect()                       the machine we are on
device = open_device("sim:orin-agx")    or one that is named
"""

from __future__ import annotations

from pathlib import Path

from edgetrain.device.base import Device
from edgetrain.device.host import HostDevice
from edgetrain.errors import UsageError


def is_jetson(root: Path) -> bool:
    """Return whether the tree under `root` is a Jetson's."""
    if (root / "etc/nv_tegra_release").exists():
        return True
    for name in ("proc/device-tree/compatible", "sys/firmware/devicetree/base/compatible"):
        try:
            # Containers on a board lack nv_tegra_release, but the device tree is visible.
            if b"nvidia,tegra" in (root / name).read_bytes():
                return True
        except OSError:
            continue
    return False


def detect(root: Path = Path("/")) -> Device:
    """Return the device whose /proc and /sys lie under `root`."""
    return _jetson(root) if is_jetson(root) else HostDevice(root)


def open_device(spec: str = "auto") -> Device:
    """Return the device named `auto`, `host`, `jetson:/root/of/a/tree` or `sim:orin-agx`."""
    kind, _, rest = spec.partition(":")
    if kind == "auto" and not rest:
        return detect()
    if kind == "host":
        return HostDevice(Path(rest or "/"))
    if kind == "jetson":
        return _jetson(Path(rest or "/"))
    if kind == "sim":
        from edgetrain.device.simulated import open_simulated

        return open_simulated(rest)
    raise UsageError(f"unknown device {spec!r}; write auto, host, jetson, jetson:/root/of/a/tree or sim:orin-agx")


def _jetson(root: Path) -> Device:
    # Imported late: a run on a workstation does not need the boards' code.
    from edgetrain.device.jetson.board import open_board

    return open_board(root)
