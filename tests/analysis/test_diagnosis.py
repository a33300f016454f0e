"""What limits a training, from its record."""

from dataclasses import replace

import numpy as np
import pytest

from edgetrain.analysis import (
    StallCauses,
    find_loop,
    find_loops,
    find_verdict,
    slowest,
    summarize,
    training_loader,
    verdict_sentence,
)
from edgetrain.analysis.diagnosis import (
    COMPUTE,
    CONTENTION,
    ELSEWHERE,
    HAND_OVER,
    PREPROCESSING,
    STORAGE_ALWAYS,
    STORAGE_COLD,
    UNKNOWN,
    judge,
)
from edgetrain.record import ArrayTable, ComputeFacts, Process
from tests.prediction.pipeline.recorded import Training


def verdict(training, **manifest):
    run = training.run(**manifest)
    return find_verdict(run, summarize(run))


def test_a_loader_that_computes_longer_than_the_step_is_preprocessing():
    found = verdict(Training(workers=0, fetch_s=0.07, step_s=0.03))
    assert found.verdict == PREPROCESSING
    assert found.shares[PREPROCESSING] == pytest.approx(0.7, abs=0.02)
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_a_first_epoch_that_reads_is_storage_cold():
    assert verdict(Training(workers=0, fetch_s=0.005, cold_read_s=0.2, epochs=2)).verdict == STORAGE_COLD


def test_reads_in_every_epoch_are_storage_always():
    run = Training(workers=0, fetch_s=0.005, wait_s=0.1, epochs=3).run()
    workers = dict(run.main.workers.items())
    workers["read_bytes"] = workers["read_bytes"] + 1_000_000
    from edgetrain.record import ArrayTable

    reading = replace(run, processes=(replace(run.main, workers=ArrayTable(workers)),))
    assert find_verdict(reading, summarize(reading)).verdict == STORAGE_ALWAYS


def test_epochs_that_each_read_another_part_of_the_dataset_are_storage_cold():
    training = Training(workers=0, fetch_s=0.005, wait_s=0.1, epochs=2)
    run = training.run()
    workers = dict(run.main.workers.items())
    workers["read_bytes"] = workers["read_bytes"] + 1_000_000
    from edgetrain.record import ArrayTable

    reading = replace(run, processes=(replace(run.main, workers=ArrayTable(workers)),))
    taken = training.minibatches * training.batch_size
    about = replace(run.manifest.workload, samples=20 * taken, max_minibatches=training.minibatches)
    short = replace(reading, manifest=replace(run.manifest, workload=about))
    assert find_verdict(short, summarize(short)).verdict == STORAGE_COLD
    assert find_verdict(reading, summarize(reading)).verdict == STORAGE_ALWAYS


def test_waiting_without_reads_is_waiting_elsewhere():
    assert verdict(Training(workers=0, fetch_s=0.005, wait_s=0.1)).verdict == ELSEWHERE


def test_a_busy_accelerator_is_compute():
    found = verdict(Training(workers=1, fetch_s=0.01, step_s=0.1))
    assert found.verdict == COMPUTE
    assert found.shares[COMPUTE] > 0.9


def test_a_slow_hand_over_is_named():
    found = verdict(Training(workers=1, fetch_s=0.0005, step_s=0.002, receive_s=0.003, minibatches=300))
    assert found.verdict == HAND_OVER


def test_issuing_kernels_that_takes_the_step_is_launch():
    gpu = ComputeFacts("cuda", "a GPU")
    bound = Training(workers=0, fetch_s=0.0001, step_s=0.01, launch_s=0.0099, gpu="a GPU", compute=gpu)
    assert verdict(bound).verdict == "launch"
    busy = replace(bound, launch_s=0.002)
    assert verdict(busy).verdict == COMPUTE


