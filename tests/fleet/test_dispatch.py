"""Experiments are handed out, asked for again, tried again within limits, and sent elsewhere as the plan says."""

import contextlib
import hashlib
import json
from pathlib import Path

import pytest

from edgetrain.documents import to_document
from edgetrain.errors import FleetError, UsageError
from edgetrain.fleet import Fleet, FleetBoard, FleetCampaign, FleetInventory, local_inventory
from edgetrain.fleet.board_work import BoardOutcome, FetchedFile
from edgetrain.fleet.dispatch import MAX_LOSSES, Dispatch
from edgetrain.fleet.link import TaskAnswer
from edgetrain.record import FolderStore
from edgetrain.runner import CampaignEntry, Placement, Plan

LOST = TaskAnswer()
DATA = b"{}"


class DonePending:
    ended = True

    def __init__(self, answer):
        self._answer = answer

    def answer(self):
        return self._answer


class ScriptedLink:
    """A link whose boards answer by a function of board and request; records what was submitted."""

    def __init__(self, answer, away=()):
        self.answer, self.away, self.asked, self.data = answer, set(away), [], lambda run: DATA

    def has(self, board):
        return board not in self.away

    def disconnected_s(self, board):
        return 1000.0 if board in self.away else 0.0

    def submit(self, board, key, request):
        self.asked.append((board, json.loads(request)))
        return DonePending(self.answer(self, board, self.asked[-1][1]))

    def reader(self, board, run):
        import base64

        return lambda wanted: json.dumps([base64.b64encode(self.data(run)).decode() for _ in json.loads(wanted)])


def done(link, board, request):
    run = f"r{len(link.asked)}"
    files = (FetchedFile("manifest.json", len(DATA), hashlib.sha256(DATA).hexdigest()),)
    return TaskAnswer(json.dumps(to_document(BoardOutcome("done", request["attempt"], run, None, 1.0, files))))


def carry(tmp_path, answer, away=(), data=None, announce=lambda progress: None, **more):
    plan = Plan("d", {"network": "lenet5", "epochs": 1, "minibatches": 8}, {"workers": [0, 1]}, **more)
    campaign = FleetCampaign(
        plan, Fleet(local_inventory(("nano", "nano")), tmp_path / "home"), FolderStore(tmp_path / "store")
    )
    campaign.read_journal()
    link = ScriptedLink(answer, away)
    if data is not None:
        link.data = data
    Dispatch(campaign, link, announce, {}).run()
    return campaign, link


def test_every_run_is_done_once(tmp_path):
    campaign, link = carry(tmp_path, done, repeats=3)
    assert len(campaign.known.done) == 6 == len(link.asked) and not campaign.known.failed
    assert {board for board, _ in link.asked} == {"nano-1", "nano-2"}


def test_an_error_of_the_board_is_tried_again_as_often_as_the_plan_says_and_no_more(tmp_path):
    campaign, link = carry(tmp_path, lambda *_: TaskAnswer(error="ImportError: no such name"), retries=2)
    assert len(link.asked) == 2 * 3 and not campaign.known.done
    assert set(campaign.known.failed.values()) == {"ImportError: no such name"}


def test_after_the_loss_of_a_worker_the_same_board_is_asked_again(tmp_path):
    def answer(link, board, request):
        return LOST if request["attempt"] < 4 else done(link, board, request)

    campaign, link = carry(tmp_path, answer)
    assert len(campaign.known.done) == 2
    for key in campaign.known.done:
        assert len({board for board, request in link.asked if request["key"] == key}) == 1


def test_a_run_whose_worker_is_lost_every_time_fails_in_the_end(tmp_path):
    campaign, link = carry(tmp_path, lambda *_: LOST, retries=0)
    assert not campaign.known.done and all("lost" in reason for reason in campaign.known.failed.values())
    assert len(link.asked) == 2 * (MAX_LOSSES + 1)


def test_a_record_with_a_wrong_checksum_is_fetched_again_and_then_its_run_is_made_again(tmp_path):
    reads = []

    def data(run):
        reads.append(run)
        return b"??" if run == "r1" else DATA

    campaign, link = carry(tmp_path, done, data=data)
    assert len(campaign.known.done) == 2 and reads.count("r1") == 3
    again = [request for _, request in link.asked if request["damaged"]]
    assert [request["damaged"] for request in again] == [["r1"]]
    assert not (tmp_path / "store" / "runs" / "r1").exists()


def test_a_transfer_that_fails_once_is_repeated_without_a_new_run(tmp_path):
    reads = []

    def data(run):
        reads.append(run)
        return b"??" if len(reads) == 1 else DATA

    campaign, link = carry(tmp_path, done, data=data)
    assert len(campaign.known.done) == 2 == len(link.asked)


