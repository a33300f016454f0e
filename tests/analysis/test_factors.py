"""Runs become rows by factor; scaling, hidden media and the RAM that pays follow from them."""

import numpy as np
import pytest

from edgetrain.analysis.cache_curves import cache_curve, lru_hit_share
from edgetrain.analysis.factors import conclusions, hidden_media, one, ram_that_pays, scaling, settings, tabulate
from edgetrain.analysis.spread import spreads
from edgetrain.record import ArrayTable, DeviceFacts, LimitsRecord, Manifest, Process, Run
from edgetrain.schema import LimitsAsked
from tests.summaries import make_epoch, make_summary, renumbered


def epoch(e2e, stall, compute, read=0, fill=0.1, minibatches=60):
    return make_epoch(0, e2e, stall, compute_s=compute, read_bytes=read, fill_s=fill, minibatches=minibatches)


def summary(factors, *epochs, run="r", serial=None, **more):
    device = DeviceFacts(name="host", serial=serial)
    return make_summary(*renumbered(epochs), factors=factors, run=run, device=device, **more)


def test_repeats_of_a_setting_become_one_row_of_medians():
    rows = tabulate(
        summary({"workers": 1}, epoch(first, 5, 5), epoch(6, 1, 5), run=str(first)) for first in (10, 12, 90)
    )
    assert len(rows) == 1 and rows[0].runs == ("10", "12", "90")
    assert rows[0].first_epoch.e2e_s == 12 and rows[0].later_epochs.e2e_s == 6


def test_settings_stand_in_the_order_of_their_numbers():
    sizes = (128, 1, 16, 8)
    rows = tabulate(summary({"batch_size": size}, epoch(1, 1, 1)) for size in sizes)
    assert [row.get("batch_size") for row in rows] == sorted(sizes)
    named = tabulate(summary({"ram": size}, epoch(1, 1, 1)) for size in ("16GB", "8GB", "900MB"))
    assert [row.get("ram") for row in named] == ["8GB", "16GB", "900MB"]


def test_the_page_cache_is_shown_where_it_follows_from_the_setting():
    def left(network, cache):
        limits = LimitsRecord(LimitsAsked(page_cache_bytes=round(cache)))
        return summary({"network": network}, epoch(1, 1, 1), limits=limits)

    rows = tabulate([left("resnet18", 400e6), left("mobilenet_v3", 100e6)])
    assert settings(rows) == (["network", "page cache"], [["mobilenet_v3", "100 MB"], ["resnet18", "400 MB"]])
    assert settings(tabulate([left("resnet18", 400e6)])) == (["network"], [["resnet18"]])


def test_the_first_epoch_is_kept_apart_and_the_fill_out_of_the_stall():
    (row,) = tabulate([summary({}, epoch(10, 5, 5, fill=1.5), epoch(6, 1, 5, fill=0.2))])
    assert row.first_epoch.steady_stall_s == pytest.approx(3.5)
    assert row.later_epochs.steady_stall_s == pytest.approx(0.8)


def test_a_run_of_one_epoch_has_no_later_ones():
    (row,) = tabulate([summary({}, epoch(10, 5, 5))])
    assert row.later_epochs is None and row.median_epoch.e2e_s == 10


def test_the_slowest_hidden_medium_is_enough():
    rows = tabulate(
        [
            summary({"storage": "hdd", "workers": 2}, epoch(20, 10, 10)),
            summary({"storage": "sd", "workers": 2}, epoch(10.3, 0.3, 10)),
            summary({"storage": "ssd", "workers": 2}, epoch(10.1, 0.1, 10)),
        ]
    )
    assert hidden_media(rows, ("hdd", "sd", "ssd"), workers=2) == "sd"
    assert hidden_media(rows, ("hdd",), workers=2) is None
    assert one(rows, storage="sd").get("workers") == 2 and one(rows, workers=2) is None


def test_scaling_is_relative_to_the_smallest():
    rows = tabulate(
        summary({"dataset_scale": scale}, epoch(1, 1, 1), epoch(10 * scale, scale, 9 * scale, minibatches=60 * scale))
        for scale in (4.0, 0.25, 1.0)
    )
    grown = scaling(rows)
    assert [one.ratio for one in grown] == [1, 4, 16]
    assert [one.e2e_ratio for one in grown] == pytest.approx([1, 4, 16])
    assert len({round(one.stall_per_minibatch_s, 9) for one in grown}) == 1