def test_two_causes_of_similar_weight_are_a_mixture():
    found = verdict(Training(workers=0, fetch_s=0.05, wait_s=0.05, step_s=0.01))
    assert set(found.causes) == {PREPROCESSING, ELSEWHERE}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({COMPUTE: 91, PREPROCESSING: 9}, COMPUTE),
        ({COMPUTE: 80, PREPROCESSING: 15, CONTENTION: 5}, PREPROCESSING),
        ({COMPUTE: 50, PREPROCESSING: 25, CONTENTION: 25}, f"{PREPROCESSING} + {CONTENTION}"),
        ({COMPUTE: 50, PREPROCESSING: 28, CONTENTION: 18, HAND_OVER: 4}, f"{PREPROCESSING} + {CONTENTION}"),
        ({COMPUTE: 40, UNKNOWN: 60}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_the_rule(seconds, expected):
    assert judge(seconds)[1] == expected


def test_the_evidence_is_numbers_of_the_run():
    found = verdict(Training(workers=1, fetch_s=0.07))
    facts = {each.fact: each for each in found.evidence}
    assert facts["fetch_cpu"].value == pytest.approx(0.07 / 16, rel=0.01)
    assert facts["workers_busy"].value > 0.95
    assert all(each.text for each in found.evidence)


def test_the_sentence_names_the_cause_and_what_to_do_next():
    summary = summarize(Training(workers=0).run())
    assert verdict_sentence(summary) == (
        "pre-processing (70% of the time) limits this training; edgetrain diagnose made shows the evidence and, where "
        "it can be predicted, what each remedy would gain"
    )
    bound = summarize(Training(workers=1, fetch_s=0.01, step_s=0.1).run())
    assert verdict_sentence(bound).startswith("compute limits this training: 9")


def test_the_sentence_of_a_run_without_causes_says_so():
    summary = summarize(Training(workers=0).run())
    unknown = replace(summary, epochs=tuple(replace(epoch, stall_by=None) for epoch in summary.epochs))
    assert "not known" in verdict_sentence(unknown)
    assert "no minibatch" in verdict_sentence(replace(summary, epochs=()))


def test_the_sentence_of_a_loop_without_a_loader_is_that_nothing_is_known():
    summary = summarize(Training(workers=0).run())
    unseen = replace(summary, epochs=tuple(replace(epoch, fetch_stall_s=None) for epoch in summary.epochs))
    assert "no data loader was seen" in verdict_sentence(unseen)


def test_the_sentence_from_the_minibatches_knows_launches():
    gpu = ComputeFacts("cuda", "a GPU")
    run = Training(workers=0, fetch_s=0.0001, step_s=0.01, launch_s=0.0099, gpu="a GPU", compute=gpu).run()
    assert verdict_sentence(summarize(run), run).startswith("launching kernels (9")


def test_without_the_rows_reads_are_judged_by_the_epoch():
    summary = summarize(Training(workers=0, fetch_s=0.005, cold_read_s=0.2, epochs=2).run())
    assert summary.epochs[0].stall_by is not None
    assert isinstance(summary.epochs[0].stall_by, StallCauses)
    assert "reading the dataset from storage for the first time (" in verdict_sentence(summary)


def test_a_loop_without_a_loader_has_no_stall_in_its_evidence():
    run = Training(workers=0).run()
    summary = summarize(run)
    unseen = replace(summary, epochs=tuple(replace(epoch, fetch_stall_s=None) for epoch in summary.epochs))
    found = find_verdict(run, unseen)
    assert found.verdict == UNKNOWN
    assert not {"stall", "compute"} & {each.fact for each in found.evidence}


def test_the_evidence_says_whose_shares_these_are_where_several_processes_trained():
    run = Training(workers=1).run()
    second = replace(run.main, facts=replace(run.main.facts, rank=1))
    texts = [each.text for each in find_verdict(replace(run, processes=(run.main, second)), summarize(run)).evidence]
    assert texts[0] == "2 processes trained; shares and times are those of the slowest"
    assert not any("processes trained" in each.text for each in find_verdict(run, summarize(run)).evidence)


def test_bytes_of_a_first_epoch_are_not_called_data_where_no_dataset_is_known():
    run = Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2).run()
    texts = [each.text for each in find_verdict(run, summarize(run)).evidence if each.fact == "read_first"]
    assert texts and texts[0].endswith("of the dataset")
    about = replace(run.manifest.workload, dataset_bytes=None)
    unknown = replace(run, manifest=replace(run.manifest, workload=about))
    texts = [each.text for each in find_verdict(unknown, summarize(unknown)).evidence if each.fact == "read_first"]
    assert texts and texts[0].endswith("(data or libraries)")


