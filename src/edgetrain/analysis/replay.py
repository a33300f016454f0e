"""Replays a loader pipeline with causes removed, and shares the stall among them by how much of it each makes.

What a worker did while the loop waited is not what made the loop wait: with prefetching, a stall locks to the end of a
batch, whatever that end happens to hold. So the pipeline is run again, from the recorded service times, under every
subset of causes: a cause that is absent takes its microseconds with it, everything else follows (when an index is
sent, when a worker is free, when the loop asks again). The stall that a cause adds, averaged over all orders in which
the causes could be put back (its Shapley value), is its part.

The usual costs are put back first, the unusual after them: of each service, what lies above the block's median is the
unusual. A slow read every tenth batch then answers for all the stall it adds, and does not share the blame with the
pre-processing that the pipeline hides on every other batch. All costs together give the recorded instants, none at all
gives no stall, and the parts sum to it.

Blocks of minibatches are replayed side by side as columns: they do not talk to each other, and each starts from the
recorded state some minibatches before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CAUSES = 4
SUBSETS = 1 << CAUSES
LANES = 2 * SUBSETS  # subsets of the usual, then everything usual with subsets of the unusual
MASKS: Floats = np.array([[float(subset >> cause & 1) for cause in range(CAUSES)] for subset in range(SUBSETS)])
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
    sender: Ints
    own: NDArray[np.bool_]  # the loop fetched it itself
    dispatch_us: Floats  # index sent and worker free, to fetch begun
    fetch_us: Floats
    ship_us: Floats  # fetched, to on its way
    receive_us: Floats  # on its way (or asked for), to in the loop's hands


def stall_by_cause(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return for each block [first, stop) the part of the stall of [counted, stop) that each cause makes, µs."""
    parts = np.zeros((len(first), CAUSES))
    for start in range(0, len(first), SIDE_BY_SIDE):
        some = slice(start, start + SIDE_BY_SIDE)
        worth = _stalls(line, first[some], counted[some], stop[some])
        parts[some] = shapley(worth[:SUBSETS]) + shapley(worth[SUBSETS:])
    return parts


def shapley(worth: Floats) -> Floats:
    """Return what each cause adds, averaged over all orders; `worth` is [subset, block]."""
    parts = np.zeros((worth.shape[1], CAUSES))
    for cause in range(CAUSES):
        for subset in range(SUBSETS):
            if subset >> cause & 1:
                continue
            size = bin(subset).count("1")
            weight = factorial(size) * factorial(CAUSES - 1 - size) / factorial(CAUSES)
            parts[:, cause] += weight * (worth[subset | 1 << cause] - worth[subset])
    return parts


def _stalls(line: Pipeline, first: Ints, counted: Ints, stop: Ints) -> Floats:
    """Return the stall of each block in each lane, [lane, block], µs."""
    blocks, length = len(first), int((stop - first).max())
    lanes = np.arange(blocks)
    rows = np.minimum(first[:, None] + np.arange(length), len(line.asked_us) - 1)
    inside = first[:, None] + np.arange(length) < stop[:, None]
    counts = (inside & (rows >= counted[:, None])).astype(float)
    zero = line.asked_us[first][:, None]  # instants relative to each block's start keep their microseconds

    def service(values: Floats) -> Floats:
        taken = values[rows]
        usual = np.minimum(taken, np.nanmedian(np.where(inside[:, :, None], taken, np.nan), axis=1, keepdims=True))
        unusual = usual.sum(axis=2) + np.einsum("mc,blc->mbl", MASKS, taken - usual)
        lanes_us: Floats = np.concatenate([np.einsum("mc,blc->mbl", MASKS, usual), unusual])
        return lanes_us

    dispatch, fetch, ship, receive = map(service, (line.dispatch_us, line.fetch_us, line.ship_us, line.receive_us))
    own = line.own[rows]
    sender, previous = line.sender[rows] - first[:, None], line.previous[rows] - first[:, None]
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

    ready = np.zeros((LANES, blocks, length))
    ended = np.zeros((LANES, blocks, length))
    now = np.repeat(asked[None, :, 0], LANES, axis=0)
    done = now
    total = np.zeros((LANES, blocks))
    for k in range(length):
        sent = np.where(sender[:, k] >= 0, ready[:, lanes, np.maximum(sender[:, k], 0)], sent_before[:, k])
        free = np.where(previous[:, k] >= 0, ended[:, lanes, np.maximum(previous[:, k], 0)], free_before[:, k])
        begins = np.where(own[:, k], now, np.maximum(sent, free) + dispatch[:, :, k])
        ended[:, :, k] = begins + fetch[:, :, k]
        ready[:, :, k] = np.maximum(now, ended[:, :, k] + ship[:, :, k]) + receive[:, :, k]
        total += np.maximum(ready[:, :, k] - np.maximum(now, done), 0.0) * counts[:, k]
        done = np.maximum(ready[:, :, k], done) + compute[:, k]
        now = np.where(waits_for_step[:, k], done, ready[:, :, k]) + gap[:, k]
    return total
