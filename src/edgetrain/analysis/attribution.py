"""Attributes every fetch stall to its cause: blocked, pre-processing, contention for cores, or hand-over.

    blocked       the fetch slept: storage (kernel time of reads that reached the medium too), network, a lock
    preprocess    the fetch computed, in its own thread or in helper threads
    contention    it, the sender or the loop was ready to run and had no core, or the core was stolen by another machine
    handover      pickling, sending, receiving, waking, and starting workers

`summarize` calls `attribute` with the record's columns, the rows that are training minibatches, and the stall of each;
the four parts of each minibatch sum to its stall. How the stall of a block is shared is `replay`; docs/attribution.md
has the reasons and what it was tested against.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.replay import CAUSES, stall_by_cause
from edgetrain.analysis.services import join, services
from edgetrain.record import Table
from edgetrain.schema import Doubt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 64  # minibatches that share one verdict: long against a pipeline's depth, short against a training
MAX_BLOCKS = 2048  # more than this and blocks are picked evenly; the rest take the verdict of the nearest
LEAD = 32  # minibatches replayed before a block counts, so that it does not inherit the recorded backlog
MAX_AHEAD = 1024  # minibatches searched for a pipeline's first filling
MIN_KNOWN = 0.8  # with fewer worker rows than this share of the minibatches there is no verdict
# Under steal the kernel's account of a thread no longer adds up: in trials 45-48 % blocked read as 54-83 % with a
# quarter of the CPU time stolen. Above the first share of the CPU time there is a doubt, above the second no verdict.
DOUBTED_STEAL, MAX_STEAL = 0.05, 0.15


@dataclass(frozen=True, slots=True)
class Attribution:
    """Seconds of each training minibatch's stall, by cause. Without a verdict the parts mean nothing."""

    blocked_s: Floats
    preprocess_s: Floats
    contention_s: Floats
    handover_s: Floats
    verdict: bool
    doubts: tuple[Doubt, ...] = ()


def attribute(
    minibatches: Table, workers: Table, rows: Ints, stall_s: Floats, steal_share: float | None = None
) -> Attribution:
    """Split each stall by cause; without worker columns, or under high steal, there is no verdict.

    `steal_share` is the share of the machine's CPU time that its host gave to others during the run, where known.
    """
    nothing = np.zeros(len(rows))
    if not workers or not len(rows) or not len(workers["batch"]):
        return Attribution(nothing, nothing, nothing, nothing, verdict=False)
    if not np.isin(np.unique(minibatches["loader"][rows]), np.unique(workers["loader"])).any():
        # Not torch's loader: it was timed from the outside, and who made its batches is not known.
        return Attribution(nothing, nothing, nothing, nothing, verdict=False)
    order = _in_passes(minibatches, rows)
    first, counted, stop = _blocks(minibatches, rows[order])
    # Each block is laid out by itself, its lead included: a training of any length costs what its blocks cost.
    lengths = stop - first
    block = np.repeat(np.arange(len(first)), lengths)
    begins = np.cumsum(lengths) - lengths
    laid = np.arange(len(block)) - begins[block] + first[block]  # place of each laid-out row among the ordered ones
    taken = rows[order[laid]]
    place, known = join(minibatches, workers, taken)
    refused, doubts = _doubts(workers, known, steal_share)
    line = services(minibatches, workers, taken, place, known, block)
    counts_from = begins + counted - first
    parts = np.maximum(stall_by_cause(line.pipeline, begins, counts_from, begins + lengths), 0.0)
    shares = _shares(parts, line.direct_us, counts_from, begins + lengths)
    # Blocks that were not picked take the verdict of the nearest that was.
    edges = (counted[1:] + stop[:-1]) / 2
    by_row = shares[np.searchsorted(edges, np.arange(len(rows)), side="right")]
    fill = begins[_begins_pass(minibatches, rows[order])[first]]
    by_row[laid[fill]] = _normalised(line.direct_us[fill])
    split = np.empty_like(by_row)
    split[order] = by_row * stall_s[order, None]
    blocked, preprocess, contention, handover = split.T
    return Attribution(blocked, preprocess, contention, handover, not refused, (*refused, *doubts))