def test_the_size_of_a_minibatch_is_that_of_the_loader_that_was_trained_from():
    run = Training(workers=1).run()
    trained = replace(run.main.facts.loaders[0], minibatch_bytes=4e6)
    validated = replace(trained, loader=1, minibatch_bytes=9e6)
    facts = replace(run.main.facts, loaders=(validated, trained))
    run = replace(run, processes=(replace(run.main, facts=facts),))
    assert training_loader(slowest(find_loops(run))) == trained
    size = next(each for each in find_verdict(run, summarize(run)).evidence if each.fact == "minibatch_bytes")
    assert size.value == 4e6


def test_loaders_that_were_made_at_one_place_count_together():
    run = Training(workers=1, epochs=1).run()
    rows, facts = run.main.minibatches, run.main.facts.loaders[0]
    numbers = np.arange(len(rows)) % 5  # two of five minibatches come from a loader that is made only once
    columns = {name: rows[name] for name in rows}
    minibatches = ArrayTable({**columns, "loader": np.where(numbers < 2, 0, numbers)})
    loaders = (
        replace(facts, made_at=("once",)),
        *(replace(facts, loader=one, made_at=("again",)) for one in (2, 3, 4)),
    )
    process = replace(run.main, minibatches=minibatches, facts=replace(run.main.facts, loaders=loaders))
    assert training_loader(find_loop(process)).made_at == ("again",)


def test_a_loop_without_minibatches_has_no_training_loader():
    assert training_loader(find_loop(Process())) is None


def with_facts(run, **loader):
    """Return a run whose loader is known to be otherwise."""
    found = tuple(replace(each, **loader) for each in run.main.facts.loaders)
    return replace(run, processes=(replace(run.main, facts=replace(run.main.facts, loaders=found)),))


def with_rows(run, minibatches=None, workers=None):
    """Return a run with columns of its tables replaced."""
    tables = {"minibatches": (run.main.minibatches, minibatches), "workers": (run.main.workers, workers)}
    changed = {name: ArrayTable(dict(table.items()) | (more or {})) for name, (table, more) in tables.items()}
    return replace(run, processes=(replace(run.main, **changed),))


def test_the_start_of_workers_is_named_in_the_evidence_with_its_part_of_the_stall():
    run = Training(workers=1, fetch_s=0.01, epochs=1).run()
    asked = run.main.minibatches["asked_us"].copy()
    asked[0] -= 2_000_000  # the loop asked, and two seconds later the worker began to fetch
    found = with_rows(run, {"asked_us": asked})
    facts = {each.fact: each for each in find_verdict(found, summarize(found)).evidence}
    assert facts["worker_start"].value == pytest.approx(2.0, rel=0.01)
    assert facts["worker_start"].text.startswith("starting the loader's workers took 2 s, 9")
    assert "worker_start" not in {each.fact for each in find_verdict(run, summarize(run)).evidence}


def test_a_run_that_is_too_short_has_no_verdict_and_says_how_long_it_must_be():
    run = Training(workers=1, epochs=1, minibatches=15).run()
    found = find_verdict(run, summarize(run))
    assert found.verdict == UNKNOWN and found.shares[PREPROCESSING] > 0
    assert found.reason == (
        "only 15 of the at least 16 minibatches that a verdict needs were recorded; record a longer run"
    )
    assert verdict_sentence(summarize(run), run) == f"what limits this training is not known: {found.reason}"
    longer = verdict(Training(workers=1, epochs=1, minibatches=16))
    assert longer.verdict == PREPROCESSING and longer.reason is None


def test_a_virtual_machine_whose_cores_were_taken_is_the_reason_and_not_a_missing_loader():
    run = Training(workers=1).run()
    stolen = with_rows(run, workers={"stolen_us": run.main.workers["cpu_us"] // 2})
    summary = summarize(stolen)
    found = find_verdict(stolen, summary)
    (doubt,) = [each.text for each in summary.doubts if each.kind == "steal"]
    assert found.verdict == UNKNOWN and found.reason == doubt
    assert verdict_sentence(summary, stolen) == f"what limits this training is not known: {doubt}"
    unseen = replace(summary, epochs=tuple(replace(epoch, fetch_stall_s=None) for epoch in summary.epochs))
    assert "no data loader was seen" in verdict_sentence(unseen)


def test_a_stream_is_part_of_the_evidence():
    stream = with_facts(Training(workers=0).run(), iterable=True)
    found = find_verdict(stream, summarize(stream))
    assert found.stream
    assert any(each.fact == "stream" and "sharded" in each.text for each in found.evidence)
    assert not verdict(Training(workers=0)).stream
