"""Remedies: predicted, ranked, and honest about what brings nothing."""

from dataclasses import replace

import pytest

from edgetrain.analysis import find_verdict, summarize
from edgetrain.documents import to_document
from edgetrain.prediction import ChangeFacts, ModeEffect, PipelinePredictor, WhatIfModel
from edgetrain.recommendation import Diagnosis, VerifiedRemedy, diagnose_run
from edgetrain.recommendation.remedies import ONE_THREAD
from edgetrain.record import ComputeFacts, LimitsRecord, WorkloadFacts
from edgetrain.schema import Experiment, LimitsAsked, StorageModel, Workload
from tests.prediction.pipeline.recorded import IMAGE_BYTES, Training

SD = StorageModel("sd", 7.2e-3, 88e6)
SSD = StorageModel("ssd", 0.55e-3, 350e6, 32)
FACTS = ChangeFacts({"sd": SD, "ssd": SSD})


def diagnosis(training, facts=FACTS, **manifest) -> Diagnosis:
    return diagnosis_of(training.run(**manifest), facts)


def diagnosis_of(run, facts=FACTS) -> Diagnosis:
    summary = summarize(run)
    model = WhatIfModel(PipelinePredictor(run, summary), summary)
    return diagnose_run(find_verdict(run, summary), summary, model, None, facts)


def remedy(found, start):
    return next(each for each in found.remedies if each.change.startswith(start))


def test_workers_are_the_remedy_for_a_loop_that_fetches_by_itself():
    found = diagnosis(Training(workers=0, cores=8))
    assert remedy(found, "num_workers").gain_pct > 40
    gains = [each.gain_pct for each in found.remedies]
    assert gains == sorted(gains, reverse=True)


def test_of_worker_counts_that_gain_the_same_the_smallest_is_named():
    found = diagnosis(Training(workers=1, fetch_s=0.07, step_s=0.03, cores=16))
    assert remedy(found, "num_workers").change == "num_workers=3"


def test_workers_that_wait_need_no_cores_of_their_own():
    waiting = diagnosis(Training(workers=4, fetch_s=0.001, wait_s=0.3, step_s=0.03, cores=2))
    more = remedy(waiting, "num_workers")
    assert more.change == "num_workers=12" and more.gain_pct > 40
    assert "same lock" in more.cost
    computing = diagnosis(Training(workers=4, fetch_s=0.3, step_s=0.03, cores=2))
    assert remedy(computing, "num_workers").settings["workers"] <= 2
    fetched_by_the_loop = diagnosis(Training(workers=0, fetch_s=0.3, step_s=0.03, cores=2))
    assert remedy(fetched_by_the_loop, "num_workers").settings["workers"] == 2


def test_a_change_without_effect_is_predicted_to_take_what_the_run_took():
    found = diagnosis(Training(workers=1, fetch_s=0.07, step_s=0.03, cores=16))
    deeper = remedy(found, "prefetch_factor")
    assert abs(deeper.gain_pct) < 1
    assert deeper.e2e_s == pytest.approx(found.recorded_s, rel=0.01)


def test_a_launch_bound_training_is_offered_a_larger_batch_and_a_compiled_step():
    found = diagnosis(
        Training(
            workers=2, fetch_s=0.005, step_s=0.0101, launch_s=0.010, gpu="a GPU", cores=16,
            compute=ComputeFacts("cuda", "a GPU"),
        )
    )  # fmt: skip
    assert found.verdict == "launch"
    assert remedy(found, "batch_size=32").gain_pct > 20
    compiled = remedy(found, "kernels issued 2 times as fast")
    assert compiled.gain_pct > 20
    assert any("launch-bound" in text for text in compiled.assumed)


def test_no_workers_are_the_remedy_for_a_slow_hand_over():
    found = diagnosis(Training(workers=1, fetch_s=0.0005, step_s=0.002, receive_s=0.003, minibatches=300))
    best = found.remedies[0]
    assert best.change == "num_workers=0"
    assert best.settings == {"workers": 0}


def test_a_faster_medium_is_worth_what_the_first_epoch_waits_for():
    lab = LimitsRecord(LimitsAsked(storage=SD))
    slow = diagnosis(Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2), limits=lab)
    assert remedy(slow, "the dataset on ssd").gain_pct > 30
    enough = diagnosis(Training(workers=1, fetch_s=0.005, cold_read_s=0.14, step_s=0.4, epochs=2), limits=lab)
    assert abs(remedy(enough, "the dataset on ssd").gain_pct) < 1


