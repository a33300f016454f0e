"""Numbers the places in a program from which batches are asked for.

A place is the instruction of the caller and of its callers, a few frames up: two `next` calls of one step are two
places, whether they call the loader directly or through the same generator or helper function. Frames of torch and of
this package do not count.
"""

from __future__ import annotations

import opcode
import sys
from types import CodeType
from typing import Any

DEPTH = 8  # frames: enough to get from Lightning's innermost loop to the user's training step
MAX_SITES = 10000  # a program that makes new code all the time must not fill the memory
SKIPPED = ("torch.", "edgetrain.inside.", "edgetrain_inside.")  # this package has two names
# Python 3.11 calls with two instructions, PRECALL and CALL, and from the first one on once it has specialised them: the
# same call is then seen at another instruction.
PRECALL = opcode.opmap.get("PRECALL") if sys.version_info[:2] == (3, 11) else None
PRECALL_BYTES = 4
CO_GENERATOR = 0x20


class _Mark:
    """Names a generator, as the trace function of its frame."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, *unused: Any) -> None:
        return None


class Sites:
    """Call sites of one process, numbered from 0 in the order they were first seen."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._keys: list[tuple[int, ...]] = []  # by number
        # By the id of a code object: instructions that count as the one after them; None: frames of it do not count.
        self._known: dict[int, frozenset[int] | None] = {}
        self._generators = 0
        self._codes: dict[int, CodeType] = {}  # keeps those alive: an id is good for as long as its object lives

    def number(self, frame: Any) -> int | None:
        """Return the number of the place that this frame is at; None where there are too many."""
        place = self._key(frame)
        number = self._numbers.get(place)
        if number is None and len(self._numbers) < MAX_SITES:
            number = self._numbers[place] = len(self._numbers)
            self._keys.append(place)
        return number

    def has_gone_on(self, site: int | None, frame: Any) -> bool:
        """Return whether the program, now at this frame, has left the statement that asked for a batch at a place.

        Not while the batch is still on its way to the loop: in `next(iter(loader))`, or in a function that returns it.
        """
        if site is None:
            return False
        here, there = self._key(frame), self._keys[site]
        if here == there or not there:
            return False
        code = self._codes.get(there[0])
        suspended = code is not None and bool(code.co_flags & CO_GENERATOR)  # a generator that has delivered it
        return here[:1] == there[:1] or suspended

    def _key(self, frame: Any) -> tuple[int, ...]:
        known = self._known
        key = []
        left = DEPTH
        while frame is not None and left:
            identity = id(frame.f_code)
            moved = known[identity] if identity in known else self._learn(frame)
            if moved is not None:
                at = frame.f_lasti
                key.append(identity)
                key.append(at + PRECALL_BYTES if at in moved else at)
                left -= 1
            frame = frame.f_back
        return tuple(key)

    def generator(self, frame: Any) -> int:
        """Return which generator asks for a batch in this frame, as a number; 0 where it is not a generator.

        Frames are marked, because a new generator may have the address of one that has ended. A frame's trace function
        is called only while the program is traced, and this one does nothing.
        """
        while frame is not None:
            if (self._known[id(frame.f_code)] if id(frame.f_code) in self._known else self._learn(frame)) is not None:
                break
            frame = frame.f_back
        if frame is None or not frame.f_code.co_flags & CO_GENERATOR:
            return 0
        if frame.f_trace is None and sys.gettrace() is None:
            self._generators += 1
            frame.f_trace = _Mark(self._generators)
        return frame.f_trace.number if isinstance(frame.f_trace, _Mark) else id(frame)

    def _learn(self, frame: Any) -> frozenset[int] | None:
        name = str(frame.f_globals.get("__name__") or "")
        code = frame.f_code
        moved: frozenset[int] | None = None
        if name != "torch" and not name.startswith(SKIPPED):
            moved = frozenset() if PRECALL is None else _places(code.co_code, PRECALL)
        if len(self._codes) < MAX_SITES:
            self._codes[id(code)] = code
            self._known[id(code)] = moved
        return moved


def _places(instructions: bytes, wanted: int) -> frozenset[int]:
    return frozenset(at for at in range(0, len(instructions), 2) if instructions[at] == wanted)
