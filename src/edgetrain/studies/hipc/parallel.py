"""Finding III-B of HiPC-SRS 2021: where more loader workers help, and where they do not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CLOCKS, PHASES, CampaignData, reading_dominates
from edgetrain.studies.hipc.published import paper_cold_stalls
from edgetrain.studies.judging import Case, at_least, at_most, change
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns
from edgetrain.studies.uncertain import Uncertain

# A second worker helps when it removes at least this much of what the first left (the paper: 45 to 91 %).
HELPS_SHARE = 0.2
# Where one worker keeps up, a second gains at most this share of an epoch; a stall below it is nothing to remove.
LITTLE_SHARE = 0.05
# What is left of a stall is hidden below this share of the compute (the paper's floor is 3 to 5 %).
HIDDEN_SHARE = 0.1
# One GPU counts as faster than another above this ratio of their compute times (the paper's: 2).
FASTER = 1.15
FAST_MEDIA, SLOW_MEDIA = ("ssd", "nvme"), ("hdd", "usb")


@dataclass(frozen=True)
class _SecondWorker:
    """What the second worker does in cold epochs of one setting; its conditions leave the workers open."""

    label: str
    conditions: Conditions
    runs: tuple[RepeatedRuns, RepeatedRuns]
    stalls: tuple[Uncertain, Uncertain]
    compute: Uncertain

    @property
    def saved(self) -> Uncertain:
        """Seconds of stall that the second worker removes."""
        return self.stalls[0] - self.stalls[1]


def judge_parallel(data: CampaignData, case: Case) -> None:
    """Judge whether a second worker helps where one falls behind: on slow media, and with fast GPUs."""
    cold = _one_and_two(data, case)
    slower = _slow_and_fast_medium(data, cold, case)
    faster = _slow_and_fast_gpu(cold, case)
    case.require(slower, "cold epochs with 1 and 2 workers of a large dataset on a slow medium (HDD) and on an SSD")
    case.require(faster, "the same on a slow medium with two GPUs, one clearly faster: two boards, or two GPU clocks")


def _one_and_two(data: CampaignData, case: Case) -> list[_SecondWorker]:
    """Compare one worker with two, setting by setting; return what that shows of cold epochs that read."""
    found = []
    for family in data.families("workers"):
        one, two = family.members.get(1), family.members.get(2)
        for phase in (COLD, LATER) if one and two else ():
            assert one is not None and two is not None
            stalls = one.get("stall", phase), two.get("stall", phase)
            epochs, compute = (one.get("e2e", phase), two.get("e2e", phase)), one.compute()
            if stalls[0] is None or stalls[1] is None or compute is None or epochs[0] is None or epochs[1] is None:
                continue
            left = stalls[0] / compute
            board, medium = family.conditions.board, family.conditions.medium
            what = f"{family.label}, {PHASES[phase]}, 1 → 2 workers"
            paper = paper_cold_stalls(board, medium, (1, 2, 4)) if phase == COLD else "–"
            if left.lo > HIDDEN_SHARE:
                bound = at_least("stall removed", 1 - stalls[1] / stalls[0], HELPS_SHARE)
                case.add(what, [bound], change(stalls[0], stalls[1]), paper, of=(one, two))
            elif left.hi < HIDDEN_SHARE:
                bound = at_most("gained", 1 - epochs[1] / epochs[0], LITTLE_SHARE)
                what = f"{what}, one keeps up; end to end"
                case.add(what, [bound], change(epochs[0], epochs[1]), paper, of=(one, two))
            if phase == COLD and medium is not None and (medium in FAST_MEDIA or reading_dominates(one)):
                label = data.label(family.conditions)
                known = stalls[0], stalls[1]
                found.append(_SecondWorker(label, family.conditions, (one, two), known, compute))
    return found


def _slow_and_fast_medium(data: CampaignData, cold: Sequence[_SecondWorker], case: Case) -> bool:
    """Compare what the second worker saves on a slow medium with what it saves on a fast one."""
    by_setting: dict[Conditions, dict[str, _SecondWorker]] = {}
    for one in cold:
        by_setting.setdefault(one.conditions.without("medium"), {})[one.conditions.medium or ""] = one
    compared = False
    for conditions, by_medium in by_setting.items():
        slow = next((by_medium[medium] for medium in SLOW_MEDIA if medium in by_medium), None)
        fast = next((by_medium[medium] for medium in FAST_MEDIA if medium in by_medium), None)
        if slow is None or fast is None:
            continue
        if not slow.runs[0].units & fast.runs[0].units:
            data.note_inseparable("medium", conditions)
            continue
        media = f"on {slow.conditions.medium} less those on {fast.conditions.medium}"
        what = f"{data.label(conditions)}, cold: ms saved by the second worker {media}"
        bound = at_least("difference", (slow.saved - fast.saved) * 1e3, 0.0)
        case.add(what, [bound], spell=_plain, of=(*slow.runs, *fast.runs))
        compared = True
    return compared


def _slow_and_fast_gpu(cold: Sequence[_SecondWorker], case: Case) -> bool:
    """Compare what one worker leaves for others to remove, with a slow and with a fast GPU beside one medium."""
    by_setting: dict[Conditions, list[_SecondWorker]] = {}
    for one in cold:
        # Boards differ in clocks, software and in what their RAM caches, which a cold epoch does not use.
        known = one.conditions.without(*CLOCKS, "software", "page_cache_bytes", "power_scope")
        by_setting.setdefault(replace(known, board=""), []).append(one)
    compared = False
    for settings in by_setting.values():
        pairs = [
            (slow, fast)
            for slow, fast in itertools.permutations(settings, 2)
            if (slow.compute / fast.compute).lo > FASTER and _differ_in_gpu(slow, fast) and not _both_hidden(slow, fast)
        ]
        if not pairs:
            continue
        slow, fast = max(pairs, key=lambda pair: pair[0].compute.value / pair[1].compute.value)
        numbers = f"{change(slow.stalls[0], fast.stalls[0])} of stall, compute {change(slow.compute, fast.compute)}"
        bound = at_least("more with the faster GPU by (ms)", (fast.stalls[0] - slow.stalls[0]) * 1e3, 0.0)
        what = f"{fast.label}, cold: what one worker leaves, against {slow.label}"
        case.add(what, [bound], numbers, spell=_plain, of=(slow.runs[0], fast.runs[0]))
        compared = True
    return compared


def _differ_in_gpu(slow: _SecondWorker, fast: _SecondWorker) -> bool:
    """Return whether two settings are of two boards, or of one board at two GPU clocks and the same units."""
    one, other = slow.conditions, fast.conditions
    if one.board != other.board:
        return True
    alike = one.without("gpu_hz") == other.without("gpu_hz")
    return alike and one.gpu_hz != other.gpu_hz and bool(slow.runs[0].units & fast.runs[0].units)


def _both_hidden(slow: _SecondWorker, fast: _SecondWorker) -> bool:
    """Return whether one worker leaves next to nothing with either GPU: the medium is too fast to show a difference."""
    return all((one.stalls[0] / one.compute).hi < HIDDEN_SHARE for one in (slow, fast))


def _plain(value: float) -> str:
    return f"{value:.3g}"
