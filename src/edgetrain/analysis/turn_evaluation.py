"""Finds evaluation among the rows of a training thread, and when it was under way.

Evaluation is a pass over a loader without gradients or in evaluation mode; where a script says neither, a pass that
begins and ends between two batches of another one and trains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.turn_rows import EVAL_MODE, NO_GRADIENTS, TRAINED, TRAINED_IN_EVAL_MODE, Entries

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EvaluationPasses:
    """When evaluation was under way ([window, 2]), and the rows of the record in which it got a batch."""

    windows_us: Ints
    rows: Ints


def without_evaluation(entries: Entries) -> tuple[Entries, EvaluationPasses | None]:
    """Return the entries of training, and what was taken out; None where nothing was."""
    marked, left = _marked(entries)
    evaluates = marked | _unmarked(entries, marked)
    if not evaluates.any():
        return entries, None
    found = EvaluationPasses(_windows(entries, evaluates), entries.first[(evaluates & entries.delivered) | left])
    if left.any():
        # Steps without a fetch followed the last batch of an evaluation: they are training, the batch is not its.
        entries = replace(entries, delivered=entries.delivered & ~left)
    return entries.take(~evaluates), found


def _marked(entries: Entries) -> tuple[Bools, Bools]:
    """Return which entries are passes without gradients, or in evaluation mode.

    And the last batches of such passes that were left, and after which training went on without a fetch.
    """
    phase, delivered, passes = entries.phase, entries.delivered, entries.passes
    evaluates: Bools = delivered & (phase == NO_GRADIENTS)
    usual, unusual = (int(entries.count[phase == which].sum()) for which in (TRAINED, TRAINED_IN_EVAL_MODE))
    # A training that itself runs in evaluation mode (frozen batch norm) makes the mode say nothing.
    if usual >= unusual:
        evaluates |= delivered & (phase == EVAL_MODE)
    left = np.zeros(len(evaluates), bool)
    if evaluates.any():
        known, which = np.unique(passes, return_inverse=True)
        which = np.ravel(which)
        trained = np.bincount(which, entries.count * (entries.trained & delivered), len(known))
        looked = np.bincount(which, entries.count * evaluates, len(known))
        # A batch of a pass that trains most of its batches was fetched ahead without gradients, or skipped.
        evaluates &= (trained <= looked)[which]
        last = np.zeros(len(known), np.int64)
        np.maximum.at(last, which, np.arange(len(which)))
        left = delivered & entries.trained & ((looked > 0) & (trained == 1))[which]
        left &= last[which] == np.arange(len(which))
    if usual > unusual > 0:
        stepped = (entries.steps > 0) | (entries.other_steps > 0)
        in_mode = delivered & (phase == TRAINED_IN_EVAL_MODE)
        attacks = in_mode & ~np.isin(passes, np.unique(passes[stepped]))  # gradients of an attack, say
        evaluates |= attacks
        left &= ~attacks
    if evaluates.any():
        # The end of such a pass, unless steps without a fetch follow it.
        ends = np.flatnonzero(~delivered & entries.asks & ~entries.trained)
        only_evaluated = np.setdiff1d(passes[evaluates], passes[delivered & ~evaluates & ~left])
        evaluates[ends] = np.isin(passes[ends], only_evaluated)
    return evaluates, left


def _unmarked(entries: Entries, marked: Bools) -> Bools:
    """Return the entries of passes that lie between two batches of a training pass and did not train."""
    found = np.zeros(len(marked), bool)
    rows = np.flatnonzero(~marked & entries.asks & (entries.site >= 0))
    passes, trained = entries.passes[rows], entries.trained[rows]
    if len(rows) < 3 or not trained.any():
        return found
    known, first, which = np.unique(passes, return_index=True, return_inverse=True)
    which = np.ravel(which)
    last = np.zeros(len(known), np.int64)
    np.maximum.at(last, which, np.arange(len(rows)))
    trains = np.bincount(which, trained, len(known)) > 0
    alone = last - first + 1 == np.bincount(which, minlength=len(known))  # no other loader was asked meanwhile
    batches, looked = (
        np.bincount(which, entries.delivered[rows] & some, len(known)) for some in (True, entries.forwards[rows] > 0)
    )
    # A single batch may be part of the next turn, unless a network was shown it.
    looks = alone & ~trains & ((batches > 1) | (looked > 0)) & ~_begun_for_each_turn(entries, rows[first])
    for one in np.flatnonzero(looks)[np.argsort(first[looks])].tolist():
        before, after = int(first[one]) - 1, int(last[one]) + 1
        if before < 0 or after >= len(rows):
            continue
        between = trained[before] or found[rows[before]]
        goes_on = which[after] != one and (first[which[after]] < first[one] and trains[which[after]])
        if between and (goes_on or looks[which[after]]):
            found[rows[first[one] : last[one] + 1]] = True
    return found


def _begun_for_each_turn(entries: Entries, begins: Ints) -> Bools:
    """Return which of these first rows of passes come from a place that begins a pass for every turn or so."""
    keys = (entries.loader[begins] << 32) + entries.site[begins]
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    often: Bools = counts[np.ravel(which)] > max(1, int(entries.count[entries.trained].sum()) // 3)
    return often


def _windows(entries: Entries, evaluates: Bools) -> Ints:
    """Return when evaluation was under way: from its first fetch until its pass ended, or else until the next fetch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], evaluates, [False]]).astype(np.int8)))
    first, last = edges[::2], edges[1::2] - 1
    following = np.append(entries.asked_us, entries.ready_us[-1:])[last + 1]
    ended = np.where(entries.delivered[last], following, entries.ready_us[last])
    windows: Ints = np.stack([entries.asked_us[first], ended], axis=1)
    return windows
