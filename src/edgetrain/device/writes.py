"""Values to be written to a board, and writing many of them so that every one is read back."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused, NeedsRoot

TRIES = 3  # a value that did not take is written again: BPMP answers late
State = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Write:
    """One value to be written. `pair` holds the partner's path where the two limit each other."""

    path: str
    value: str
    before: str | None  # what stands there now; None: cannot be read yet
    pair: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.before if self.before is not None else '–'} → {self.value}"


class Writable(Protocol):
    """What writing needs of a board."""

    tree: Tree

    def allowed(self) -> frozenset[str]:
        """Return every path that may be written."""

    def state(self) -> dict[str, str]:
        """Read every settable value."""

    def order(self, wanted: State, now: State) -> list[Write]:
        """Return the writes from one state to another, in a safe order."""


def write_all(board: Writable, wanted: State) -> None:
    """Bring the board into a state: write in its order, read every value back; ControlRefused where one fails.

    What already reads as wanted is not written again: fewer switches. A write may disturb another value (a cap the rate
    under it), so it is looked at as a whole and mended.
    """
    allowed = board.allowed()
    for attempt in range(TRIES):
        for write in board.order(wanted, board.state()):
            if write.path not in allowed:
                raise ControlRefused(f"{write.path} is not on this board's list of settings", path=write.path)
            if write.before == write.value:
                continue
            _write_one(board.tree, write, wanted)
        now = board.state()
        wrong = {name: value for name, value in wanted.items() if now.get(name) != value}
        if not wrong:
            return
        if attempt + 1 < TRIES:
            board.tree.sleep(0.05)
    name, value = next(iter(wrong.items()))
    raise ControlRefused(
        f"asked the board for {value} in {name} but it shows {now.get(name, 'nothing')}"
        + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
        + "; check that no other tool sets the clocks and that this user may",
        asked=dict(wrong),
        found={name: now.get(name) for name in wrong},
    )


def _write_one(tree: Tree, write: Write, wanted: State) -> None:
    try:
        tree.write(write.path, write.value)
    except PermissionError as error:
        raise NeedsRoot(
            f"may not write {write.path}: {error.strerror}; run the same command with sudo",
            command="sudo edgetrain modes set MODE",
            paths=[write.path],
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL and write.pair in wanted:
            # This kernel wants the partner first: write that, then ours again.
            with contextlib.suppress(OSError):
                tree.write(str(write.pair), wanted[str(write.pair)])
            with contextlib.suppress(OSError):
                tree.write(write.path, write.value)
            return  # the read-back decides
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ControlRefused(f"{write.path} runs through a link that was not there before; not written") from error
        if error.errno in (errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ENODEV, errno.ENOENT):
            return  # the read-back decides, after another try
        raise ControlRefused(f"the board refused {write.value} in {write.path}: {error.strerror}") from error
