"""Sends messages and polls for replies with our own interval and deadline; everything else is the grid's.

Flower polls every 3 s, so its timeout is late by up to that, and a message's ttl is no deadline: it also bounds the
life of the reply, so that a reply which is nearly late is lost too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

POLL_S = 0.5
logger = logging.getLogger(__name__)


class PollingGrid(Grid):
    """A grid around Flower's. `limit_s()` gives the limit of the exchange that begins; None: the caller's timeout."""

    def __init__(
        self,
        grid: Grid,
        limit_s: Callable[[], float | None] = lambda: None,
        poll_s: float = POLL_S,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._grid, self._limit_s, self._poll_s = grid, limit_s, poll_s
        self._now_s, self._sleep = now_s, sleep
        self.sent: dict[str, int] = {}  # of the last exchange: message ID to node ID
        self.unsent: list[int] = []  # nodes whose message the SuperLink did not take
        self.wall_s = 0.0  # of the last exchange

    def set_run(self, run: object) -> None:
        """Set the run, as Flower does."""
        self._grid.set_run(run)

    @property
    def run(self) -> object:
        """The run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message, as Flower does."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are online."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; return their IDs."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send messages and return the replies that came within the limit."""
        batch = list(messages)
        began_s = self._now_s()
        limits = [each for each in (timeout, self._limit_s()) if each is not None]
        until_s = began_s + min(limits) if limits else None
        ids = list(self._grid.push_messages(batch))
        ids += [""] * (len(batch) - len(ids))  # a SuperLink that is full takes none
        nodes = [message.metadata.dst_node_id for message in batch]
        self.sent = {each: node for each, node in zip(ids, nodes, strict=True) if each}
        self.unsent = [node for each, node in zip(ids, nodes, strict=True) if not each]
        waiting, replies = set(self.sent), []
        while waiting:
            for reply in self._grid.pull_messages(list(waiting)):
                waiting.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
            left_s = self._poll_s if until_s is None else min(self._poll_s, until_s - self._now_s())
            if not waiting or left_s <= 0:
                break
            self._sleep(left_s)
        self.wall_s = self._now_s() - began_s
        if waiting:
            logger.warning("%d of %d messages were not answered within %.1f s", len(waiting), len(ids), self.wall_s)
        return replies

    def node_of(self, reply: Message) -> int | None:
        """Return the node that a reply of the last exchange answers for: errors of the SuperLink name it as source."""
        return self.sent.get(reply.metadata.reply_to_message_id)
