"""The page cache under reshuffling."""

from collections import OrderedDict

import numpy as np
import pytest

from edgetrain.analysis import lru_hit_share
from edgetrain.prediction.pipeline.page_cache import (
    DatasetOnMedium,
    cached_share_of,
    later_miss_chances,
    miss_chances,
    missed,
)

PICTURES = DatasetOnMedium(1e8, 1000, 1000)
PACKED = DatasetOnMedium(784e3, 1000, 1)
POSITIONS = (np.arange(20_000) + 0.5) / 20_000


def lru_misses(files, capacity, epochs, seed=0, taken=1.0, warm=False):
    """Return the share of misses of each epoch, from a cache that evicts the file not used for longest."""
    rng, cache, shares = np.random.default_rng(seed), OrderedDict(), []
    count = round(files * taken)
    if warm:
        cache.update((file, True) for file in rng.permutation(files)[-capacity:].tolist())
    for _ in range(epochs):
        misses = 0
        for file in rng.permutation(files)[:count].tolist():
            if file in cache:
                cache.move_to_end(file)
            else:
                misses += 1
                cache[file] = True
                if len(cache) > capacity:
                    cache.popitem(last=False)
        shares.append(misses / count)
    return shares


@pytest.mark.parametrize("cached", [0.25, 0.5, 0.9])
def test_later_epochs_miss_as_often_as_a_real_lru_cache(cached):
    expected = float(np.mean(lru_misses(4000, int(4000 * cached), 4)[1:]))
    assert miss_chances(POSITIONS, cached, 1, PICTURES, 1.0).mean() == pytest.approx(expected, abs=0.02)


def test_the_mean_is_the_formula_of_the_analysis():
    assert miss_chances(POSITIONS, 0.6, 2, PICTURES, 1.0).mean() == pytest.approx(1 - lru_hit_share(0.6), abs=1e-3)


def test_a_first_epoch_reads_every_file_and_a_cache_that_holds_all_is_never_missed():
    assert miss_chances(POSITIONS, 0.3, 0, PICTURES, 1.0).all()
    assert not miss_chances(POSITIONS, 1.0, 1, PICTURES, 1.0).any()


def test_samples_that_share_a_page_read_it_once():
    pages = 784e3 / 4096
    assert miss_chances(POSITIONS, 1.0, 0, PACKED, 1.0).mean() * 1000 == pytest.approx(pages, rel=0.02)


def test_an_epoch_of_part_of_the_dataset_meets_files_that_were_never_read():
    assert miss_chances(POSITIONS, 1.0, 1, PICTURES, 0.25).mean() == pytest.approx(0.75)
    assert miss_chances(POSITIONS, 1.0, 2, PICTURES, 0.25).mean() == pytest.approx(0.75**2)


def test_draws_keep_the_expected_number_in_every_stretch():
    chances = np.full(1000, 0.3)
    drawn = missed(chances, np.random.default_rng(1))
    for start in range(0, 1000, 100):
        assert drawn[start : start + 100].sum() in (29, 30, 31)


@pytest.mark.parametrize("cached", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_cached_share_is_found_again_from_what_is_read_again(cached):
    assert cached_share_of(1.0 - lru_hit_share(cached)) == pytest.approx(cached, abs=0.01)


def test_large_samples_of_a_packed_file_are_read_whole_and_small_ones_by_the_page():
    small, large = DatasetOnMedium(784e3, 1000, 1), DatasetOnMedium(1e8, 1000, 4)
    assert small.share_pages and small.read_bytes == 4096
    assert large.packed and not large.share_pages and large.read_bytes == 1e5


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(("cached", "taken"), [(0.95, 0.25), (0.5, 0.5), (0.2, 0.5), (1.0, 0.3)])
def test_epochs_of_part_of_the_dataset_miss_as_often_as_a_real_lru_cache(cached, taken, warm):
    real = lru_misses(8000, int(8000 * cached), 6, taken=taken, warm=warm)
    unread = 0.0 if warm else 1.0
    for epoch, expected in enumerate(real):
        chances = miss_chances(POSITIONS, cached, epoch, PICTURES, taken, unread)
        assert chances.mean() == pytest.approx(expected, abs=0.02)
    later = later_miss_chances(POSITIONS, cached, 5, taken, unread).mean()
    assert later == pytest.approx(np.mean(real[1:]), abs=0.02)


def test_a_smaller_cache_never_reads_less_than_one_that_holds_everything():
    for taken in (0.1, 0.25, 0.9, 1.0):
        for epoch in (0, 1, 2, 5):
            full, most = (miss_chances(POSITIONS, cached, epoch, PICTURES, taken) for cached in (1.0, 0.95))
            assert (most >= full - 1e-12).all()


def test_a_dataset_that_was_read_before_misses_in_the_first_epoch_as_in_a_later_one():
    first = miss_chances(POSITIONS, 0.6, 0, PICTURES, 1.0, unread=0.0)
    assert first == pytest.approx(miss_chances(POSITIONS, 0.6, 1, PICTURES, 1.0))
    assert not miss_chances(POSITIONS, 1.0, 0, PICTURES, 0.25, unread=0.0).any()


def test_a_start_with_part_of_the_dataset_reads_the_rest():
    assert miss_chances(POSITIONS, 1.0, 0, PICTURES, 1.0, unread=0.3) == pytest.approx(0.3)
    assert miss_chances(POSITIONS, 0.4, 0, PICTURES, 1.0, unread=0.3).mean() > 0.6
