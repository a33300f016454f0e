"""What stands in a terminal is whole, plain, and says what was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetrain.analysis import (
    EnergyByCause,
    MinibatchTimes,
    OwnCost,
    PowerSummary,
    StallCauses,
    summarize,
)
from edgetrain.analysis.steady import Steady
from edgetrain.record import (
    ComputeFacts,
    DeviceFacts,
    FolderStore,
    ImportFacts,
    LimitsRecord,
    LoadingFacts,
    PowerModeRecord,
    RunRow,
    WorkloadFacts,
)
from edgetrain.report.text import console, list_runs, printable, show_run, spell_limits
from edgetrain.schema import SCHEMA, Doubt, LimitsAsked, LimitsGot, Origin, PowerMode, StorageGot, StorageModel
from tests.report.printing import HOSTILE, assert_plain, printed
from tests.summaries import make_epoch, make_summary

MODE = PowerMode(8, 1_728_000_000, 624_750_000, None, "30W")
LIMITS = LimitsRecord(
    LimitsAsked(
        StorageModel("sd", 0.001, 20e6),
        ram_bytes=4_000_000_000,
        taken_bytes=2_000_000_000,
        page_cache_bytes=300_000_000,
        cores=2,
        cpu_share=0.5,
        accelerator="paced at 390 ms",
        speed=5.0,
    ),
    LimitsGot(StorageGot("sd", "a FUSE server", served={"reads": 12})),
)


def whole():
    """Return a summary in which everything was measured."""
    epoch = make_epoch(
        0,
        12.5,
        5.0,
        minibatches=40,
        fill_s=0.25,
        hidden_wait_s=1.25,
        copy_s=0.5,
        compute_s=6.5,
        overhead_s=0.5,
        stall_by=StallCauses(4.0, 0.5, 0.25, 0.25),
        read_bytes=76_000_000,
        cached_share_before=0.02,
        cached_share_after=0.98,
        energy_j=250.0,
        energy_pm_j=2.0,
        baseload_j=60.0,
        loss=0.7,
    )
    return make_summary(
        epoch,
        replace(epoch, epoch=1, e2e_s=7.0, fetch_stall_s=0.1, stall_by=StallCauses(0.0, 0.1, 0.0, 0.0), compute_s=6.1),
        run="20261116-101010-lenet5-abcd",
        origin=Origin.EMULATED,
        workload=WorkloadFacts(network="lenet5", batch_size=16),
        loading=LoadingFacts(workers=1, cache="cold"),
        compute=ComputeFacts("cuda"),
        device=DeviceFacts(name="host", model="a workstation", gpu="H200", cores=16),
        limits=LIMITS,
        power_mode=PowerModeRecord(MODE, replace(MODE, gpu_hz=612_000_000)),
        minibatch=MinibatchTimes(31.5, 32.5, 41.0, 55.0),
        power_w=PowerSummary(21.0, 22.0, 30.0),
        baseload_w=5.0,
        power_scope="board",
        energy_reason=None,
        energy_by=EnergyByCause(50.0, 140.0, 60.0, 4.0),
        overhead_pct=0.42,
        overhead=OwnCost(sampler_cpu_share=0.005, sampler_read_share=0.01),
        steady=Steady(3, 79, "rule"),
        doubts=(Doubt("steal", "the host took 7% of the CPU time"),),
    )


def test_a_run_shows_what_ran_where_and_what_it_took():
    text = printed(show_run(whole()), 240)
    for words in (
        "20261116-101010-lenet5-abcd   emulated",
        "lenet5 · batch 16 · 1 worker · cache cold · cuda · async timing · a workstation · H200",
        "limited by the lab: storage like sd, RAM 4 GB, page cache 300 MB, 2 cores, each core at 50% of its speed, "
        "accelerator paced at 390 ms, every time divided by 5",
        "power mode: 8 cores at 1728 MHz, GPU 612 MHz",  # what was read back, not what was asked
        "12.5 s", "250 ms", "1.25 s", "500 ms", "6.5 s", "76 MB", "2% → 98%", "250 ± 2 J",
        "40% stalled", "1% stalled",
        "blocked on storage, network or a lock", "78%",
        "median 31.5 ms, mean 32.5 ms, p95 41 ms, p99 55 ms  (minibatches 3–79)",
        "median 21 W, mean 22 W (board); baseload 5 W",
        "stalls 50 J, compute 140 J above a baseload of 60 J, ± 4 J",
        "overhead of edgetrain: 0.42 % of the run (sampler: 0.5 % of one core, reading sensors 1 % of the time)",
        "steal: the host took 7% of the CPU time",
    ):  # fmt: skip
        assert words in text, words
    assert_plain(text)


def test_what_was_not_measured_is_a_dash_or_a_reason_and_never_zero():
    epoch = make_epoch(0, 10.0, None, compute_s=9.5, overhead_s=0.5)
    bare = make_summary(
        epoch,
        workload=WorkloadFacts(),
        loading=None,
        timing=None,
        device=DeviceFacts(),
        energy_reason="this device has no power sensor that can be read",
    )
    text = printed(show_run(bare))
    assert_plain(text)
    (row,) = [line.split() for line in text.splitlines() if line.split()[:2] == ["0", "60"]]
    # End to end, stall, fill, hidden wait, copy, compute, overhead, read, cached before and after, energy.
    assert row[2:] == ["10", "s", "–", "–", "–", "–", "9.5", "s", "500", "ms", "–", "–", "→", "–", "–"]
    assert "stall not known" in text and "fetch stalls are not known: no data loader was seen" in text
    assert "energy: not measured (this device has no power sensor that can be read)" in text
    assert "overhead of edgetrain: not measured" in text
    assert "worker" not in text and "doubts" not in text and "power mode" not in text


def test_a_run_without_minibatches_says_so_and_why_it_ended():
    failed = make_summary(state="failed", doubts=(Doubt("failed", "out of memory"),))
    text = printed(show_run(failed))
    assert "no minibatch was recorded" in text and "failed: out of memory" in text
    assert_plain(text)


def test_a_stall_of_unknown_cause_and_no_stall_at_all_are_distinguished():
    assert "no visible data stalls" in printed(show_run(make_summary(make_epoch(0, 1.0, 0.0))))
    unknown = printed(show_run(make_summary(make_epoch(0, 1.0, 0.5))))
    assert "causes of the stall: not known" in unknown and "blocked" not in unknown


def test_power_without_a_split_says_why():
    summary = make_summary(
        make_epoch(), power_w=PowerSummary(20.0, 21.0), power_scope="gpu", energy_by_reason="stalls are too short"
    )
    text = printed(show_run(summary))
    assert "(gpu); baseload not measured" in text and "energy by cause: not known (stalls are too short" in text


def test_problems_of_an_imported_log_stand_among_the_doubts():
    imported = ImportFacts("/logs/a", problems=("fetch.csv: holds 3 NUL bytes",))
    text = printed(show_run(make_summary(make_epoch(), imported=imported)))
    assert "doubts" in text and "in the log: fetch.csv: holds 3 NUL bytes" in text


def test_limits_that_were_not_asked_for_are_not_spelled():
    assert spell_limits(LimitsRecord(LimitsAsked())) == "none"
    assert spell_limits(LimitsRecord(LimitsAsked(cores=1, speed=1.0))) == "1 core"


def test_names_of_others_reach_the_terminal_as_plain_text():
    hostile = make_summary(
        make_epoch(),
        workload=WorkloadFacts(network=HOSTILE),
        device=DeviceFacts(model=HOSTILE),
        doubts=(Doubt(HOSTILE, HOSTILE),),
        imported=ImportFacts(HOSTILE, problems=(HOSTILE,)),
        energy_reason=HOSTILE,
    )
    text = printed(show_run(hostile), 300)
    assert_plain(text)
    assert text.count("[bold]x[/bold] [/nosuch]") == 6


def test_a_listing_shows_every_run_with_dashes_for_what_is_not_known():
    known = RunRow(SCHEMA, "r1", "finished", Origin.MEASURED, None, "lenet5", 16, 2, "cold", "host", None)
    text = printed(list_runs([known, RunRow(SCHEMA, "r2", None, None, None, None, None, None, None, None, None)]))
    assert "campaign" not in text
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["r1", "finished", "measured", "lenet5", "16", "2", "cold", "host"],
        ["r2", *["–"] * 7],
    ]
    hostile = replace(known, network=HOSTILE, campaign=HOSTILE, device=HOSTILE)
    text = printed(list_runs([hostile]), 400)
    assert_plain(text)
    assert text.count("[bold]x[/bold] [/nosuch]") == 3 and "campaign" in text


def test_text_is_made_printable_for_the_encoding_it_goes_to():
    assert printable("a\tb\nc – d") == "a\tb\nc – d"
    assert printable("\x1b]0;title\x07\x9b31m") == "\ufffd]0;title\ufffd\ufffd31m"
    assert printable("5 – 6 µs", "ascii") == "5 ? 6 ?s"
    assert printable("\ud800") == "\ufffd"


def test_a_console_takes_brackets_for_brackets(capsys):
    console().print("3 of [5/6] and [/nothing] :smile:")
    console(stderr=True).print("[red]not red[/red]")
    caught = capsys.readouterr()
    assert caught.out == "3 of [5/6] and [/nothing] :smile:\n" and caught.err == "[red]not red[/red]\n"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_number_of_a_run_is_cut(record, width):
    run = record(epochs=2, minibatches=40)
    text = printed(show_run(summarize(FolderStore(record.store).open(run))), width)
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    rows = [line.split() for line in text.splitlines() if line.split()[:2] in (["0", "40"], ["1", "40"])]
    assert [row[0] for row in rows] == ["0", "1"]
    for word in ("energy", "medium", "compute", "wait"):
        assert word in text


@pytest.mark.parametrize("width", [80, 160])
def test_ids_are_listed_whole(record, width):
    runs = [record(workload={"network": "n" * 32}, campaign="c" * 60), record()]
    text = printed(list_runs(FolderStore(record.store).runs()), width)
    assert all(run in text for run in runs)


def test_a_run_of_many_epochs_fits_a_screen_and_says_what_is_left_out(record):
    summary = summarize(FolderStore(record.store).open(record(epochs=60, minibatches=4)))
    text = printed(show_run(summary), 120)
    assert "48 epochs between these are left out" in text and len(text.splitlines()) < 50
    assert [line.split()[1] for line in text.splitlines() if line.startswith("epoch ") and "stalled" in line] == [
        *map(str, range(8)),
        *map(str, range(56, 60)),
    ]
