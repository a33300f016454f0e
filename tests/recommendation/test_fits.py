"""Whether a network fits follows from what it needs, and the verdict has a margin."""

from __future__ import annotations

import pytest

from edgetrain.recommendation.fits import CUDA_BYTES, MIB, judge
from edgetrain.schema import Origin
from edgetrain.schema.memory import MemoryNeed

GIB = 2**30
# Counted on the meta device for batch 16 (tests/workload/test_memory.py holds the counter to it).
MOBILENET = MemoryNeed(
    "mobilenet_v3", 16, Origin.PREDICTED, 4_462_075, 759_576_824, 17_848_300, 17_848_300, 17_848_300, 97_968,
    696_300_036, 9_633_920, dataset_bytes=2_815_760_000,
)  # fmt: skip
RESNET = MemoryNeed(
    "resnet18", 16, Origin.PREDICTED, 11_689_512, 495_292_676, 46_758_048, 46_758_048, 46_758_048, 38_560,
    345_346_052, 9_633_920,
)  # fmt: skip
LENET = MemoryNeed("lenet5", 16, Origin.PREDICTED, 61_706, 1_510_524, 246_824, 246_824, 246_824, 0, 719_748, 50_304)


def fit(need, ram_gib, usable_share=0.9, **options):
    return judge("board", ram_gib * GIB, int(ram_gib * GIB * usable_share), "asked", need, **options)


def test_the_parts_add_up():
    found = fit(MOBILENET, 8, workers=4)
    parts = found.tensors_bytes + found.framework_bytes + found.host_bytes + found.os_bytes
    assert parts == found.needed_bytes and found.left_bytes == found.usable_bytes - parts


@pytest.mark.parametrize(("need", "logged_mib"), [(MOBILENET, 2375), (RESNET, 1779), (MOBILENET, 2456)])
def test_the_accelerators_share_is_what_boards_logged_within_four_percent(need, logged_mib):
    # Orin Nano twice, which served to fit the two constants, and Orin AGX, which did not.
    found = fit(need, 8)
    assert (found.tensors_bytes + found.framework_bytes) / MIB == pytest.approx(logged_mib, rel=0.04)


@pytest.mark.parametrize(
    ("need", "ram_gib", "verdict"),
    [(LENET, 4, "fits"), (MOBILENET, 4, "does not fit"), (MOBILENET, 8, "fits"), (MOBILENET, 32, "fits")],
)
def test_what_the_papers_could_train_fits_and_what_they_could_not_does_not(need, ram_gib, verdict):
    assert fit(need, ram_gib, workers=4).verdict == verdict


def test_more_ram_never_worsens_a_verdict_and_more_workers_never_improve_it():
    order = ["does not fit", "too close to call", "fits, little cache", "fits"]
    by_ram = [order.index(fit(MOBILENET, gib).verdict) for gib in range(2, 33)]
    assert by_ram == sorted(by_ram) and by_ram[0] == 0 and by_ram[-1] == 3
    by_workers = [fit(MOBILENET, 6, workers=count).left_bytes for count in range(9)]
    assert by_workers == sorted(by_workers, reverse=True)


def test_near_the_edge_only_a_trial_can_tell():
    needed = fit(MOBILENET, 16).needed_bytes
    found = judge("board", 16 * GIB, needed, "asked", MOBILENET)
    assert found.verdict == "too close to call" and found.left_bytes == 0


def test_what_is_left_is_the_page_cache_and_its_share_of_the_dataset():
    found = fit(MOBILENET, 7)
    assert found.cached_share == pytest.approx(found.left_bytes / 2_815_760_000)
    assert fit(MOBILENET, 64).cached_share == 1.0
    assert fit(MOBILENET, 2).cached_share == 0.0
    assert fit(RESNET, 8).cached_share is None  # the dataset's size was not given


def test_a_measured_peak_is_not_topped_up_with_activations():
    measured = MemoryNeed("own", 16, Origin.MEASURED, None, 900 * MIB, process_bytes=700 * MIB)
    found = fit(measured, 8, workers=0)
    assert found.framework_bytes == CUDA_BYTES and found.host_bytes == 700 * MIB
    assert any("recorded run (measured)" in each for each in found.assumptions)


def test_the_memory_of_the_operating_system_can_be_given():
    assert fit(LENET, 4, os_bytes=300 * MIB).os_bytes == 300 * MIB
    assert "as given" in " ".join(fit(LENET, 4, os_bytes=300 * MIB).assumptions)
