"""A campaign makes exactly the planned runs, whatever happens on the way."""

import os
import subprocess
import sys
import threading

import pytest

from edgetrain.errors import EdgetrainError, WorkloadError
from edgetrain.record import FolderStore, Manifest, WorkloadFacts
from edgetrain.runner.campaign import CampaignRunner, fresh_tag
from edgetrain.runner.campaign_journal import CampaignEntry, CampaignJournal, MachineLock
from edgetrain.runner.plan_reading import plan_from_text
from edgetrain.runner.settle import busy_share, hottest_c, wait_until_quiet

TEXT = "name: t\nnetwork: lenet5\ncompute: paced\ncompute_ms: 1\nfactors:\n  workers: [0, 1, 2, 4]\n"


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """Keep the machine's lock out of the tests: others may be measuring."""
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))


def record(store, experiment, state="finished"):
    """Make a run's folder as the executor does, without the training."""
    manifest = Manifest(
        state=state,
        campaign=experiment.campaign,
        position=experiment.position,
        repeat=experiment.repeat,
        factors=dict(experiment.factors),
        workload=WorkloadFacts(network=experiment.workload.network),
    )
    return store.create(manifest).id


def made(store, campaign):
    return [row for row in store.runs() if row.campaign == campaign.id and row.state == "finished"]


def test_every_planned_run_is_made_once_and_starting_again_makes_none(tmp_path):
    store = FolderStore(tmp_path / "store")
    seen = []

    def run(experiment):
        seen.append(experiment.factors["workers"])
        return record(store, experiment)

    first = CampaignRunner(plan_from_text(TEXT), store, run).carry_out()
    assert first.complete and sorted(seen) == [0, 1, 2, 4]
    assert CampaignRunner(plan_from_text(TEXT), store, run).carry_out().complete
    assert len(seen) == 4


def test_a_run_that_ended_before_it_was_entered_is_adopted_not_repeated(tmp_path):
    store = FolderStore(tmp_path / "store")

    class Killed(BaseException):
        pass

    def killed_after(experiment):
        record(store, experiment)
        raise Killed

    def killed_within(experiment):
        record(store, experiment, "running")
        raise Killed

    plan = plan_from_text(TEXT)
    for run in (killed_after, killed_within):
        with pytest.raises(Killed):
            CampaignRunner(plan, store, run).carry_out()
    campaign = CampaignRunner(plan, store, lambda experiment: record(store, experiment))
    assert campaign.carry_out().complete
    assert len(made(store, campaign)) == 4


def test_failures_are_recorded_and_tried_again_at_the_end(tmp_path):
    store = FolderStore(tmp_path / "store")
    order = []

    def flaky(experiment):
        workers = experiment.factors["workers"]
        order.append(workers)
        if workers == 1 and order.count(1) == 1:
            raise WorkloadError("a worker died")
        return record(store, experiment)

    campaign = CampaignRunner(plan_from_text(TEXT + "order: listed\n"), store, flaky)
    progress = campaign.carry_out()
    assert progress.complete and not progress.failed
    assert order == [0, 1, 2, 4, 1]
    assert [entry.kind for entry in campaign.journal.read()].count("failed") == 1


def test_what_keeps_failing_is_said_and_the_rest_is_done(tmp_path):
    store = FolderStore(tmp_path / "store")

    def run(experiment):
        if experiment.factors["workers"] == 2:
            raise WorkloadError("no memory left")
        return record(store, experiment)

    progress = CampaignRunner(plan_from_text(TEXT), store, run).carry_out()
    assert len(progress.done) == 3
    assert list(progress.failed.values()) == ["no memory left"]


def test_a_torn_journal_is_read_up_to_the_tear_and_goes_on_behind_it(tmp_path):
    journal = CampaignJournal(tmp_path / "journal.jsonl")
    journal.append(CampaignEntry("begun", 1.0, "a"))
    with open(journal.path, "ab") as file:
        file.write(b'{"kind": "done", "ke')
    journal.append(CampaignEntry("begun", 2.0, "b"))
    assert [entry.key for entry in journal.read()] == ["a", "b"]


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_journal_cut_anywhere_gives_back_only_whole_entries(tmp_path, cut):
    journal = CampaignJournal(tmp_path / "journal.jsonl")
    for key in "abc":
        journal.append(CampaignEntry("done", 1.0, key, run=key * 3))
    data = journal.path.read_bytes()
    journal.path.write_bytes(data[:cut])
    assert all(entry.run == entry.key * 3 for entry in journal.read())


