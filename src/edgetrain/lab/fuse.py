"""The kernel's FUSE protocol over /dev/fuse, without libfuse: read-only files, standard library only.

Only what a read-only tree needs: INIT, LOOKUP, GETATTR, OPEN, READ, READDIR, STATFS, and the messages without an
answer. Written after include/uapi/linux/fuse.h, protocol 7.31 and later (Linux 5.4); the kernel adapts to our minor
version.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
READ_IN = struct.Struct("<QQIIQII")
INIT_IN = struct.Struct("<IIII")
INIT_OUT = struct.Struct("<IIIIHHIIHHI7I")
ATTR = struct.Struct("<6Q10I")
ENTRY_HEAD = struct.Struct("<QQQQII")
ATTR_HEAD = struct.Struct("<QII")
STATFS = struct.Struct("<5Q4I6I")
OPEN_OUT = struct.Struct("<QII")
DIRENT = struct.Struct("<QQII")

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS_OP, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 27, 28, 29, 34, 36, 38, 42

ASYNC_READ, ASYNC_DIO, NO_OPEN, PARALLEL_DIROPS, MAX_PAGES, NO_OPENDIR = (
    1 << 0,
    1 << 15,
    1 << 17,
    1 << 18,
    1 << 22,
    1 << 24,
)
KEEP_CACHE = 1 << 1  # of an open file: pages stay valid, since nothing is written

ROOT = 1
FOREVER_S = 10**9  # nothing below changes while we serve it
PAGE_BYTES = 4096
MAX_READ_BYTES = 1 << 20
REQUEST_BYTES = MAX_READ_BYTES + 8192  # the kernel refuses a smaller buffer than a whole request

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOATIME = 1, 2, 4, 1024
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    """Call mount(2); raises OSError with the kernel's reason."""
    if _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str, lazy: bool = False) -> None:
    """Call umount2(2); never follows a symbolic link (UMOUNT_NOFOLLOW)."""
    if _libc.umount2(target.encode(), 8 | (MNT_DETACH if lazy else 0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


@dataclass(slots=True)
class FuseNode:
    """One file or folder that we serve."""

    path: str
    is_folder: bool
    size_bytes: int = 0
    mtime_s: int = 0
    children: dict[bytes, int] = field(default_factory=dict)


def file_tree(path: str, name: str) -> list[FuseNode]:
    """Return the nodes of a folder that holds one file, the disk image at `path`."""
    about = os.stat(path)
    return [
        FuseNode(os.path.dirname(path), True, children={name.encode(): ROOT + 1}),
        FuseNode(path, False, about.st_size, int(about.st_mtime)),
    ]


def folder_tree(path: str) -> list[FuseNode]:
    """Return the nodes of a whole folder, links and special files left out. The order gives the node numbers."""
    nodes = [FuseNode(path, True)]
    at = 0
    while at < len(nodes):
        here = nodes[at]
        if here.is_folder:
            for entry in sorted(os.scandir(here.path), key=lambda entry: entry.name):
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    continue
                about = entry.stat(follow_symlinks=False)
                nodes.append(FuseNode(entry.path, is_folder, 0 if is_folder else about.st_size, int(about.st_mtime)))
                here.children[entry.name.encode()] = len(nodes)
        at += 1
    return nodes


class FuseMount:
    """One mounted tree: takes the kernel's requests and answers all but reads, which it passes to `on_read`."""

    def __init__(self, target: str, nodes: list[FuseNode], on_read: Callable[[int, int, int, int], None]) -> None:
        self.nodes = nodes
        self.ended = False
        self._on_read = on_read  # unique, node, offset, size
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        try:
            mount("edgetrain-lab", target, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, options)
        except OSError:
            os.close(self.fd)
            raise
        os.set_blocking(self.fd, False)
        self._buffer = bytearray(REQUEST_BYTES)
        # A view per read would cost more than the read itself; sizes below are taken from the header.
        self._view = memoryview(self._buffer)

    def take(self) -> bool:
        """Take one request if there is one; return whether there was."""
        try:
            os.readv(self.fd, [self._buffer])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ENOTCONN):
                self.ended = True  # unmounted
                return False
            if error.errno in (errno.EINTR, errno.ENOENT):
                return True  # the reader gave up meanwhile
            raise
        length, opcode, unique, node, *_ = IN_HEADER.unpack_from(self._buffer)
        if opcode == READ:
            _, offset, size, *_ = READ_IN.unpack_from(self._buffer, IN_HEADER.size)
            self._on_read(unique, node, offset, size)
        elif opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            pass  # no answer is expected
        else:
            error_number, payload = self._answer(opcode, node, length)
            self.reply(unique, payload, error_number)
        return True

    def reply(self, unique: int, payload: bytes | memoryview = b"", error_number: int = 0) -> None:
        """Answer one request."""
        head = OUT_HEADER.pack(OUT_HEADER.size + len(payload), -error_number, unique)
        try:
            os.writev(self.fd, [head, payload] if payload else [head])
        except OSError as error:
            if error.errno == errno.ENODEV:
                self.ended = True
            elif error.errno != errno.ENOENT:  # the reader is gone
                raise

    def _answer(self, opcode: int, node: int, length: int) -> tuple[int, bytes]:
        if opcode == INIT:
            return 0, self._init()
        if not 0 < node <= len(self.nodes):
            return errno.ENOENT, b""
        if opcode == LOOKUP:
            name = bytes(self._view[IN_HEADER.size : length]).rstrip(b"\0")
            child = self.nodes[node - 1].children.get(name)
            if child is None:
                return errno.ENOENT, b""
            head = ENTRY_HEAD.pack(child, 0, FOREVER_S, FOREVER_S, 0, 0)
            return 0, head + self._attributes(child)
        if opcode == GETATTR:
            return 0, ATTR_HEAD.pack(FOREVER_S, 0, 0) + self._attributes(node)
        if opcode == READDIR:
            _, offset, size, *_ = READ_IN.unpack_from(self._buffer, IN_HEADER.size)
            return 0, self._entries(node, offset, size)
        if opcode == STATFS_OP:
            blocks = sum(one.size_bytes for one in self.nodes) // PAGE_BYTES + 1
            return 0, STATFS.pack(blocks, 0, 0, len(self.nodes), 0, PAGE_BYTES, 255, PAGE_BYTES, 0, *([0] * 6))
        if opcode in (OPEN, OPENDIR):
            return 0, OPEN_OUT.pack(0, KEEP_CACHE, 0)
        if opcode in (RELEASE, RELEASEDIR, FLUSH, ACCESS, DESTROY):
            return 0, b""
        return errno.ENOSYS, b""

    def _init(self) -> bytes:
        _, _, readahead, offered = INIT_IN.unpack_from(self._buffer, IN_HEADER.size)
        wanted = ASYNC_READ | ASYNC_DIO | PARALLEL_DIROPS | MAX_PAGES
        return INIT_OUT.pack(
            7, 31, readahead, wanted & offered, 256, 192, PAGE_BYTES, 1, MAX_READ_BYTES // PAGE_BYTES, 0, 0, *([0] * 7)
        )  # fmt: skip

    def _attributes(self, node: int) -> bytes:
        one = self.nodes[node - 1]
        mode = (stat.S_IFDIR | 0o555) if one.is_folder else (stat.S_IFREG | 0o444)
        time_s = one.mtime_s
        blocks = -(-one.size_bytes // 512)
        return ATTR.pack(node, one.size_bytes, blocks, time_s, time_s, time_s, 0, 0, 0, mode, 1, 0, 0, 0, PAGE_BYTES, 0)

    def _entries(self, node: int, offset: int, size: int) -> bytes:
        entries = bytearray()
        for place, (name, child) in enumerate(self.nodes[node - 1].children.items()):
            if place < offset:
                continue
            kind = stat.S_IFDIR if self.nodes[child - 1].is_folder else stat.S_IFREG
            record = DIRENT.pack(child, place + 1, len(name), kind >> 12) + name
            record += b"\0" * (-len(record) % 8)
            if len(entries) + len(record) > size:
                break
            entries += record
        return bytes(entries)
