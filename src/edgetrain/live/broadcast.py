"""One reading of the store for all readers: a slow one skips, one that left costs nothing, without any none is made."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

_LOG = logging.getLogger(__name__)
HEARTBEAT_S = 15.0  # so that proxies and browsers keep a silent connection
MAX_READERS = 200


class Mailbox:
    """Holds the newest message only: a reader that is slow finds the newest one, never a backlog."""

    def __init__(self) -> None:
        self._newest: str | None = None
        self._there = asyncio.Event()

    def put(self, message: str | None) -> None:
        """Replace what is there; None is the end."""
        self._newest = message
        self._there.set()

    async def take(self) -> str | None:
        """Wait for a message and return it; None at the end."""
        await self._there.wait()
        self._there.clear()
        message, self._newest = self._newest, None
        return message


class Broadcaster:
    """Calls `read` every `interval_s` while somebody listens, and gives what it returns to every reader."""

    def __init__(self, read: Callable[[], Awaitable[str]], interval_s: float = 2.0) -> None:
        self._read, self._interval_s = read, interval_s
        self._boxes: set[Mailbox] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest: str | None = None
        self._closed = False

    @property
    def readers(self) -> int:
        """How many listen."""
        return len(self._boxes)

    async def listen(self, heartbeat_s: float = HEARTBEAT_S) -> AsyncIterator[str]:
        """Yield server-sent events until the reader goes away or the server stops."""
        if self._closed:
            return
        box = Mailbox()
        self._boxes.add(box)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go_on())
        elif self._newest is not None:
            box.put(self._newest)
        try:
            yield "retry: 3000\n\n"
            while True:
                try:
                    message = await asyncio.wait_for(box.take(), heartbeat_s)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"
                    continue
                if message is None:
                    return
                yield "".join(f"data: {line}\n" for line in message.split("\n")) + "\n"
        finally:
            self._boxes.discard(box)

    async def _go_on(self) -> None:
        while self._boxes:
            try:
                self._newest = await self._read()
            except Exception:  # whatever it was: open pages must not wait for ever for a task that has ended
                _LOG.exception("the live page could not be renewed; trying again")
            else:
                for box in tuple(self._boxes):
                    box.put(self._newest)
            await asyncio.sleep(self._interval_s)
        self._newest = None

    async def close(self) -> None:
        """Stop reading, and end what every reader listens to."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for box in tuple(self._boxes):
            box.put(None)
