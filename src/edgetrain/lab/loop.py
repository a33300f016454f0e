"""Loop devices by ioctl: attach a file read-only with direct I/O, find and detach ours."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path

from edgetrain.errors import LabError

_CONTROL = "/dev/loop-control"
_SET_FD, _CLR_FD, _SET_STATUS64, _SET_DIRECT_IO, _CONFIGURE, _GET_FREE = (
    0x4C00,
    0x4C01,
    0x4C04,
    0x4C08,
    0x4C0A,
    0x4C82,
)
_READ_ONLY, _AUTOCLEAR, _DIRECT_IO = 1, 4, 16
_INFO = struct.Struct("<5Q4I64s64s32s2Q")
_CONFIG_HEAD = struct.Struct("<II")
_TRIES = 16


def available() -> str | None:
    """Return why loop devices cannot be used here, or None."""
    if not os.path.exists(_CONTROL):
        return "no /dev/loop-control"
    if not os.access(_CONTROL, os.R_OK | os.W_OK):
        return "no permission for /dev/loop-control"
    return None


def attach(path: str) -> tuple[str, int]:
    """Attach a file read-only; return the device and a descriptor that holds it until it is mounted.

    Direct I/O, or the file's own pages would be cached below the mounted file system's. Auto-clear, so that the
    device goes with its mount.
    """
    try:
        control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"no loop device can be made: {_CONTROL}: {error.strerror}") from error
    backing = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    try:
        for _ in range(_TRIES):
            number = fcntl.ioctl(control, _GET_FREE)
            device = f"/dev/loop{number}"
            if not os.path.exists(device):
                # In a container /dev does not get new devices by itself.
                os.mknod(device, 0o600 | 0o060000, os.makedev(7, number))
            descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _configure(descriptor, backing, path)
                return device, descriptor
            except OSError as error:
                os.close(descriptor)
                if error.errno != errno.EBUSY:  # another process took it between the two calls
                    raise
    except OSError as error:
        raise LabError(f"cannot attach {path} to a loop device: {error.strerror}") from error
    finally:
        os.close(control)
        os.close(backing)
    raise LabError(f"no free loop device after {_TRIES} tries; detach some with `losetup -D`")


def _configure(descriptor: int, backing: int, path: str) -> None:
    name = path.encode()[-63:]
    flags = _READ_ONLY | _AUTOCLEAR | _DIRECT_IO
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, name, b"", b"", 0, 0)
    try:
        fcntl.ioctl(descriptor, _CONFIGURE, _CONFIG_HEAD.pack(backing, 4096) + info + bytes(64))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTTY):
            raise
        # Before Linux 5.8 (JetPack 4 and 5) the three steps are separate.
        fcntl.ioctl(descriptor, _SET_FD, backing)
        fcntl.ioctl(descriptor, _SET_STATUS64, info)
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _SET_DIRECT_IO, 1)


def backed_by(prefix: str) -> list[str]:
    """Return the loop devices whose backing file lies under `prefix`."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if file.read_text().strip().startswith(prefix.rstrip("/") + "/"):
                found.append("/dev/" + file.parent.parent.name)
    return found


def detach(device: str) -> None:
    """Detach a loop device; nothing happens where it is already free."""
    with contextlib.suppress(OSError):
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _CLR_FD)
        finally:
            os.close(descriptor)