def test_more_memory_is_no_remedy_where_the_dataset_fits_and_each_epoch_reads_another_part_of_it():
    training = Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2)
    taken = training.minibatches * training.batch_size
    about = WorkloadFacts(
        network="made", batch_size=16, samples=10 * taken, dataset_files=10 * taken,
        dataset_bytes=10 * taken * IMAGE_BYTES, dataset_scale=1.0, max_minibatches=training.minibatches,
    )  # fmt: skip
    found = diagnosis(training, limits=LimitsRecord(LimitsAsked(storage=SD)), workload=about)
    assert not [each.change for each in found.remedies if "RAM" in each.change or "cached" in each.change]


def test_a_training_that_nothing_helps_says_so():
    found = diagnosis(Training(workers=1, fetch_s=0.01, step_s=0.1))
    assert found.verdict == "nothing to gain"
    assert all(each.gain_pct < 3 for each in found.remedies)


def test_a_faster_power_mode_makes_it_compute():
    mode = ModeEffect(step_time=0.5, cpu_speed=1.2, power=1.8, note="power mode MAXN")
    gpu = ComputeFacts("cuda", "a GPU")
    busy = Training(workers=1, fetch_s=0.01, step_s=0.1, launch_s=0.005, gpu="a GPU", compute=gpu)
    found = diagnosis(busy, ChangeFacts(FACTS.media, mode=mode))
    assert found.verdict == "compute"
    assert remedy(found, "power mode MAXN").gain_pct == pytest.approx(50, abs=8)
    assert remedy(found, "power mode MAXN").cost == "+80 % power"


def test_other_programs_are_named():
    found = diagnosis(Training(workers=1, other_cores=1.5))
    assert remedy(found, "stop other programs").gain_pct > 5


def test_without_a_model_the_reason_stands_in_place_of_remedies():
    run = Training(epochs=1, minibatches=8).run()
    summary = summarize(run)
    found = diagnose_run(find_verdict(run, summary), summary, None, "too short", FACTS)
    assert found.remedies == ()
    assert found.remedies_reason == "too short"


def test_the_document_has_the_promised_keys():
    document = to_document(diagnosis(Training(workers=0)))
    assert {"verdict", "shares", "evidence", "remedies"} <= set(document)
    assert {"change", "e2e_s", "e2e_lo", "e2e_hi", "gain_pct"} <= set(document["remedies"][0])
    assert sum(document["shares"].values()) == pytest.approx(1.0)


def test_a_tried_remedy_knows_whether_it_kept_its_interval():
    tried = VerifiedRemedy("num_workers=2", "r", 10.0, 9.0, 11.0, 10.5, 20.0)
    assert tried.held
    assert not VerifiedRemedy("num_workers=2", "r", 10.0, 9.0, 11.0, 12.0, 20.0).held


def streaming(run):
    loaders = tuple(replace(each, iterable=True) for each in run.main.facts.loaders)
    return replace(run, processes=(replace(run.main, facts=replace(run.main.facts, loaders=loaders)),))


def test_a_second_worker_is_not_offered_to_a_stream():
    training = Training(workers=0, cores=8)
    assert remedy(diagnosis(training), "num_workers").settings["workers"] > 1
    found = diagnosis_of(streaming(training.run()))
    assert remedy(found, "num_workers").settings == {"workers": 1}
    assert any(each.fact == "stream" for each in found.evidence)


def test_more_workers_of_a_sharded_stream_are_offered_with_what_they_need():
    found = diagnosis_of(streaming(Training(workers=2, fetch_s=0.2, cores=8).run()))
    more = remedy(found, "num_workers")
    assert more.settings["workers"] > 2
    assert "must be sharded" in more.cost


CPU = ComputeFacts("cpu")


def with_threads(training, threads):
    run = training.run()
    facts = replace(run.main.facts, threads=threads)
    device = replace(run.manifest.device, threads=threads)
    manifest = replace(run.manifest, device=device)
    return replace(run, manifest=manifest, processes=(replace(run.main, facts=facts),))


def test_a_short_step_on_several_threads_is_offered_one_with_an_assumed_interval():
    short = Training(workers=0, fetch_s=0.0005, step_s=0.005, minibatches=200, compute=CPU, cores=2)
    found = diagnosis_of(with_threads(short, 2))
    one = remedy(found, "torch.set_num_threads(1)")
    assert not one.predicted and one.settings == {}
    least, most = found.gain_bounds_pct(one)
    assert least < 0 < 40 < most < 60
    assert one.e2e_lo < one.e2e_s < one.e2e_hi
    assert f"{ONE_THREAD[0]:g} to {ONE_THREAD[1]:g} of its time" in one.assumed[0]
    assert not [each for each in diagnosis_of(with_threads(short, 1)).remedies if "set_num_threads" in each.change]


def test_a_long_step_is_offered_more_threads_and_never_one():
    found = diagnosis_of(with_threads(Training(workers=0, fetch_s=0.005, step_s=0.2, compute=CPU, cores=4), 2))
    offered = [each.change for each in found.remedies if "set_num_threads" in each.change]
    assert offered == ["4 threads for the step (torch.set_num_threads)"]


