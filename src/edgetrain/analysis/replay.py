"""Replays a loader pipeline with its costs scaled down, and traces every microsecond of stall to the cost that made it.

What a worker did while the loop waited is not what made the loop wait: with prefetching, a stall locks to the end of a
batch, whatever that end happens to hold. So the pipeline is run again from the recorded service times (when an index
is sent, when a worker is free, when the loop asks again all follow), and along with every instant goes its rate: by
how much it would come later if all costs grew a little, and which cause's cost that is. Where two things must both
have happened, the later one decides, and its rate is taken. The rate of the stall is thus read off the critical path.

One replay tells what the last microsecond of stall is made of, not the first: a cause may be hidden until another has
grown. So all costs grow together from nothing to what they were, and the rates are averaged on the way (the cost
sharing of Aumann and Shapley): causes that add up behind one another share in proportion to their time, a cost that
the pipeline hides at every size gets nothing.

The usual costs grow first, the unusual after them: of each service, what lies above the block's median is the unusual.
A slow read every tenth batch then answers for all the stall it adds, and does not share the blame with the
pre-processing that the pipeline hides on every other batch. All costs together give the recorded instants, none at all
gives no stall.

Blocks of minibatches are replayed side by side as columns: they do not talk to each other, and each starts from the
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
SIZES: Floats = (np.arange(8) + 0.5) / 8  # the costs on their way from nothing to what they were
LANES = 2 * len(SIZES)  # the usual grow, then everything usual while the unusual grow
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
    receive_us: Floats  # on its way (or asked for), to in the loop's hands
    ship_lock_us: Floats  # of shipping, and of receiving: waiting for the lock of a worker busy with a later fetch
    receive_lock_us: Floats
    holder: Ints  # that later fetch, while the loop receives, or -1


class Instant(NamedTuple):
    """Instants of many lanes and blocks, µs, and their rates by cause."""

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


def stall_by_cause(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return for each block [first, stop) the part of the stall of [counted, stop) that each cause makes, µs."""
    parts = np.zeros((len(first), CAUSES))
    for start in range(0, len(first), SIDE_BY_SIDE):
        some = slice(start, start + SIDE_BY_SIDE)
        # Each half of the lanes is one way to grow; its mean rate is what was added on that way.
        parts[some] = _rates(line, first[some], counted[some], stop[some]).sum(axis=0) / len(SIZES)
    return parts


def _rates(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return the rate of each block's stall in each lane, [lane, block, cause], µs."""
    blocks, length = len(first), int((stop - first).max())
    lanes = np.arange(blocks)
    rows = np.minimum(first[:, None] + np.arange(length), len(line.asked_us) - 1)
    inside = first[:, None] + np.arange(length) < stop[:, None]
    counts = (inside & (rows >= counted[:, None])).astype(float)
    zero = line.asked_us[first][:, None]  # instants relative to each block's start keep their microseconds

    def service(values: Floats) -> Instant:
        taken = values[rows]
        usual = np.minimum(taken, np.nanmedian(np.where(inside[:, :, None], taken, np.nan), axis=1, keepdims=True))
        unusual = taken - usual
        sums, more = usual.sum(axis=2), unusual.sum(axis=2)
        at = [size * sums for size in SIZES] + [sums + size * more for size in SIZES]
        return Instant(np.stack(at), np.stack([usual] * len(SIZES) + [unusual] * len(SIZES)))

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

    shape = (LANES, blocks, length)
    ready = Instant(np.zeros(shape), np.zeros((*shape, CAUSES)))
    ended = Instant(np.zeros(shape), np.zeros((*shape, CAUSES)))
    still = np.zeros((LANES, blocks, CAUSES))  # recorded instants do not move
    now = Instant(np.repeat(asked[None, :, 0], LANES, axis=0), still)
    done = now
    total = np.zeros_like(still)

    def earlier(known: Instant, row: Ints, before: Floats) -> Instant:
        """Return what an earlier minibatch of the block came to; the recorded instant where there is none."""
        place = np.maximum(row, 0)
        found = Instant(known.at[:, lanes, place], known.rate[:, lanes, place])
        recorded = Instant(np.broadcast_to(before, found.at.shape), still)
        return found.where(np.broadcast_to(row >= 0, found.at.shape), recorded)

    def held_by(row: Ints) -> Floats:
        """Return the rates of the computing in a fetch of the block."""
        place = row - first
        known = (row >= 0) & (place >= 0) & (place < length)
        return np.where(known[:, None], fetch.rate[:, lanes, np.where(known, place, 0)], 0.0) * COMPUTES

    for k in range(length):
        sent = earlier(ready, sender[:, k], sent_before[:, k])
        free = earlier(ended, previous[:, k], free_before[:, k])
        by_worker = sent.later(free).after(_at(dispatch, k))
        begins = now.where(np.broadcast_to(own[:, k], now.at.shape), by_worker)
        fetched = begins.after(_at(fetch, k))
        ended.at[:, :, k], ended.rate[:, :, k] = fetched
        # The lock is kept by what computes in a later fetch, and by a worker that is behind and goes straight on.
        behind = fetched.rate - earlier(ready, next_sender[:, k], still[..., 0]).rate
        shipped = fetched.after(_at(ship, k)).after(_of(ship_lock, k, behind, held_by(next_made[:, k])))
        got = shipped.later(now).after(_at(receive, k)).after(_of(receive_lock, k, behind, held_by(holder[:, k])))
        ready.at[:, :, k], ready.rate[:, :, k] = got
        idle = now.later(done)
        total += np.where((got.at > idle.at)[..., None], got.rate - idle.rate, 0.0) * counts[:, k, None]
        finished = got.later(done)
        done = Instant(finished.at + compute[:, k], finished.rate)
        onward = done.where(np.broadcast_to(waits_for_step[:, k], done.at.shape), got)
        now = Instant(onward.at + gap[:, k], onward.rate)
    return total


def _at(service: Instant, k: int) -> Instant:
    return Instant(service.at[:, :, k], service.rate[:, :, k])


def _of(lock: Instant, k: int, behind: Floats, held: Floats) -> Instant:
    """Return a wait for a lock, its rate shared out among what put the worker behind and what held the lock."""
    grows = np.maximum(behind, 0.0) + held
    shares = grows / np.maximum(grows.sum(axis=-1, keepdims=True), 1e-9)
    return Instant(lock.at[:, :, k], lock.rate[:, :, k] * shares)
