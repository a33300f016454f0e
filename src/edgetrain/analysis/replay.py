"""Replays a loader pipeline with its costs scaled down, and traces every microsecond of stall to the cost that made it.

What a worker did while the loop waited is not what made the loop wait: with prefetching, stalls occur at the end of a
batch, whatever happens there. So the pipeline is simulated again from the recorded service times (when an index is
sent, a worker is free and the loop asks again follows from them), and the simulation also computes the rate of every
instant: its derivative when all costs grow a little, split by cause. Where two conditions must both be met, the later
one decides, and its rate is used. The rate of the stall is thus that of the critical path.

One replay gives the composition of the last microsecond of stall, and a cause may be hidden until another has grown.
So all costs are scaled together from zero to their recorded size, and the rates are averaged (the cost sharing of
Aumann and Shapley): causes in series share in proportion to their time, a cost that the pipeline hides at every scale
gets nothing.

Usual costs are scaled first, unusual ones after them: of each service, what exceeds the block's median is unusual.
A slow read every tenth batch then gets all the stall it adds, and does not share it with the
pre-processing that the pipeline hides on every other batch. All costs together give the recorded instants, none at all
gives no stall.

Blocks of minibatches are replayed in parallel as columns: they are independent, and each starts from the
recorded state some minibatches before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
CAUSES = 4
SCALES: Floats = (np.arange(8) + 0.5) / 8  # factors by which costs are multiplied, from near 0 to near 1
# First the usual costs are scaled up, then the unusual ones with the usual at full size; instants are [stage, scale,
# block].
STAGES = 2
COMPUTES: Floats = np.array([0.0, 1.0, 1.0, 0.0])  # causes during which a fetch may hold its interpreter's lock
SIDE_BY_SIDE = 256  # blocks replayed at once: bounds the memory


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Minibatches in the order the loop took them, in µs; the second axis of the four services is the cause.

    `previous` and `sender` are rows: the minibatch the same worker made before this one, and the one whose delivery
    sent this one's index. -1: before the record, then `free_us` and `sent_us` stand.
    """

    asked_us: Floats
    ready_us: Floats
    done_us: Floats  # the step had finished
    sent_us: Floats
    free_us: Floats  # the worker had finished its previous fetch
    previous: Ints
    following: Ints  # the minibatch that the same worker made next, or -1
    sender: Ints
    own: NDArray[np.bool_]  # the loop fetched it itself
    dispatch_us: Floats  # index sent and worker free, to fetch begun
    fetch_us: Floats
    ship_us: Floats  # fetched, to on its way
    receive_us: Floats  # from sent (or asked for) to received by the loop
    ship_lock_us: Floats  # of shipping, and of receiving: waiting for the lock of a worker busy with a later fetch
    receive_lock_us: Floats
    holder: Ints  # that later fetch, while the loop receives, or -1


class Instant(NamedTuple):
    """Instants of many blocks, µs, and their rates by cause."""

    at: Floats
    rate: Floats  # one more axis: the cause

    def after(self, service: Instant) -> Instant:
        """Return when a service that began at this instant ends."""
        return Instant(self.at + service.at, self.rate + service.rate)

    def later(self, other: Instant) -> Instant:
        """Return the later of two instants, with its rate."""
        return self.where(self.at >= other.at, other)

    def where(self, mine: Bools, other: Instant) -> Instant:
        """Return this instant where the mask says so, else the other."""
        return Instant(np.where(mine, self.at, other.at), np.where(mine[..., None], self.rate, other.rate))


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the minibatches of many blocks, [block, row, cause]: what is usual of it, and what is not."""

    usual: Floats
    unusual: Floats

    @classmethod
    def of(cls, taken: Floats, inside: Bools) -> Service:
        """Split at the median of the rows that are inside their block."""
        ordered = np.sort(np.where(inside[:, :, None], taken, np.inf), axis=1)
        count, blocks = inside.sum(axis=1), np.arange(len(taken))
        median = (ordered[blocks, (count - 1) // 2] + ordered[blocks, count // 2]) / 2
        usual = np.minimum(taken, median[:, None, :])
        return cls(usual, taken - usual)

    def at(self, k: int) -> Instant:
        """Return how long it takes for the k-th minibatches, in both stages and at every scale."""
        usual, unusual = self.usual[:, k].sum(axis=1), self.unusual[:, k].sum(axis=1)
        scales = SCALES[:, None]
        took = np.stack([scales * usual, usual + scales * unusual])
        return Instant(took, self.rate_at(np.full(len(usual), k)))

    def rate_at(self, places: Ints) -> Floats:
        """Return the rates of one minibatch of each block, the same at every scale."""
        blocks = np.arange(len(places))
        return np.stack([self.usual[blocks, places], self.unusual[blocks, places]])[:, None]


def stall_by_cause(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return for each block [first, stop) the part of the stall of [counted, stop) that each cause makes, µs."""
    parts = np.zeros((len(first), CAUSES))
    for start in range(0, len(first), SIDE_BY_SIDE):
        some = slice(start, start + SIDE_BY_SIDE)
        # The mean rate over the scales of a stage is the stall that the stage adds.
        parts[some] = _rates(line, first[some], counted[some], stop[some]).mean(axis=1).sum(axis=0)
    return parts


