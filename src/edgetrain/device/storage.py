"""Where a path lies: its filesystem, its block device, and what kind of medium that is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from edgetrain.device.kept import text_of

# Filesystems without a block device of their own.
_IN_RAM = frozenset({"tmpfs", "ramfs", "rootfs"})
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs", "virtiofs"})


@dataclass(frozen=True, slots=True)
class StorageMedium:
    """What a path lies on; None where it cannot be known."""

    path: str
    mount: str | None = None
    filesystem: str | None = None
    device: str | None = None  # the whole block device: nvme0n1, mmcblk0, loop3
    medium: str | None = None  # emmc | sd | ssd | nvme | hdd | loop | virtual | ram | network
    options: str = ""


def medium_of(path: Path, root: Path = Path("/")) -> StorageMedium:
    """Return what the path, or the nearest folder above it that exists, lies on."""
    here = path.absolute()
    while not here.exists() and here != here.parent:
        here = here.parent
    real = here.resolve()
    number = os.stat(real).st_dev
    mount = _mount_of(real, f"{os.major(number)}:{os.minor(number)}", root)
    if mount is None:
        return StorageMedium(str(path))
    where, filesystem, source, options = mount
    device = _block_device(number, source, root)
    return StorageMedium(str(path), where, filesystem, device, _kind(filesystem, device, root), options)


def same_medium(one: Path, other: Path) -> bool | None:
    """Return whether two paths share a block device (or a filesystem); None where that cannot be known."""
    try:
        first, second = medium_of(one), medium_of(other)
    except OSError:
        return None
    if first.device and second.device:
        return first.device == second.device
    return first.mount == second.mount if first.mount else None


def _mount_of(real: Path, number: str, root: Path) -> tuple[str, str, str, str] | None:
    """Return (mount point, filesystem, source, options) from mountinfo."""
    best: tuple[str, str, str, str] | None = None
    rank = (False, -1)
    table = text_of(root / "proc/self/mountinfo") or ""
    for line in table.splitlines():
        fields = line.split()
        if "-" not in fields[6:]:
            continue
        after = fields.index("-", 6)
        where = fields[4].replace("\\040", " ")
        inside = str(real) == where or str(real).startswith(where.rstrip("/") + "/")
        # btrfs and overlay give st_dev numbers that mountinfo does not know: then the longest path decides.
        this = (fields[2] == number, len(where))
        if inside and this >= rank:
            rank, best = this, (where, fields[after + 1], fields[after + 2], fields[5])
    return best


def _block_device(number: int, source: str, root: Path) -> str | None:
    """Return the whole device behind a device number: a partition's parent."""
    for key in (f"{os.major(number)}:{os.minor(number)}", None):
        if key is not None:
            link = root / "sys/dev/block" / key
        elif source.startswith("/dev/"):
            link = root / "sys/class/block" / os.path.basename(os.path.realpath(source))
        else:
            return None
        if link.exists():
            real = link.resolve()
            return real.parent.name if (real / "partition").exists() else real.name
    return None


def _kind(filesystem: str, device: str | None, root: Path) -> str | None:
    if filesystem in _IN_RAM:
        return "ram"
    if filesystem in _REMOTE:
        return "network"
    if device is None:
        return None
    block = root / "sys/block" / device
    if device.startswith("nvme"):
        return "nvme"
    if device.startswith("mmcblk"):
        return "emmc" if (text_of(block / "device/type") or "") == "MMC" else "sd"
    if device.startswith("loop"):
        return "loop"
    if device.startswith(("vd", "xvd")):
        return "virtual"
    if device.startswith(("zram", "ram")):
        return "ram"
    rotational = text_of(block / "queue/rotational")
    return {"1": "hdd", "0": "ssd"}.get(rotational or "")
