"""Turns what was recorded of each fetch into service times by cause: dispatch, fetch, shipping, receiving.

    wall of a fetch = thread CPU + run-queue wait + stolen + rest

The rest is blocking, after two corrections: where helper threads computed (or waited for a core) while the fetching
thread slept, their work is the cause; and kernel time of a fetch that read from the medium is storage, not
pre-processing (on a fast disk most of the cost of a cold read is kernel time).

A worker that computes in pure Python holds its interpreter's lock, and its sender and the loop's unpickling wait for
it. Such waiting is kept separate: the replay attributes it to whatever delayed the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.replay import CAUSES, Pipeline
from edgetrain.record import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BLOCKED, PREPROCESS, CONTENTION, HANDOVER = range(CAUSES)
# A fetch that read more than this has waited for the medium: it is a cold one, and all its kernel time is storage's;
# below, in proportion.
COLD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Services:
    """A pipeline to replay, and what each minibatch's own way through it was made of."""

    pipeline: Pipeline
    direct_us: Floats  # [row, cause]: dispatch, fetch, shipping and receiving of this minibatch


def join(minibatches: Table, workers: Table, rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return for each minibatch the row of the worker that made it, and whether there is one."""
    made, wanted = keys(workers, slice(None)), keys(minibatches, rows)
    order = np.argsort(made, kind="stable")
    place = order[np.minimum(np.searchsorted(made, wanted, sorter=order), len(made) - 1)]
    return place, made[place] == wanted


def keys(columns: Table, rows: Ints | slice) -> Ints:
    """Return (loader, generation, batch) of each row as one number: 19, 16 and 28 bits."""
    joined = (columns["loader"][rows] << 44) + (columns["generation"][rows] << 28) + columns["batch"][rows]
    return np.asarray(joined, np.int64)


def services(
    minibatches: Table, workers: Table, rows: Ints, place: Ints, known: NDArray[np.bool_], block: Ints
) -> Services:
    """Return the pipeline of these minibatches, given block by block, each in the order the loop took them."""

    def main(name: str) -> Floats:
        found = minibatches.get(name)
        return np.full(len(rows), np.nan) if found is None else _seen(found[rows])

    def made(name: str) -> Floats:
        found = workers.get(name)
        if found is None:
            return np.full(len(rows), np.nan)
        return np.where(known, _seen(found[place]), np.nan)

    asked, ready, sent = main("asked_us"), main("ready_us"), main("sent_us")
    began, fetched = made("began_us"), made("fetched_us")
    own = known & np.isnan(made("worker"))
    fetch = _fetch(made, fetched - began)
    # A fetch that left no record is given the mean of the others, ending when its batch came.
    mean = fetch[known].mean(axis=0) if known.any() else np.zeros(CAUSES)
    fetch[~known] = mean
    fetched = np.where(known, fetched, np.minimum(ready, np.fmax(asked, ready)))
    began = np.where(known, began, fetched - mean.sum())
    sent = np.where(np.isnan(sent), began, sent)
    worker = np.where(known, made("worker"), main("worker"))
    previous = _previous(block, worker, began)
    free = np.where(previous >= 0, fetched[previous], -np.inf)
    following = _following(previous)

    available = np.where(np.isnan(made("pickled_us")), fetched, made("pickled_us"))
    available = np.clip(available, fetched, np.fmax(fetched, ready))
    intervals = LockIntervals(block, worker, began, fetched, fetch)
    ship, ship_lock = _ship(made, available - fetched, intervals.during(fetched, available))
    receive_us = np.maximum(ready - np.fmax(asked, available), 0.0)
    since = np.fmax(asked, available)
    receive, receive_lock = _receive(main, made, receive_us, intervals.during(since, ready))
    dispatch = np.zeros_like(fetch)
    waited = np.where(own, 0.0, np.maximum(began - np.fmax(sent, free), 0.0))
    dispatch[:, CONTENTION] = np.fmin(np.nan_to_num(made("waking_us")), waited)
    dispatch[:, HANDOVER] = waited - dispatch[:, CONTENTION]
    # The loop's own fetch is followed by whatever it did before it had the batch (pinning).
    receive[own] = 0.0
    receive[own, HANDOVER] = np.maximum((ready - asked) - (fetched - began), 0.0)[own]
    ship[own] = 0.0
    ship_lock[own] = receive_lock[own] = 0.0
    pipeline = Pipeline(
        asked_us=asked,
        ready_us=ready,
        done_us=_done(asked, ready, main("done_us"), main("launched_us")),
        sent_us=sent,
        free_us=np.where(np.isfinite(free), free, sent),
        previous=previous,
        following=following,
        sender=_sender(sent, asked, ready, block),
        own=own,
        dispatch_us=dispatch,
        fetch_us=fetch,
        ship_us=ship,
        receive_us=receive,
        ship_lock_us=ship_lock.sum(axis=1),
        receive_lock_us=receive_lock.sum(axis=1),
        holder=intervals.after(since),
    )
    return Services(pipeline, dispatch + fetch + ship + receive + ship_lock + receive_lock)


def _seen(values: NDArray[np.int64]) -> Floats:
    return np.where(values >= 0, values, np.nan).astype(float)


def _filled(values: Floats) -> Floats:
    """Give what was not read the mean of what was; zeros where nothing was."""
    seen = ~np.isnan(values)
    return np.where(seen, values, values[seen].mean() if seen.any() else 0.0)


def _fetch(made: Callable[[str], Floats], wall: Floats) -> Floats:
    """Split the wall time of each fetch by cause."""
    split = np.zeros((len(wall), CAUSES))
    wall = np.maximum(np.nan_to_num(wall), 0.0)
    timed = ~np.isnan(made("cpu_us"))
    were_read = timed & ~np.isnan(made("helpers_us"))
    were_read = were_read if were_read.any() else timed
    cpu = np.minimum(np.nan_to_num(made("cpu_us")), wall)
    queued = np.minimum(np.nan_to_num(made("queued_us")), wall - cpu)
    stolen = np.minimum(np.nan_to_num(made("stolen_us")), wall - cpu - queued)
    rest = wall - cpu - queued - stolen
    helpers = np.nan_to_num(made("helpers_us"))
    helpers_queued = np.nan_to_num(made("helpers_queued_us"))
    # Threads of a pool wait at the same time: unless they are busy throughout, their waits overlap and count once.
    several = np.maximum(np.nan_to_num(made("helpers"), nan=1.0), 1.0)
    busy = np.minimum((helpers + helpers_queued) / np.maximum(rest, 1e-9), 1.0)
    helpers_queued *= 1 / several + (1 - 1 / several) * busy**4
    scale = np.minimum(1.0, rest / np.maximum(helpers + helpers_queued, 1e-9))
    helped, helpers_waited = helpers * scale, helpers_queued * scale
    cold = np.clip(np.nan_to_num(made("read_bytes")) / COLD_BYTES, 0.0, 1.0)
    kernel = np.minimum(np.nan_to_num(made("system_us")), cpu) * cold
    split[:, BLOCKED] = rest - helped - helpers_waited + kernel
    split[:, PREPROCESS] = cpu - kernel + helped
    split[:, CONTENTION] = queued + stolen + helpers_waited
    if were_read.any() and not were_read.all():
        # While a worker reads from the medium, all counters are read: the other fetches are like the warm ones.
        warm = were_read & (cold == 0.0)
        _fill(split, wall, cpu, timed, were_read, warm if warm.any() else were_read)
    return split


def _fill(
    split: Floats,
    wall: Floats,
    cpu: Floats,
    timed: NDArray[np.bool_],
    were_read: NDArray[np.bool_],
    models: NDArray[np.bool_],
) -> None:
    """Split the fetches whose counters were not read, in place, in the same proportions as the fetches in `models`.

    Where the CPU time of a fetch is known, that part is pre-processing, and only the remaining time is split in the
    models' proportions. A fetch of more than twice the models' median time keeps its remaining time as blocking.
    """
    unseen = ~timed
    if unseen.any():
        alike = models & (wall <= wall[unseen].max())
        seen = split[alike if alike.any() else models].sum(axis=0)
        split[unseen] = wall[unseen, None] * seen / max(seen.sum(), 1e-9)
    partly = timed & ~were_read & (wall <= 2 * np.median(wall[models]))
    rest = split[models].sum(axis=0)
    rest[PREPROCESS] = max(rest[PREPROCESS] - cpu[models].sum(), 0.0)
    if partly.any() and rest.sum() > 0:
        split[partly] = (wall - cpu)[partly, None] * rest / rest.sum()
        split[partly, PREPROCESS] += cpu[partly]


class LockIntervals:
    """The intervals in which each worker computed and may therefore have held its interpreter's lock.

    `during` returns, for each minibatch, how much of an interval its worker computed, by cause.
    """

    def __init__(self, block: Ints, worker: Floats, began: Floats, fetched: Floats, fetch: Floats) -> None:
        worker = np.nan_to_num(worker, nan=-1.0)
        self._order = np.lexsort((began, worker, block))
        block, worker = block[self._order], worker[self._order]
        changes = np.ones(len(block), bool)
        changes[1:] = (block[1:] != block[:-1]) | (worker[1:] != worker[:-1])
        group = np.cumsum(changes)
        self._group = np.empty_like(group)
        self._group[self._order] = group
        # Workers overlap in time; a step between them larger than all of it makes one search do for all.
        self._zero = np.nanmin(began) if len(began) else 0.0
        self._apart = np.nanmax(fetched) - self._zero + 1.0 if len(began) else 1.0
        self._began = began[self._order] - self._zero
        self._wall = np.maximum(fetched - began, 1e-9)[self._order]
        self._keys = self._began + group * self._apart
        self._starts = np.flatnonzero(changes)[group - 1] if len(group) else group  # first fetch of the same worker
        self._first = np.empty_like(self._starts)
        self._first[self._order] = self._starts
        computed = fetch[self._order].copy()
        computed[:, [BLOCKED, HANDOVER]] = 0.0  # asleep, it had let go of the lock
        self._computed = computed
        self._before = np.cumsum(computed, axis=0) - computed

    def during(self, start: Floats, stop: Floats) -> Floats:
        """Return by cause how long the worker computed in [start, stop], µs."""
        return np.maximum(self._until(stop) - self._until(start), 0.0)

    def after(self, instant: Floats) -> Ints:
        """Return the fetch under way at an instant, or else the next of that worker; -1 where there is none."""
        at = instant - self._zero
        place = np.searchsorted(self._keys, self._clipped(at), side="right") - 1
        place = np.maximum(place, self._first)
        over = at >= self._began[place] + self._wall[place]
        place = np.where(over, place + 1, place)
        known = place < len(self._order)
        place = np.where(known, place, 0)
        found = self._order[place]
        return np.where(known & (self._group[found] == self._group), found, -1)

    def _clipped(self, at: Floats) -> Floats:
        inside: Floats = np.clip(at, 0.0, self._apart - 0.5) + self._group * self._apart
        return inside

    def _until(self, instant: Floats) -> Floats:
        """Return by cause how long the worker computed up to an instant."""
        at = instant - self._zero
        place = np.searchsorted(self._keys, self._clipped(at), side="right") - 1
        place = np.maximum(place, self._first)
        share = np.clip((at - self._began[place]) / self._wall[place], 0.0, 1.0)
        until: Floats = self._before[place] + share[:, None] * self._computed[place]
        return until


def _ship(made: Callable[[str], Floats], wall: Floats, held: Floats) -> tuple[Floats, Floats]:
    """Split the time from fetched to on its way: the sender's own CPU and run-queue wait; and waiting for the lock."""
    split = np.zeros((len(wall), CAUSES))
    cpu = np.minimum(np.nan_to_num(made("feeder_cpu_us")), wall)
    queued = np.minimum(_filled(made("feeder_queued_us")), wall - cpu)
    split[:, CONTENTION] = queued
    split[:, HANDOVER] = wall - queued
    return _take_lock(split, wall - cpu - queued, held)


def _receive(
    main: Callable[[str], Floats], made: Callable[[str], Floats], wall: Floats, held: Floats
) -> tuple[Floats, Floats]:
    """Split the time the loop took to get what was on its way; and waiting for the lock."""
    split = np.zeros((len(wall), CAUSES))
    queued = np.minimum(_filled(main("queued_us")), wall)
    # The loop's CPU time of the whole wait: nearly all of it is spent on receiving, however long the wait was.
    busy = np.minimum(_filled(main("cpu_us")) + np.nan_to_num(made("feeder_cpu_us")), wall - queued)
    split[:, CONTENTION] = queued
    split[:, HANDOVER] = wall - queued
    return _take_lock(split, wall - queued - busy, held)


def _take_lock(split: Floats, waited: Floats, held: Floats) -> tuple[Floats, Floats]:
    """Take waiting for a worker's lock out of the hand-over; return both, the lock's by what the worker ran."""
    locked = held * np.minimum(1.0, waited / np.maximum(held.sum(axis=1), 1e-9))[:, None]
    split[:, HANDOVER] -= locked.sum(axis=1)
    return split, locked


def _previous(block: Ints, worker: Floats, began: Floats) -> Ints:
    """Return the row that the same worker made before this one in the same block, or -1."""
    worker = np.nan_to_num(worker, nan=-1.0)
    order = np.lexsort((began, worker, block))
    previous = np.full(len(order), -1, np.int64)
    here, before = order[1:], order[:-1]
    # A worker's fetches reach the loop in order; anything else is a record mixed up by a crash.
    same = (block[here] == block[before]) & (worker[here] == worker[before]) & (before < here)
    previous[here[same]] = before[same]
    return previous


def _following(previous: Ints) -> Ints:
    following = np.full(len(previous), -1, np.int64)
    has = previous >= 0
    following[previous[has]] = np.flatnonzero(has)
    return following


def _sender(sent: Floats, asked: Floats, ready: Floats, block: Ints) -> Ints:
    """Return the row during whose delivery this one's index was sent, or -1 where that lies before its block."""
    # Blocks overlap in time; a step between them larger than all of it makes one search do for all.
    apart = np.nanmax(ready) - np.nanmin(np.fmin(ready, sent)) + 1.0
    found = np.searchsorted(ready + block * apart, sent + block * apart, side="left")
    found = np.minimum(found, np.arange(len(sent)) - 1)
    inside = (found >= 0) & (block[np.maximum(found, 0)] == block) & (sent >= asked[np.maximum(found, 0)])
    return np.where(inside, found, -1)


def _done(asked: Floats, ready: Floats, done: Floats, launched: Floats) -> Floats:
    following = np.append(asked[1:], ready[-1:])
    known = np.where(np.isnan(done), launched, done)
    ended: Floats = np.fmax(np.where(np.isnan(known), np.fmax(following, ready), known), ready)
    return ended