def test_the_run_of_a_lost_board_goes_elsewhere_or_waits_as_the_plan_says(tmp_path):
    def answer(link, board, request):
        if board == "nano-1":
            link.away.add(board)
            return LOST
        return done(link, board, request)

    place = Placement(when_lost="elsewhere", wait_s=1)
    campaign, _ = carry(tmp_path, answer, place=place)
    assert len(campaign.known.done) == 2
    assert [entry.board for entry in campaign.journal.read() if entry.kind == "lost"] == ["nano-1"]

    class Enough(Exception):
        pass

    def stop(progress):
        if len(progress.done) == 1 and not progress.now:
            raise Enough

    with pytest.raises(Enough):
        carry(tmp_path / "wait", answer, announce=stop, place=Placement(when_lost="wait"))


def test_runs_that_fit_on_lost_boards_only_fail_with_the_reason(tmp_path):
    place = Placement(every_unit=True, when_lost="elsewhere", wait_s=1)
    campaign, _ = carry(tmp_path, done, away=("nano-2",), place=place)
    assert len(campaign.known.done) == 2 and len(campaign.known.failed) == 2
    assert all("disconnected" in reason for reason in campaign.known.failed.values())


def test_a_board_on_which_everything_fails_at_once_does_not_take_the_runs_of_the_others(tmp_path):
    said = set()

    def answer(link, board, request):
        return TaskAnswer(error="No space left on device") if board == "nano-1" else done(link, board, request)

    def announce(progress):
        said.update(one.problem for one in progress.boards if one.problem is not None)

    campaign, link = carry(tmp_path, answer, announce=announce, repeats=10, retries=1)
    assert len(campaign.known.done) == 20 and not campaign.known.failed
    assert [board for board, _ in link.asked].count("nano-1") == 3
    assert len(said) == 1 and "nano-1: 3 runs in a row failed" in said.pop()


def test_a_run_that_failed_on_one_board_is_tried_on_another(tmp_path):
    def answer(link, board, request):
        bad = board == "nano-1" and request["experiment"]["loading"]["workers"] == 0
        return TaskAnswer(error="no") if bad else done(link, board, request)

    campaign, _ = carry(tmp_path, answer, repeats=2, retries=1)
    assert len(campaign.known.done) == 4


def test_a_campaign_started_again_does_only_what_is_missing(tmp_path):
    def answer(link, board, request):
        return TaskAnswer(error="no") if request["experiment"]["loading"]["workers"] else done(link, board, request)

    carry(tmp_path, answer, retries=0)
    campaign, link = carry(tmp_path, done, retries=0)
    assert len(link.asked) == 1 and len(campaign.known.done) == 2 and not campaign.known.failed


class UnreachableFleet(Fleet):
    """A fleet whose boards cannot be started."""

    @contextlib.contextmanager
    def running(self, boards=None):
        yield {one.name: f"{one.name} (10.0.0.2): cannot be reached by ssh" for one in boards or ()}


def test_a_campaign_none_of_whose_boards_can_be_started_ends_with_the_reasons(tmp_path):
    fleet = UnreachableFleet(local_inventory(("nano", "nano")), tmp_path)
    campaign = FleetCampaign(Plan("d", {"network": "lenet5"}), fleet, FolderStore(tmp_path / "store"))
    with pytest.raises(
        FleetError, match=r"no board could be started: nano-1 \(10.0.0.2\): cannot be reached .*; nano-2"
    ):
        campaign.carry_out()


@pytest.mark.parametrize(
    ("more", "words"),
    [({"device": "sim:nano"}, "leave `device:` out"), ({"folders": {"ssd": "/"}}, "`storage:` of the boards")],
)
def test_what_a_plan_says_about_one_machine_is_refused_on_a_fleet(tmp_path, more, words):
    fleet = Fleet(FleetInventory("lab", (FleetBoard("far", "nano", address="10.0.0.2"),)), tmp_path)
    with pytest.raises(UsageError, match=words):
        FleetCampaign(Plan("d", {"network": "lenet5"}, **more), fleet, FolderStore(tmp_path / "store"))


def test_the_preview_names_boards_and_divides_the_time_among_them(tmp_path):
    campaign, _ = carry(tmp_path, done, repeats=4)
    Path(campaign.journal.path).unlink()
    preview = campaign.preview()
    assert preview.left == 8 and "nano-1 (nano), nano-2 (nano)" in preview.device


def test_a_board_that_could_not_be_put_back_is_named_and_tried_again_at_the_next_start(tmp_path):
    campaign, link = carry(tmp_path, done)
    for kind in ("start", "end"):
        campaign.journal.append(CampaignEntry(kind, 0.0))
    assert campaign._nothing_left()
    campaign.journal.append(CampaignEntry("start", 0.0))
    link.restore = lambda board, wait_s, changed: "only root may" if board.name == "nano-2" else None
    campaign._restore(link)
    campaign.journal.append(CampaignEntry("end", 0.0))
    assert campaign.progress().not_restored == {"nano-2": "only root may"}
    assert [entry.board for entry in campaign.journal.read() if entry.kind == "not_restored"] == ["nano-2"]
    assert not campaign._nothing_left()
