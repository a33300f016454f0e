"""Groups the rows of a training process into turns of its loop; a turn is what we call a minibatch.

A row of the record covers the time from one fetch to the next. A turn is everything the loop took from its loaders
before it trained, and the training: one row in a plain loop, two with `zip(a, b)`. The rules:

- Training ends a turn: the next fetch begins another. Without training in between, a fetch from another place in the
  program joins the turn (`zip`, two `next` per step); one from the same place begins a turn, and the one before was
  skipped.
- Batches fetched in a row and trained one after the other are a turn each; their waits lie in the first.
- A pass whose end is followed by a forward and backward pass was fetched ahead: its first batches were not skipped
  but trained later, and every batch is a turn.
- Steps without a fetch are a turn per step of the first optimizer.
- Passes without gradients, or over loaders from places that never train, are not turns.
- A batch that was fetched once and for all, for many steps, is the first step's.

`turn_evaluation` takes evaluation out, `turn_blocks` has the rules for what lies between two trainings, `turn_epochs`
numbers the epochs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.row_runs import RowRuns
from edgetrain.analysis.turn_blocks import find_turns
from edgetrain.analysis.turn_epochs import number_epochs
from edgetrain.analysis.turn_evaluation import without_evaluation
from edgetrain.analysis.turn_joining import Found
from edgetrain.analysis.turn_rows import EVAL_MODE, NO_GRADIENTS, NULL, TRAINED, Entries, Passes, Sequence
from edgetrain.record import Table
from edgetrain.schema import Doubt

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OTHER_THREAD = "loader_in_another_thread"  # a kind of doubt


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns in the order the loop took them.

    `rows` are the rows of the record that belong to the loop; turn k is those at places [start[k], stop[k]) of them,
    and what lies between turns are ends of passes. Where `start` is None every one of `rows` is a turn.
    """

    epoch: Ints
    rows: RowRuns
    start: Ints | None = None
    stop: Ints | None = None
    ends: Ints | None = None  # rows of the record at which a pass ended, or its workers were started or stopped
    trained: Bools | None = None  # None: all
    fetched: Bools | None = None  # a loader was asked in it, or its batch had been fetched before; None: in all
    marked: bool = True  # the training of every turn was marked
    evaluation_us: Ints | None = None  # [window, 2]: when evaluation passes were under way
    evaluation_rows: Ints | None = None  # batches delivered in them
    mid_step: bool = False  # loaders are asked between the forward and the backward pass of a step
    began_us: int | None = None  # a thread that fetches for the loop began then
    labelled: bool = False  # the record says of each row what it was, and not what happened in it
    doubts: tuple[Doubt, ...] = ()

    def __len__(self) -> int:
        return len(self.epoch)


def assemble(minibatches: Table, watched: frozenset[int] = frozenset()) -> Turns:
    """Return the turns of one process; `watched` are loaders that `edgetrain.watch` timed from outside."""
    if not len(minibatches):
        none = np.zeros(0, np.int64)
        return Turns(none, RowRuns(none, none), labelled=True)
    if "steps" not in minibatches:
        return _as_labelled(minibatches)
    entries = Entries.of(minibatches)
    if entries.steps.max() == NULL:
        return _as_labelled(minibatches)
    if not entries.trained.any():
        return _untrained(minibatches)
    fetching_began_us = int(entries.asked_us[entries.delivered].min()) if entries.delivered.any() else None
    entries, doubts = _training_thread(entries, watched)
    fed = any(doubt.kind == OTHER_THREAD for doubt in doubts)
    entries = _in_order(entries)
    entries, evaluation = without_evaluation(entries)
    sequence = Sequence.of(entries)
    passes = Passes(sequence)
    found = find_turns(sequence, passes)
    epoch = number_epochs(sequence, found, passes)
    start, stop, rows, per_turn = _expanded(entries, found)
    fetched = np.repeat(found.fetched & (not fed), per_turn)
    return Turns(
        epoch=np.repeat(epoch, per_turn),
        rows=rows,
        start=start,
        stop=stop,
        ends=entries.first[entries.asks & ~entries.delivered],
        trained=None if found.trained.all() else np.repeat(found.trained, per_turn),
        fetched=None if fetched.all() else fetched,
        marked=bool(entries.marked[found.start].all()),
        evaluation_us=None if evaluation is None else evaluation.windows_us,
        evaluation_rows=None if evaluation is None else evaluation.rows,
        mid_step=sequence.mid_step,
        began_us=fetching_began_us if fed else None,
        doubts=doubts,
    )