def _rates(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return the rate of each block's stall, [stage, scale, block, cause], µs."""
    blocks, length = len(first), int((stop - first).max())
    each = np.arange(blocks)
    rows = np.minimum(first[:, None] + np.arange(length), len(line.asked_us) - 1)
    inside = first[:, None] + np.arange(length) < stop[:, None]
    counts = (inside & (rows >= counted[:, None])).astype(float)
    zero = line.asked_us[first][:, None]  # instants relative to each block's start keep their microseconds

    def service(values: Floats) -> Service:
        return Service.of(values[rows], inside)

    dispatch, fetch, ship, receive = map(service, (line.dispatch_us, line.fetch_us, line.ship_us, line.receive_us))
    ship_lock, receive_lock = (service(values[:, None]) for values in (line.ship_lock_us, line.receive_lock_us))
    own = line.own[rows]
    sender, previous = line.sender[rows] - first[:, None], line.previous[rows] - first[:, None]
    next_made, holder = line.following[rows], line.holder[rows]
    next_sender = np.where(next_made >= 0, line.sender[next_made], -1) - first[:, None]
    next_sender = np.where(next_sender < np.arange(length), next_sender, -1)  # sent since: there was no backlog
    sent_before, free_before = line.sent_us[rows] - zero, line.free_us[rows] - zero
    asked, ready_then = line.asked_us[rows] - zero, line.ready_us[rows] - zero
    done_then = line.done_us[rows] - zero
    # What the accelerator was at before a block is not in it; a block's first minibatches do not count.
    begun = np.maximum(ready_then, np.concatenate([asked[:, :1], done_then[:, :-1]], axis=1))
    compute = np.maximum(done_then - begun, 0.0)
    following = np.minimum(rows + 1, len(line.asked_us) - 1)
    asked_next = line.asked_us[following] - zero
    waits_for_step = asked_next >= done_then  # the loop asked again only when the step was over
    gap = np.maximum(asked_next - np.where(waits_for_step, done_then, ready_then), 0.0)

    shape = (STAGES, len(SCALES), blocks, length)
    ready = Instant(np.zeros(shape), np.zeros((*shape, CAUSES)))
    ended = Instant(np.zeros(shape), np.zeros((*shape, CAUSES)))
    still = np.zeros((*shape[:3], CAUSES))  # recorded instants do not move
    now = Instant(np.broadcast_to(asked[:, 0], shape[:3]), still)
    done = now
    total = np.zeros_like(still)

    def earlier(known: Instant, row: Ints, before: Floats) -> Instant:
        """Return what an earlier minibatch of the block came to; the recorded instant where there is none."""
        place = np.maximum(row, 0)
        found = Instant(known.at[:, :, each, place], known.rate[:, :, each, place])
        recorded = Instant(np.broadcast_to(before, found.at.shape), still)
        return found.where(np.broadcast_to(row >= 0, found.at.shape), recorded)

    def held_by(row: Ints) -> Floats:
        """Return the rates of the computing in a fetch of the block."""
        place = row - first
        known = (row >= 0) & (place >= 0) & (place < length)
        return fetch.rate_at(np.where(known, place, 0)) * (known[:, None] * COMPUTES)

    for k in range(length):
        sent = earlier(ready, sender[:, k], sent_before[:, k])
        free = earlier(ended, previous[:, k], free_before[:, k])
        by_worker = sent.later(free).after(dispatch.at(k))
        begins = now.where(np.broadcast_to(own[:, k], now.at.shape), by_worker)
        fetched = begins.after(fetch.at(k))
        ended.at[..., k], ended.rate[..., k, :] = fetched
        # The lock is kept by what computes in a later fetch, and by a worker that is behind and goes straight on.
        behind = fetched.rate - earlier(ready, next_sender[:, k], still[..., 0]).rate
        shipped = fetched.after(ship.at(k)).after(_of(ship_lock.at(k), behind, held_by(next_made[:, k])))
        got = shipped.later(now).after(receive.at(k)).after(_of(receive_lock.at(k), behind, held_by(holder[:, k])))
        ready.at[..., k], ready.rate[..., k, :] = got
        idle = now.later(done)
        total += np.where((got.at > idle.at)[..., None], got.rate - idle.rate, 0.0) * counts[:, k, None]
        finished = got.later(done)
        done = Instant(finished.at + compute[:, k], finished.rate)
        onward = done.where(np.broadcast_to(waits_for_step[:, k], done.at.shape), got)
        now = Instant(onward.at + gap[:, k], onward.rate)
    return total


def _of(lock: Instant, behind: Floats, held: Floats) -> Instant:
    """Return a wait for a lock, its rate shared out among what put the worker behind and what held the lock."""
    grows = np.maximum(behind, 0.0) + held
    shares = grows / np.maximum(grows.sum(axis=-1, keepdims=True), 1e-9)
    return Instant(lock.at, lock.rate * shares)