def test_page_locked_memory_is_offered_only_where_something_is_copied():
    training = Training(workers=1, fetch_s=0.01, launch_s=0.005, gpu="a GPU")
    computed_by = {kind: ComputeFacts(kind, "a GPU") for kind in ("cuda", "simulated", "cpu")}
    offered = {
        kind: any(each.change.startswith("pin_memory") for each in diagnosis(training, compute=compute).remedies)
        for kind, compute in computed_by.items()
    }
    assert offered == {"cuda": True, "simulated": False, "cpu": False}


def lying_on(medium, **manifest):
    """Return the remedies that name a medium, for a run that read its dataset from one."""
    training = Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2)
    about = replace(training.run().manifest.workload, medium=medium)
    found = diagnosis(training, workload=about, **manifest)
    return [each.change for each in found.remedies if each.change.startswith("the dataset on ssd")]


def test_a_faster_medium_is_offered_by_the_name_of_the_present_one_and_not_in_place_of_an_ssd():
    assert lying_on("nvme") == lying_on("ssd") == []
    assert lying_on("emmc") == ["the dataset on ssd instead of emmc"]
    assert lying_on("network") == ["the dataset on ssd instead of network storage"]
    assert lying_on(None) == ["the dataset on ssd instead of the present medium"]
    emulated = LimitsRecord(LimitsAsked(storage=SD))
    assert lying_on("nvme", limits=emulated) == ["the dataset on ssd instead of sd"]


def test_a_medium_that_is_slower_than_the_present_one_is_no_remedy():
    training = Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2)
    slow = ChangeFacts({"ssd": StorageModel("ssd", 50e-3, 5e6)})
    assert not [each for each in diagnosis(training, slow).remedies if each.change.startswith("the dataset on")]


def test_a_faster_medium_gains_nothing_where_the_run_found_its_dataset_in_the_page_cache():
    warm = diagnosis(Training(workers=0, fetch_s=0.02, epochs=2), limits=LimitsRecord(LimitsAsked(storage=SD)))
    assert abs(remedy(warm, "the dataset on ssd").gain_pct) < 1


def test_workers_that_start_again_in_every_epoch_can_be_kept():
    run = Training(workers=2, minibatches=20).run()
    facts = replace(run.main.facts, loaders=(replace(run.main.facts.loaders[0], persistent_workers=False),))
    found = diagnosis_of(replace(run, processes=(replace(run.main, facts=facts),)))
    assert remedy(found, "persistent_workers=True").settings == {"persistent": True}


def test_the_reason_why_nothing_is_known_is_part_of_the_diagnosis():
    run = Training(epochs=1, minibatches=8).run()
    summary = summarize(run)
    found = diagnose_run(find_verdict(run, summary), summary, None, "too short", FACTS)
    assert found.verdict == "unknown"
    assert "16 minibatches" in (found.verdict_reason or "")


def by_script(**more):
    training = Training(workers=0, persistent=False, cores=8, **more)
    return training.run(experiment=Experiment(Workload("train.py", command=("python", "train.py"))))


def test_workers_of_a_script_that_are_worth_keeping_are_offered_with_what_keeps_them():
    found = diagnosis_of(by_script(fetch_s=0.01, minibatches=20, epochs=6))
    kept = found.remedies[0]
    assert kept.change.endswith(", persistent_workers=True")
    plain = next(each for each in found.remedies if "persistent" not in each.settings and "workers" in each.settings)
    assert kept.settings == {"workers": plain.settings["workers"], "persistent": True}
    assert kept.gain_pct > plain.gain_pct + 1


def test_workers_that_start_quickly_beside_long_epochs_are_offered_without():
    found = diagnosis_of(by_script(fetch_s=0.07, minibatches=200))
    assert remedy(found, "num_workers").settings["workers"] >= 1
    assert not [each for each in found.remedies if "persistent" in each.settings]


def test_the_workers_of_a_built_in_workload_are_kept_as_its_experiment_says():
    run = Training(workers=0, cores=8, fetch_s=0.01, minibatches=20).run(experiment=Experiment(Workload("lenet5")))
    found = diagnosis_of(run)
    assert not [each for each in found.remedies if "persistent" in each.settings]


def test_an_epoch_that_was_cut_short_is_in_no_prediction_and_is_named():
    found = diagnosis(Training(workers=1, epochs=3, last_minibatches=10, cores=16))
    whole = diagnosis(Training(workers=1, epochs=2, cores=16))
    assert found.recorded_s == pytest.approx(whole.recorded_s)
    assert remedy(found, "num_workers").e2e_s == pytest.approx(remedy(whole, "num_workers").e2e_s, rel=0.01)
    assert any("left out: cut short" in text for text in found.notes)
