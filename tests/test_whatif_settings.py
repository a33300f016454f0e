"""The settings on which what-if is scored are as many and as varied as its results claim."""

from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[1] / "benchmarks" / "whatif.yaml"
FAMILIES = yaml.safe_load(FILE.read_text())["families"]


def test_each_base_predicts_at_least_eight_other_settings():
    for family in FAMILIES.values():
        assert len(family["bases"]) + len(family["targets"]) - 1 >= 8


def test_there_are_enough_settings_and_enough_that_change_two_factors():
    settings = [each for family in FAMILIES.values() for each in (*family["bases"], *family["targets"])]
    assert len(settings) >= 36
    assert sum(each.get("changes", 0) >= 2 for each in settings) >= 15
    assert len({each["id"] for each in settings}) == len(settings)


def test_at_most_half_of_the_settings_have_a_paced_accelerator():
    counts = [(len(each["bases"]) + len(each["targets"]), each["common"]["compute"]) for each in FAMILIES.values()]
    assert 2 * sum(count for count, compute in counts if compute == "paced") <= sum(count for count, _ in counts)


@pytest.mark.parametrize("half", ["fit", "score"])
def test_half_of_the_targets_are_kept_from_fitting_the_intervals(half):
    targets = [each for family in FAMILIES.values() for each in family["targets"]]
    assert abs(sum(each["half"] == half for each in targets) / len(targets) - 0.5) <= 0.1