def _in_passes(minibatches: Table, rows: Ints) -> Ints:
    """Return the order that puts each pass over a loader together, as the loop took its minibatches."""
    loader, generation = minibatches["loader"][rows], minibatches["generation"][rows]
    if len(rows) < 2 or not (np.any(loader[1:] != loader[:-1]) or np.any(generation[1:] != generation[:-1])):
        return np.arange(len(rows))
    order: Ints = np.lexsort((minibatches["ready_us"][rows], generation, loader))
    return order


def _blocks(minibatches: Table, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut passes into blocks: where the replay starts, where it starts to count, where it ends."""
    starts = np.flatnonzero(_begins_pass(minibatches, rows))
    pieces = []
    for start, stop in zip(starts.tolist(), np.append(starts[1:], len(rows)).tolist(), strict=True):
        begins = start + 1 if stop - start > 1 else start  # the first minibatch is the fill, split by itself
        settled = begins + _sent_ahead(minibatches, rows[start : min(start + MAX_AHEAD, stop)])
        count = max(1, (stop - settled) // BLOCK)
        cuts = np.linspace(settled, stop, count + 1).astype(np.int64)
        if begins < settled:
            cuts = np.concatenate([[begins], cuts])
        pieces.append(np.stack([np.maximum(cuts[:-1] - LEAD, start), cuts[:-1], cuts[1:]]))
    first, counted, stop_rows = np.concatenate(pieces, axis=1)
    if len(first) > MAX_BLOCKS:
        picked = np.linspace(0, len(first) - 1, MAX_BLOCKS).astype(np.int64)
        first, counted, stop_rows = first[picked], counted[picked], stop_rows[picked]
    return first, counted, stop_rows


def _sent_ahead(minibatches: Table, rows: Ints) -> int:
    """Return how many minibatches after a pass's first were requested from the workers before that one was received.

    They carry the start of the workers, so they are a block of their own, if as many follow.
    """
    if "sent_us" not in minibatches:
        return 0
    sent, ready = minibatches["sent_us"][rows], minibatches["ready_us"][rows]
    ahead = int(np.count_nonzero((sent[1:] >= 0) & (sent[1:] < ready[0])))
    return ahead if 2 * ahead < len(rows) - 1 else 0


def _begins_pass(minibatches: Table, rows: Ints) -> NDArray[np.bool_]:
    loader, generation = minibatches["loader"][rows], minibatches["generation"][rows]
    begins = np.ones(len(rows), bool)
    begins[1:] = (loader[1:] != loader[:-1]) | (generation[1:] != generation[:-1])
    return begins


def _shares(parts: Floats, direct_us: Floats, first: Ints, stop: Ints) -> Floats:
    """Turn parts into shares; a block without stall is split like its services, so that it still has an answer."""
    services_us = np.stack([direct_us[start:end].sum(axis=0) for start, end in zip(first, stop, strict=True)])
    return _normalised(np.where(parts.sum(axis=1, keepdims=True) > 0, parts, services_us))


def _normalised(parts: Floats) -> Floats:
    total = parts.sum(axis=1, keepdims=True)
    even = np.full_like(parts, 1.0 / CAUSES)
    shares: Floats = np.divide(parts, total, out=even, where=total > 0)
    return shares


def _doubts(
    workers: Table, known: NDArray[np.bool_], steal_share: float | None
) -> tuple[tuple[Doubt, ...], tuple[Doubt, ...]]:
    """Return why there is no verdict, and what else makes it uncertain."""
    refused, doubts = [], []
    wall = np.maximum(workers["fetched_us"] - workers["began_us"], 0).sum()
    stolen = np.maximum(workers["stolen_us"], 0).sum() / max(float(wall), 1.0)
    steal = max(stolen, steal_share or 0.0)
    text = f"{steal:.0%} of the CPU time was stolen by this virtual machine's host: what made the loop wait is "
    if steal > MAX_STEAL:
        refused.append(Doubt("steal", text + "not known; measure again when the host is quiet"))
    elif steal > DOUBTED_STEAL:
        doubts.append(Doubt("steal", text + "uncertain, because some of that time counts as blocked or contention"))
    share = float(known.mean())
    if share < MIN_KNOWN:
        refused.append(
            Doubt(
                "workers_unseen",
                f"only {share:.0%} of the minibatches have a record of the worker that made them: what made "
                "the loop wait is not known; check whether a worker was killed",
            )
        )
    return tuple(refused), tuple(doubts)
