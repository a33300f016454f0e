"""Fixed-size records of one file, read one by one with pread.

Loading such a file whole would be simpler, and would hide what we measure: nothing would be read while training,
cold or warm. A memory map would pin the pages that `--cache cold` must drop. pread has no shared position, so forked
workers may share the descriptor; a spawned one opens its own.
"""

from __future__ import annotations

import os

from edgetrain.workload.errors import TrainingError


class RecordFile:
    """Records of `size_bytes` behind a header, each `stride_bytes` after the last (token windows overlap by one)."""

    def __init__(self, path: str, header_bytes: int, size_bytes: int, stride_bytes: int | None = None) -> None:
        self.path, self.header_bytes, self.size_bytes = path, header_bytes, size_bytes
        self.stride_bytes = stride_bytes or size_bytes
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, index: int) -> bytes:
        """Return one record; raises where the file has become shorter than its header says."""
        offset_bytes = self.header_bytes + index * self.stride_bytes
        data = os.pread(self._fd, self.size_bytes, offset_bytes)
        if len(data) != self.size_bytes:
            raise TrainingError(
                f"{self.path} ends inside the record at byte {offset_bytes}; fetch or generate the dataset again"
            )
        return data

    def __reduce__(self) -> tuple[type[RecordFile], tuple[str, int, int, int]]:
        # A spawned worker opens the file itself.
        return RecordFile, (self.path, self.header_bytes, self.size_bytes, self.stride_bytes)

    def __del__(self) -> None:
        fd = self.__dict__.get("_fd")
        if fd is not None:
            try:
                os.close(fd)
            except OSError:
                pass
