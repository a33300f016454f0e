"""A group of registers of one probe, read together; what cannot be read is NaN and counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgetrain.device.tree import Register, Tree
from edgetrain.errors import ProbeUnavailable

NAN = math.nan


class Reader:
    """Registers that are opened once. A file that vanished is opened again when it comes back."""

    def __init__(self, tree: Tree, names: Sequence[str]) -> None:
        self._tree = tree
        self._names = list(names)
        self._open: list[Register | None] = []
        for name in names:
            try:
                self._open.append(tree.register(name))
            except ProbeUnavailable:
                self._open.append(None)
        self.failures = 0
        if names and not any(self._open):
            raise ProbeUnavailable(f"none of {', '.join(names[:3])} can be read")

    def text(self, index: int) -> str | None:
        """Return what a register says now, or None, counted."""
        register = self._open[index]
        try:
            if register is None:
                register = self._open[index] = self._tree.register(self._names[index])
            return register.read()
        except (BlockingIOError, TimeoutError):  # EAGAIN: the block is off; the descriptor stays good
            self.failures += 1
        except (OSError, ProbeUnavailable):
            # ENODEV after a core went offline: the descriptor never recovers, the path may.
            self.failures += 1
            if register is not None:
                register.close()
            self._open[index] = None
        return None

    def number(self, index: int, scale: float = 1.0) -> float:
        """Return a register as a number, NaN where it gave none."""
        text = self.text(index)
        try:
            return float(text) * scale if text else NAN
        except ValueError:
            self.failures += 1
            return NAN

    def close(self) -> None:
        """Close every register; safe to call twice."""
        for register in self._open:
            if register is not None:
                register.close()
        self._open = [None] * len(self._names)