def _expanded(entries: Entries, found: Found) -> tuple[Ints | None, Ints | None, RowRuns, Ints]:
    """Return turns as places among rows instead of entries, those rows, and how many turns each found one is."""
    # An entry of several rows is a turn per row.
    per_turn = np.where(found.stop == found.start + 1, entries.count[found.start], 1)
    if np.array_equal(found.stop, found.start + 1):
        return None, None, RowRuns.joined(entries.first[found.start], entries.count[found.start]), per_turn
    places = np.concatenate([[0], np.cumsum(entries.count)])
    start = np.repeat(places[found.start] - (np.cumsum(per_turn) - per_turn), per_turn) + np.arange(per_turn.sum())
    stop = np.where(np.repeat(per_turn, per_turn) > 1, start + 1, np.repeat(places[found.stop], per_turn))
    return start, stop, RowRuns.joined(entries.first, entries.count), per_turn


def _as_labelled(minibatches: Table) -> Turns:
    """Return the turns of a record that does not say what happened between fetches: imported, or simulated."""
    keep = (minibatches["asked_us"] >= 0) & (minibatches["ready_us"] >= 0)
    phase = minibatches.get("phase")
    if phase is not None:
        keep &= (phase == TRAINED) if np.any(phase == TRAINED) else (phase != NO_GRADIENTS)
    return _one_row_each(minibatches, keep, None if phase is None else np.flatnonzero(phase == NO_GRADIENTS))


def _untrained(minibatches: Table) -> Turns:
    """Return the turns of a process in which no backward pass or step was seen: every batch not for evaluation."""
    phase, batch = minibatches["phase"], minibatches["batch"]
    evaluates = (phase == NO_GRADIENTS) | (phase == EVAL_MODE)
    return _one_row_each(minibatches, (batch >= 0) & ~evaluates, np.flatnonzero((batch >= 0) & evaluates))


def _one_row_each(minibatches: Table, keep: Bools, evaluated: Ints | None) -> Turns:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]).astype(np.int8)))
    rows = RowRuns(edges[::2], edges[1::2] - edges[::2])
    epoch: Ints = rows.take(minibatches["epoch"])
    if len(epoch) and np.all(epoch == NULL):
        epoch = rows.take(minibatches["generation"])
    return Turns(epoch, rows, evaluation_rows=evaluated, labelled=True)


def _training_thread(entries: Entries, watched: frozenset[int]) -> tuple[Entries, tuple[Doubt, ...]]:
    """Return the entries of the thread that trains, and doubts where others train or fetch as well."""
    thread, trained = entries.thread, entries.trained
    if np.all(thread == thread[0]):
        return entries, ()
    counts = np.bincount(np.maximum(thread[trained], 0))
    main = int(np.argmax(counts))
    own = entries.take(thread == main)
    doubts = []
    others = int(counts.sum() - counts[main])
    if others:
        doubts.append(
            Doubt(
                "several_threads_train",
                f"several threads of the process train: minibatches are those of the one with most steps, and "
                f"{others} backward passes or steps of others are left out",
            )
        )
    trains_on = entries.delivered & (entries.phase != NO_GRADIENTS) & (entries.phase != EVAL_MODE)
    elsewhere = trains_on & (thread != main) & ~trained
    here = np.unique(entries.loader[trains_on & (thread == main)])
    if elsewhere.any() and not np.isin(here, list(watched)).any():
        which = "a loader" if len(here) else "the loader"
        doubts.append(
            Doubt(
                OTHER_THREAD,
                f"{which} is iterated by another thread than the one that trains: how long training waited for that "
                "thread cannot be seen; iterate the loader in the training loop, or wrap what the loop iterates in "
                "edgetrain.watch",
            )
        )
    return own, tuple(doubts)


def _in_order(entries: Entries) -> Entries:
    """Return entries by when their intervals began; workers may be stopped while an iterator is being made."""
    asked = entries.asked_us
    if np.all(asked[1:] >= asked[:-1]):
        return entries
    return entries.take(np.argsort(asked, kind="stable"))