def test_only_one_campaign_runs_on_a_machine(tmp_path):
    with MachineLock(tmp_path):
        code = (
            "import sys; from pathlib import Path; from edgetrain.runner.campaign_journal import MachineLock\n"
            "with MachineLock(Path(sys.argv[1])): pass"
        )
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
        assert other.returncode and f"process {os.getpid()}" in other.stderr
        with pytest.raises(EdgetrainError, match="another campaign"), MachineLock(tmp_path):
            pass
    with MachineLock(tmp_path):
        pass


def test_a_campaign_with_nothing_left_to_run_does_not_wait_for_another(tmp_path):
    store = FolderStore(tmp_path / "store")

    def run(experiment):
        return record(store, experiment)

    CampaignRunner(plan_from_text(TEXT), store, run).carry_out()
    with MachineLock(tmp_path):
        assert CampaignRunner(plan_from_text(TEXT), store, run).carry_out().complete
        with pytest.raises(EdgetrainError, match="another campaign"):
            CampaignRunner(plan_from_text(TEXT), store, run, tag="-2").carry_out()


def test_a_simulated_campaign_excludes_only_itself(tmp_path):
    store = FolderStore(tmp_path / "store")

    def run(experiment):
        with pytest.raises(EdgetrainError, match="already being carried out"):
            CampaignRunner(plan_from_text(TEXT), store, run, "sim:orin-nano").carry_out()
        return record(store, experiment)

    with MachineLock(tmp_path):
        assert CampaignRunner(plan_from_text(TEXT), store, run, "sim:orin-nano").carry_out().complete


def test_a_fresh_start_leaves_the_old_campaign_alone(tmp_path):
    store = FolderStore(tmp_path / "store")
    plan = plan_from_text(TEXT)

    def run(experiment):
        return record(store, experiment)

    first = CampaignRunner(plan, store, run)
    first.carry_out()
    tag = fresh_tag(plan, store)
    second = CampaignRunner(plan, store, run, tag=tag)
    assert second.id != first.id and second.carry_out().complete
    assert len(made(store, first)) == len(made(store, second)) == 4


def test_a_journal_that_cannot_be_written_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(EdgetrainError, match="journal"):
        CampaignJournal(blocked / "journal.jsonl").append(CampaignEntry("start", 1.0))


def test_a_machine_that_never_settles_gets_a_doubt_and_the_run_goes_on(tmp_path):
    clock = iter(range(1000))
    quiet = wait_until_quiet(
        0.2, None, 5, read_busy=lambda: 0.9, now_s=lambda: float(next(clock)), sleep=lambda seconds: None
    )
    assert quiet.doubt and "CPUs 90 % busy (limit 20 %)" in quiet.doubt
    calm = wait_until_quiet(0.2, 60.0, 5, read_busy=lambda: 0.1, read_temp=lambda: 41.0)
    assert calm.doubt is None

    store = FolderStore(tmp_path / "store")
    plan = plan_from_text(TEXT.replace("[0, 1, 2, 4]", "[0]") + "settle: {busy: 0.000001, wait_s: 0}\n")
    stop = threading.Event()
    load = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(stop.is_set, True)])
    load.start()
    try:
        progress = CampaignRunner(plan, store, lambda experiment: record(store, experiment)).carry_out()
    finally:
        stop.set()
        load.join()
    event = store.open(next(iter(progress.done.values()))).events[0]
    assert (event.kind, event.doubt) == ("doubt", "not_quiet") and "did not settle" in event.text


def test_use_and_heat_are_read_from_the_kernel(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 0 900 0 0 0 0 0 0\n")

    def later(seconds):
        stat.write_text("cpu  150 0 0 950 0 0 0 0 0 0\n")

    assert busy_share(1, stat, later) == pytest.approx(0.5)
    for number, value in enumerate(("41500", "-256000", "garbage")):
        (tmp_path / f"thermal_zone{number}").mkdir()
        (tmp_path / f"thermal_zone{number}" / "temp").write_text(value)
    assert hottest_c(tmp_path) == pytest.approx(41.5)
    assert hottest_c(tmp_path / "nothing") is None
