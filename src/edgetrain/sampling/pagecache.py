"""Counts the pages of one open file that lie in the page cache: cachestat(2) where the kernel has it, else mincore.

Both answer correctly only to the file's owner, to users who may write it, and to root. To others cachestat gives EPERM
(kernel 6.12 and later), and mincore reports every page as present (5.2 and later), which is not recorded. On
overlayfs cachestat sees the upper inode, which holds no pages, and counts 0; mincore maps the real file and is
right. preadv2 with RWF_NOWAIT would start readahead and fill what it measures, so it is not used.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

PAGE_BYTES = mmap.PAGESIZE
_CACHESTAT = 451  # the same on every architecture Linux numbers uniformly
_OVERLAYFS = 0x794C7630
_ZFS = 0x2FC12FC1  # caches in its own ARC: the page cache does not show it
_CAP_FOWNER = 3
_PROT_READ, _MAP_SHARED = 1, 1
# Linux's struct statfs begins with the filesystem's type, and is smaller than this everywhere.
_STATFS_WORDS = 32


class PagesHidden(Exception):
    """This file's pages cannot be counted; the message says why."""


class PageCounter:
    """Counts cached pages; remembers which call it used."""

    def __init__(self, use_cachestat: bool | None = None) -> None:
        # PyDLL: these calls take a microsecond or two, and releasing the GIL costs more than that.
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._range = (ctypes.c_uint64 * 2)()
        self._counts = (ctypes.c_uint64 * 5)()
        self._range_at, self._counts_at = ctypes.addressof(self._range), ctypes.addressof(self._counts)
        self._call = self._libc.syscall
        self._call.restype = ctypes.c_long
        self._call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
        self._mmap, self._munmap, self._mincore = self._libc.mmap, self._libc.munmap, self._libc.mincore
        self._mmap.restype = ctypes.c_void_p
        self._mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
        self._munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._statfs = (ctypes.c_long * _STATFS_WORDS)()
        self._may_all = _has_capability(_CAP_FOWNER)
        self.has_cachestat = self._probe() if use_cachestat is None else use_cachestat
        self.used: set[str] = set()
        self._folder: str | None = None
        self._by_mincore = False

    def _probe(self) -> bool:
        # A kernel that has the call complains about the descriptor; one without it, or a container's filter that
        # forbids it, answers ENOSYS or EPERM first.
        return self._call(_CACHESTAT, -1, self._range_at, self._counts_at, 0) < 0 and ctypes.get_errno() == errno.EBADF

    def enter(self, folder: str, fd: int) -> None:
        """Check once per folder which call its filesystem needs; `fd` is open on a file in it."""
        if folder == self._folder:
            return
        self._folder = folder
        kind = 0
        if self._libc.fstatfs(ctypes.c_int(fd), ctypes.byref(self._statfs)) == 0:
            kind = self._statfs[0] & 0xFFFFFFFF
        if kind == _ZFS:
            self._folder = None
            raise PagesHidden("zfs caches outside the page cache")
        self._by_mincore = kind == _OVERLAYFS or not self.has_cachestat

    def count(self, fd: int, offset: int, length: int, path: str) -> int:
        """Return how many pages of [offset, offset + length) are cached; the offset lies on a page."""
        if self._by_mincore:
            return self._by_mapping(fd, offset, length, path)
        self._range[0], self._range[1] = offset, length
        if self._call(_CACHESTAT, fd, self._range_at, self._counts_at, 0) == 0:
            self.used.add("cachestat")
            cached: int = self._counts[0]
            # A large page may reach beyond the end of the file.
            return min(cached, (length + PAGE_BYTES - 1) // PAGE_BYTES)
        code = ctypes.get_errno()
        if code == errno.EPERM:
            raise PagesHidden("only a file's owner, its writers and root may see its pages")
        if code in (errno.EOPNOTSUPP, errno.ENOSYS):
            return self._by_mapping(fd, offset, length, path)
        raise PagesHidden(f"cachestat: {os.strerror(code)}")

    def _by_mapping(self, fd: int, offset: int, length: int, path: str) -> int:
        if not (self._may_all or os.fstat(fd).st_uid == os.geteuid() or _may_write(path)):
            raise PagesHidden("only a file's owner, its writers and root may see its pages")
        where = self._mmap(None, length, _PROT_READ, _MAP_SHARED, fd, offset)
        if where is None or where == ctypes.c_void_p(-1).value:
            raise PagesHidden(f"mmap: {os.strerror(ctypes.get_errno())}")
        pages = ctypes.create_string_buffer((length + PAGE_BYTES - 1) // PAGE_BYTES)
        failed = self._mincore(where, length, pages)
        code = ctypes.get_errno()
        self._munmap(where, length)
        if failed:
            raise PagesHidden(f"mincore: {os.strerror(code)}")
        self.used.add("mincore")
        # Only the lowest bit means anything.
        return sum(pages.raw.translate(_LOWEST_BIT))


_LOWEST_BIT = bytes(value & 1 for value in range(256))


def _may_write(path: str) -> bool:
    """Return what the kernel asks, besides ownership, before mincore answers correctly (can_do_mincore)."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _has_capability(bit: int) -> bool:
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"CapEff:"):
                    return bool(int(line.split()[1], 16) >> bit & 1)
    except (OSError, ValueError, IndexError):
        pass
    return os.geteuid() == 0
