"""Which runs of a store repeat a run, and what their spread does to the intervals of a what-if."""

from dataclasses import replace

import pytest

from edgetrain.analysis import summarize
from edgetrain.api.repeats import MAX_REPEATS, began_alike, find_repeats
from edgetrain.api.what_if import open_model
from edgetrain.errors import UsageError
from edgetrain.record import DeviceFacts, FolderStore, LoadingFacts, Manifest, WorkloadFacts
from edgetrain.schema import Experiment, Limits, Loading, Origin, Workload
from tests.prediction.pipeline.recorded import Training

EXPERIMENT = Experiment(Workload("lenet5"), Loading(workers=1))


def made(store, experiment=EXPERIMENT, **manifest):
    known = {
        "state": "finished",
        "workload": WorkloadFacts(network=experiment.workload.network),
        "device": DeviceFacts(name="host", host="here", cores=2),
        "experiment": experiment,
    }
    return store.open(store.create(Manifest(**(known | manifest))).id)


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path)


def test_repeats_are_the_finished_runs_of_the_same_experiment_on_the_same_unit(store):
    run = made(store)
    same = [made(store), made(store, replace(EXPERIMENT, repeat=2, seed=7, campaign="nightly"))]
    made(store, replace(EXPERIMENT, loading=Loading(workers=2)))
    made(store, replace(EXPERIMENT, limits=Limits(cores=1)))
    made(store, Experiment(Workload("mobilenet_v3"), Loading(workers=1)))
    made(store, state="failed")
    made(store, origin=Origin.SIMULATED)
    made(store, device=DeviceFacts(name="host", host="elsewhere", cores=2))
    assert {each.id for each in find_repeats(run, store)} == {each.id for each in same}


def test_trials_of_a_script_are_no_repeats_of_it(store):
    run, same = made(store), made(store, replace(EXPERIMENT, campaign="tune-nightly"))
    for trials in ("verify-20261119-235253", "tune-20261119-235253"):
        made(store, replace(EXPERIMENT, campaign=trials))
    assert [each.id for each in find_repeats(run, store)] == [same.id]


def test_a_script_that_was_edited_between_two_runs_of_one_command_is_no_repeat(store):
    script = Experiment(Workload("train.py", command=("python", "train.py")))
    run = made(store, script, loading=LoadingFacts(workers=0))
    same = made(store, script, loading=LoadingFacts(workers=0))
    made(store, script, loading=LoadingFacts(workers=4))
    made(store, script, loading=LoadingFacts(workers=0), workload=WorkloadFacts(network="train.py", batch_size=64))
    assert [each.id for each in find_repeats(run, store)] == [same.id]


def test_a_dataset_that_the_lab_shows_at_another_place_in_each_run_is_the_same_one(store):
    places = [WorkloadFacts(network="lenet5", dataset=f"/run/lab-{each}/view", storage_device=each) for each in "ab"]
    run, same = (made(store, workload=each) for each in places)
    made(store, workload=replace(places[0], dataset_bytes=1000))
    assert [each.id for each in find_repeats(run, store)] == [same.id]


def test_only_the_newest_repeats_are_read(store):
    runs = [made(store) for _ in range(MAX_REPEATS + 3)]
    found = {each.id for each in find_repeats(runs[0], store)}
    assert len(found) == MAX_REPEATS
    assert runs[0].id not in found


def test_a_run_that_does_not_say_what_was_chosen_has_no_repeats(store):
    made(store, experiment=EXPERIMENT)
    assert find_repeats(Training().run(), store) == []


def named(training, name, **manifest):
    return replace(training.run(**manifest), id=name)


def test_a_run_is_no_repeat_of_itself_and_none_counts_twice():
    run, other = Training(workers=1).run(), named(Training(workers=1), "other")
    with pytest.raises(UsageError, match="made is the run that is asked about"):
        open_model(run, [other, run])
    with pytest.raises(UsageError, match="other is named twice"):
        open_model(run, [other, other])


def test_a_run_of_another_setting_is_no_repeat_and_the_difference_is_named():
    run = Training(workers=1).run(experiment=EXPERIMENT)
    more = replace(EXPERIMENT, loading=Loading(workers=2), limits=Limits(cores=1))
    with pytest.raises(UsageError, match="other is no repeat of made: it differs in cores, workers"):
        open_model(run, [named(Training(workers=1), "other", experiment=more)])
    with pytest.raises(UsageError, match="it differs in batch_size"):
        open_model(run, [named(Training(workers=1, batch_size=32, minibatches=40), "other", experiment=EXPERIMENT)])
    again = replace(EXPERIMENT, repeat=2, seed=7, campaign="nightly", position=3)
    assert open_model(run, [named(Training(workers=1), "other", experiment=again)]).answer([]).repeats == 1


def test_repeats_that_cannot_be_compared_are_counted():
    run = Training(workers=1, epochs=1).run()
    others = [named(Training(workers=1, epochs=1), name) for name in ("one", "two")]
    answer = open_model(run, others).answer([])
    assert answer.repeats == 0
    assert any("0 of 2 other runs of this setting are used for the intervals" in note for note in answer.notes)
    assert any("where it is known how much of the dataset the page cache held" in note for note in answer.notes)
    single = open_model(Training(workers=1).run(), [named(Training(workers=1, epochs=1), "one")]).answer([])
    assert any("the others have one whole epoch only" in note for note in single.notes)
    enough = open_model(Training(workers=1).run(), [named(Training(workers=1), "one")])
    assert not enough.answer([]).notes


def test_the_spread_of_repeats_widens_the_intervals_and_is_reported():
    run = Training(workers=1).run()
    slower, faster = (
        named(Training(workers=1, fetch_s=0.10), "slower"),
        named(Training(workers=1, fetch_s=0.05), "faster"),
    )
    alone, beside = open_model(run, []), open_model(run, [slower, faster])
    assert beside.base.later.e2e_s.value == alone.base.later.e2e_s.value
    assert beside.base.later.e2e_s.hi > 1.2 * alone.base.later.e2e_s.hi
    assert beside.base.later.stall_s.hi > alone.base.later.stall_s.hi
    answer = beside.answer([])
    assert answer.repeats == 2
    assert answer.between_runs_pct == pytest.approx(34, abs=3)
    assert alone.answer([]).between_runs_pct is None


def test_two_runs_do_not_tell_how_much_runs_differ():
    run, other = Training(workers=1).run(), named(Training(workers=1, fetch_s=0.2), "other")
    assert open_model(run, [other]).answer([]).between_runs_pct is None


@pytest.mark.parametrize(
    ("epochs", "shares", "alike"), [(2, (0.0, 1.0), True), (1, (0.0, 1.0), False), (1, (1.0, 0.97), True)]
)
def test_single_epochs_are_compared_only_where_they_met_the_same_page_cache(epochs, shares, alike):
    one, other = (summarize(Training(workers=1, epochs=epochs).run()) for _ in range(2))
    one, other = (
        replace(each, epochs=(replace(each.epochs[0], cached_share_before=share), *each.epochs[1:]))
        for each, share in zip((one, other), shares, strict=True)
    )
    assert began_alike(one, other) is alike
