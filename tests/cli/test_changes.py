"""Changes on the command line."""

import pytest

from edgetrain.cli.changes import only_one, parse_changes, parse_sweep, split_run
from edgetrain.errors import UsageError


def test_words_become_changes():
    assert parse_changes(["workers=2", "storage=hdd", "batch-size=32"]) == {
        "workers": "2",
        "storage": "hdd",
        "batch_size": "32",
    }


@pytest.mark.parametrize("word", ["workers", "=2", "workers=", ""])
def test_a_word_without_a_name_or_a_value_is_refused(word):
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_changes([word])


def test_a_change_in_the_place_of_the_run_is_a_change_of_the_last_run():
    assert split_run("storage=hdd", ["ram=4GiB"]) == ("last", ["storage=hdd", "ram=4GiB"])
    assert split_run("last", ["ram=4GiB"]) == ("last", ["ram=4GiB"])
    assert split_run("./a=b/run", []) == ("./a=b/run", [])
    assert split_run("power_mode=12/2201/1300/3199", []) == ("last", ["power_mode=12/2201/1300/3199"])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(UsageError, match="given twice, as 1 and as 2"):
        parse_changes(["workers=1", "workers=2"])


def test_a_sweep_is_a_range_or_a_list():
    assert parse_sweep("workers=0..3") == ("workers", [0, 1, 2, 3])
    assert parse_sweep("storage=ssd,sd") == ("storage", ["ssd", "sd"])
    assert parse_sweep(None) is None


@pytest.mark.parametrize("text", ["workers=3..1", "workers=a..b", "workers=0..100000000"])
def test_a_range_that_cannot_be_is_refused(text):
    with pytest.raises(UsageError):
        parse_sweep(text)


def test_only_one_setting_is_swept():
    assert only_one(None) is None and only_one(["workers=0..3"]) == "workers=0..3"
    with pytest.raises(UsageError, match="only one setting can be swept, not workers=1 and batch_size=8"):
        only_one(["workers=1", "batch_size=8"])
