"""Sends the experiments of a campaign to boards, one at a time per board, until all are done."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetrain.documents import from_document, read_json, to_document
from edgetrain.errors import EdgetrainError, FleetError, StoreError
from edgetrain.fleet.board_work import BoardOutcome, BoardRequest
from edgetrain.fleet.inventory import FleetBoard
from edgetrain.fleet.jobs import FleetJob
from edgetrain.fleet.link import FleetLink, Pending
from edgetrain.fleet.records import fetch_record
from edgetrain.schema import FleetBoardProgress, FleetProgress

if TYPE_CHECKING:
    from edgetrain.fleet.campaign import FleetCampaign

TURN_S = 0.02
ANNOUNCE_S = 1.0
MAX_LOSSES = 20  # of one run in one start: its worker was lost this often: the run itself may be the cause
MAX_FETCHES = 3  # of one record with wrong checksums, before its run is made again
REVIVE_S = 20.0  # a board that is disconnected this long is started again, and then every minute
REVIVE_EVERY_S = 60.0
MAX_FAILED = 3  # runs of one board in a row: a board that fails at once (full disk) would take the runs of all others


@dataclass
class _Open:
    """An experiment under way on a board."""

    job: FleetJob
    pending: Pending
    since_s: float


class Dispatch:
    """Submits, collects, fetches; asks a lost board again, or sends its experiment elsewhere as the plan says."""

    def __init__(
        self,
        campaign: FleetCampaign,
        link: FleetLink,
        announce: Callable[[FleetProgress], None],
        problems: Mapping[str, str],
    ) -> None:
        self.campaign, self.link, self.announce = campaign, link, announce
        self.problems = dict(problems)  # why a board could not be started
        self.open: dict[str, _Open] = {}
        self.waiting: deque[FleetJob] = deque()
        self.bound = dict(campaign.known.begun_on)  # a board that may have the experiment is asked first
        self.losses: dict[str, int] = {}
        self.revived_s: dict[str, float] = {}
        self.failed_on: dict[str, str] = {}  # the board on which a run failed last: another one tries it next
        self.failed_in_a_row: dict[str, int] = {}
        self.failing: dict[str, str] = {}  # why a board is given no run that another can make
        self.announced_s = -ANNOUNCE_S

    def run(self) -> None:
        """Carry out everything that is not done."""
        known = self.campaign.known
        self.waiting.extend(job for job in self.campaign.jobs if job.key not in known.done)
        # A new start gives failed runs their tries again.
        known.failures.clear()
        while self.waiting or self.open:
            self._hand_out()
            for board in [board for board, one in self.open.items() if one.pending.ended]:
                self._collect(board)
            self._give_up_on_lost()
            self._revive()
            self._say()
            time.sleep(TURN_S)

    def _hand_out(self) -> None:
        here = [one for one in self.campaign.boards if self.link.has(one.name)]
        sound = [one for one in here if one.name not in self.failing]
        for board in here:
            if board.name not in self.open:
                job = self._next_for(board, sound)
                if job is not None:
                    self._submit(job, board)

    def _next_for(self, board: FleetBoard, sound: Sequence[FleetBoard]) -> FleetJob | None:
        for at, job in enumerate(self.waiting):
            bound = self.bound.get(job.key)
            if job.fits(board) and (bound == board.name or (bound is None and not self._leave(job, board, sound))):
                del self.waiting[at]
                return job
        return None

    def _leave(self, job: FleetJob, board: FleetBoard, sound: Sequence[FleetBoard]) -> bool:
        """Return whether a board leaves a run to others: it failed there, or everything does, and another fits."""
        if board.name not in self.failing and self.failed_on.get(job.key) != board.name:
            return False
        return any(other.name != board.name and job.fits(other) for other in sound)

    def _submit(self, job: FleetJob, board: FleetBoard) -> None:
        campaign, plan = self.campaign, self.campaign.plan
        attempt = campaign.enter_begun(job.key, board.name)
        request = BoardRequest(
            campaign.id, job.key, attempt, campaign.fleet.folder_of(board), board.device, job.experiment_for(board),
            plan.like, plan.settle, plan.cool_down_s, campaign.known.damaged.get(job.key, ()),
        )  # fmt: skip
        text = json.dumps(to_document(request))
        pending = self.link.submit(board.name, f"{campaign.id}|{job.key}#{attempt}", text)
        self.open[board.name] = _Open(job, pending, time.monotonic())
        self._say(now=True)

    def _collect(self, name: str) -> None:
        one = self.open.pop(name)
        key, answer = one.job.key, one.pending.answer()
        if answer.lost:
            self.losses[key] = self.losses.get(key, 0) + 1
            if self.losses[key] > MAX_LOSSES:
                self._fail(one.job, f"the worker of its board was lost {MAX_LOSSES} times while it ran", name)
            else:  # the board is asked again: it may have finished, or still be at work
                self._ask_again(one.job, name)
        elif answer.text is None:
            self._fail(one.job, answer.error or "unknown reason", name)
        else:
            self._finish(one, name, from_document(BoardOutcome, read_json(answer.text)))
        self._say(now=True)

    def _finish(self, one: _Open, name: str, outcome: BoardOutcome) -> None:
        job = one.job
        if outcome.state != "done" or outcome.run is None:
            self._fail(job, outcome.reason or "unknown reason", name)
            return
        board = self.campaign.fleet.inventory.board(name)
        for left in range(MAX_FETCHES - 1, -1, -1):
            try:
                read = self.link.reader(board, outcome.run)
                fetch_record(self.campaign.store, outcome.run, outcome.files, read)
            except ConnectionError:
                self._ask_again(job, name)
                return
            except (StoreError, FleetError) as error:
                if left:
                    continue
                self.campaign.enter_damaged(job.key, outcome.run, name, str(error))
                self._fail(job, f"{error}, {MAX_FETCHES} times", name)
                return
            except OSError as error:
                raise EdgetrainError(
                    f"cannot write the record of {outcome.run} into {self.campaign.store.path}: {error.strerror}; free "
                    "some space there, then start the campaign again"
                ) from error
            break
        self.bound.pop(job.key, None)
        # Starting and fetching included: the time left is estimated from it.
        took_s = max(outcome.took_s or 0.0, time.monotonic() - one.since_s)
        self.campaign.enter_done(job.key, outcome.run, name, took_s)
        self.failed_in_a_row.pop(name, None)
        self.failing.pop(name, None)

    def _ask_again(self, job: FleetJob, board: str) -> None:
        self.bound[job.key] = board
        self.waiting.appendleft(job)

    def _fail(self, job: FleetJob, reason: str, board: str) -> None:
        self.bound.pop(job.key, None)
        self.campaign.enter_failed(job.key, reason, board)
        self.failed_on[job.key] = board
        self.failed_in_a_row[board] = self.failed_in_a_row.get(board, 0) + 1
        if self.failed_in_a_row[board] == MAX_FAILED:
            self.failing[board] = (
                f"{board}: {MAX_FAILED} runs in a row failed, the last one because: {reason}; other boards make its "
                "runs where they can"
            )
        if self.campaign.known.failures[job.key] <= self.campaign.plan.retries:
            self.waiting.append(job)

    def _give_up_on_lost(self) -> None:
        """Send the experiments of boards that are disconnected too long elsewhere, where the plan says so."""
        place = self.campaign.plan.place
        if place.when_lost != "elsewhere":
            return
        gone = {one.name for one in self.campaign.boards if self.link.disconnected_s(one.name) > place.wait_s}
        for job in list(self.waiting) if gone else []:
            board = self.bound.get(job.key)
            if board in gone and board is not None:
                del self.bound[job.key]
                self.campaign.enter_lost(job.key, board)
            if all(one.name in gone for one in self.campaign.boards if job.fits(one)):
                self.waiting.remove(job)
                self.campaign.enter_failed(
                    job.key,
                    f"every board that it fits on has been disconnected for more than {place.wait_s:g} s",
                    board,
                )

    def _revive(self) -> None:
        """Start disconnected boards again: one that was switched off has no supervisor."""
        now_s = time.monotonic()
        for board in self.campaign.boards:
            if self.link.disconnected_s(board.name) < REVIVE_S:
                if self.link.has(board.name):
                    self.problems.pop(board.name, None)
            elif now_s - self.revived_s.get(board.name, -REVIVE_EVERY_S) >= REVIVE_EVERY_S:
                self.revived_s[board.name] = now_s
                threading.Thread(target=self._start_again, args=(board,), daemon=True).start()

    def _start_again(self, board: FleetBoard) -> None:
        try:
            self.campaign.fleet.start_board(board)
            log = f"{self.campaign.fleet.home_of(board)}/run/{board.name}.log"
            self.problems[board.name] = f"{board.name} is not connected although its supervisor runs; see {log} there"
        except EdgetrainError as error:
            self.problems[board.name] = str(error)

    def _say(self, now: bool = False) -> None:
        if now or time.monotonic() - self.announced_s >= ANNOUNCE_S:
            self.announced_s = time.monotonic()
            self.announce(self.campaign.progress(tuple(self._board_progress(one) for one in self.campaign.boards)))

    def _board_progress(self, board: FleetBoard) -> FleetBoardProgress:
        known, name = self.campaign.known, board.name
        one = self.open.get(name)
        disconnected_s = self.link.disconnected_s(name)
        state, for_s = "idle", None
        if disconnected_s > 0:
            state, for_s = "disconnected", disconnected_s
        elif one is not None:
            state, for_s = "working", time.monotonic() - one.since_s
        return FleetBoardProgress(
            name, board.board, state, for_s, one.job.key if one else None, one.job.planned.factors if one else {},
            known.done_on.get(name, 0), known.failed_on.get(name, 0),
            self.problems.get(name, self.failing.get(name)),
        )  # fmt: skip