def test_ram_pays_from_the_size_that_makes_later_epochs_shorter():
    times = {"100MB": 20, "200MB": 19, "400MB": 8, "800MB": 8}
    rows = tabulate(summary({"page_cache": size}, epoch(20, 10, 5), epoch(e2e, 3, 5)) for size, e2e in times.items())
    assert ram_that_pays(rows) == "400MB"
    flat = tabulate(summary({"page_cache": size}, epoch(20, 10, 5), epoch(20, 3, 5)) for size in times)
    assert ram_that_pays(flat) is None


def test_variability_within_and_between_units():
    summaries = [
        summary({}, epoch(99, 1, 1), epoch(mean - 1, 1, 1), epoch(mean + 1, 1, 1), run=str(mean), serial=str(mean))
        for mean in (100, 110)
    ]
    (spread,) = spreads(summaries)
    assert (spread.units, spread.epochs) == (2, 4)
    assert spread.spread == pytest.approx(0.1)
    assert spread.between > 3 * spread.within > 0


def test_one_unit_has_no_spread_between_units():
    (spread,) = spreads([summary({}, epoch(9, 1, 1), epoch(10, 1, 1))])
    assert spread.between is None and spread.within is None and spread.mean == 10


def test_hits_are_far_below_the_cached_share_under_reshuffling():
    shares = np.linspace(0, 1, 21)
    hits = [lru_hit_share(float(share)) for share in shares]
    assert hits[0] == 0 and hits[-1] == 1
    assert all(hit <= share for hit, share in zip(hits, shares, strict=True))
    assert hits == sorted(hits)
    assert lru_hit_share(0.5) == pytest.approx(0.153, abs=0.001)


def test_a_cache_curve_keeps_every_byte_and_the_boundaries():
    epochs = [make_epoch(0, 10.0), make_epoch(1, 10.0)]
    workers = ArrayTable(
        {
            "read_bytes": np.array([100, 200, -1]),
            "began_us": np.array([0, 4_000_000, 15_000_000]),
            "fetched_us": np.array([1_000_000, 6_000_000, 16_000_000]),
        }
    )
    residency = ArrayTable({"at_us": np.array([0, 10_000_000]), "cached_share": np.array([0.0, 1.0])})
    run = Run("r", Manifest(), (Process(workers=workers),), {"residency": residency})
    curve = cache_curve(run, epochs, bins=20)
    assert curve is not None
    assert curve.boundaries_s == (0.0, 10.0, 20.0)
    assert float(curve.read_bytes_per_s.sum() * 1.0) == pytest.approx(300)
    assert list(curve.cached_share) == [0.0, 1.0]
    assert cache_curve(Run("r", Manifest()), epochs) is None


def test_conclusions_say_what_the_table_says():
    media = tabulate(
        summary({"storage": medium, "workers": 2}, epoch(20, stall, 10))
        for medium, stall in (("hdd", 10), ("sd", 0.2), ("ssd", 0.1))
    )
    assert conclusions(media) == ["workers 2: sd is fast enough: compute hides its fetching"]
    slow = tabulate(
        summary({"storage": medium, "workers": workers}, epoch(20, 10, 10))
        for medium in ("hdd", "sd")
        for workers in (0, 1)
    )
    same = "no medium is fast enough for compute to hide its fetching"
    assert conclusions(slow) == [f"at every setting of the other factors, {same}"]
    caches = tabulate(
        summary({"page_cache": size}, epoch(20, 10, 5), epoch(e2e, 3, 5)) for size, e2e in (("1GB", 20), ("2GB", 8))
    )
    assert "2GB" in conclusions(caches)[0]
    sizes = tabulate(
        summary({"dataset_scale": scale, "dataset": str(scale)}, epoch(9, 1, 1), epoch(9 * scale, 1, 1))
        for scale in (1.0, 4.0)
    )
    assert conclusions(sizes) == ["as given: 4x the data takes 4x the time"]
    assert conclusions(tabulate([summary({"workers": 1}, epoch(1, 1, 1))])) == []
