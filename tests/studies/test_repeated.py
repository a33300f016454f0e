"""Groups of runs as numbers with their uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from edgetrain.studies.data import fits_in_ram
from edgetrain.studies.repeated import ASSUMED, COLD, widening
from edgetrain.studies.uncertain import Uncertain, share_seen
from tests.studies.planted import planted, point


def only(points, **how):
    (group,) = planted(points, **how).groups
    return group


def test_a_single_run_scatters_as_assumed():
    stall = only([point((100, 200))], repeats=1, noise=0.0).get("stall")
    assert stall.value == pytest.approx(0.1)
    assert (stall.hi / stall.lo) == pytest.approx(np.exp(2 * 1.96 * ASSUMED.stall), rel=0.05)


def test_repeats_of_other_settings_show_how_a_single_run_scatters():
    quiet = planted([point((100, 200), workers=count) for count in range(6)], repeats=2, noise=0.01)
    wide = only([point((100, 200))], repeats=2, noise=0.0).get("stall")
    narrow = quiet.groups[0].get("stall")
    assert narrow.hi - narrow.lo < 0.5 * (wide.hi - wide.lo)


def test_the_scatter_between_a_runs_own_epochs_widens_its_interval():
    steady, restless = (
        only([point((100, 200), epochs=4, jitter=jitter)], repeats=1, noise=0.0).get("compute") for jitter in (0.0, 0.2)
    )
    assert steady.hi / steady.lo == pytest.approx(np.exp(2 * 1.96 * ASSUMED.rest), rel=0.02)
    assert restless.hi - restless.lo > 3 * (steady.hi - steady.lo)


def test_two_pairs_of_runs_do_not_show_how_much_runs_scatter_however_many_epochs_they_have():
    pairs = planted([point((100, 200), cold=(110, 200), workers=count) for count in (0, 1)], repeats=2, noise=1e-4)
    assert pairs.groups[0].spread == ASSUMED
    more = planted([point((100, 200), cold=(110, 200), workers=count) for count in range(5)], repeats=2, noise=1e-4)
    assert more.groups[0].spread.stall < 1e-3


def test_a_spread_that_few_repeats_show_is_widened_as_students_t_is():
    assert widening(4) == pytest.approx(2.776 / 1.960, rel=0.01) and widening(1e6) == pytest.approx(1.0)


def test_a_share_that_was_seen_to_be_nothing_is_not_known_exactly():
    share = share_seen([0.0], 0.1, 0.005, 1)
    assert share.value == share.lo == 0 and share.hi == pytest.approx(0.0098, rel=0.1)
    assert share_seen([0.5, 0.5, 0.5], 0.1, 0.005, 1).hi < share_seen([0.5], 0.1, 0.005, 1).hi


def test_more_runs_narrow_the_interval_and_noise_widens_it():
    def width(repeats, noise):
        data = planted([point((100, 200), workers=count) for count in range(20)], repeats, noise)
        return np.mean([group.get("stall").hi - group.get("stall").lo for group in data.groups])

    assert width(12, 0.1) < width(3, 0.1) and width(5, 0.01) < width(5, 0.2)


def test_settings_that_do_not_differ_rarely_look_different():
    draw, outside, tries = np.random.default_rng(3), 0, 200
    for _ in range(tries):
        groups = planted(
            [point((100 * factor, 200), workers=0) for factor in np.exp(0.1 * draw.standard_normal(3))], 1, 0
        )
        others = planted(
            [point((100 * factor, 200), workers=1) for factor in np.exp(0.1 * draw.standard_normal(3))], 1, 0
        )
        ratio = groups.groups[0].get("stall") / others.groups[0].get("stall")
        outside += not ratio.lo <= 1 <= ratio.hi
    assert outside <= 0.05 * tries


def test_what_was_not_measured_is_none_and_a_stall_of_nothing_is_not_visible():
    group = only([point((0, 200))])
    assert group.get("energy") is None and group.get("stall", COLD) is None
    assert group.get("stall").value == 0 and group.visible_stall() is None
    assert group.compute().value == pytest.approx(0.2, rel=0.02)


def test_arithmetic_is_done_draw_by_draw():
    one = only([point((100, 200))]).get("stall")
    same = one / one - 1
    assert same.lo == same.hi == 0
    assert (one - Uncertain.exact(0.1)).value == pytest.approx(one.value - 0.1)
    assert (1 - one).value == pytest.approx(1 - one.value)


def test_units_of_one_setting_are_kept_apart():
    group = only([point((10, 200), unit="a"), point((10, 300), unit="b")])
    assert group.of_unit("b").get("compute").value > 1.3 * group.of_unit("a").get("compute").value


def test_a_metric_that_some_runs_lack_comes_from_the_runs_that_have_it():
    group = only([point((10, 200), power_w=20.0), point((10, 300))])
    energy = group.get("energy")
    assert energy.value == pytest.approx(20.0 * 0.21, rel=0.02)  # J per minibatch, of the first three runs alone
    assert group.get("e2e").value == pytest.approx(0.26, rel=0.02)  # of all six
    measured = group.having("energy")
    assert len(measured.runs) == 3
    assert measured.get("energy").value / measured.get("e2e").value == pytest.approx(20.0, rel=0.02)


@pytest.mark.parametrize(
    ("dataset_bytes", "cached", "fits"),
    [
        (2e9, 1.0, True),
        (2e9, None, True),
        (2e9, 0.3, None),  # 32 GiB of RAM hold it, and something else limited the page cache
        (12e9, 1.0, True),
        (12e9, 0.3, False),
        (12e9, 0.8, None),
        (40e9, None, False),
        (40e9, 0.99, None),
    ],
)
def test_a_dataset_fits_into_ram_where_sizes_and_what_was_cached_agree(dataset_bytes, cached, fits):
    group = only([point(dataset_bytes=dataset_bytes, cached=cached, ram_bytes=32 << 30)])
    assert fits_in_ram(group) is fits
