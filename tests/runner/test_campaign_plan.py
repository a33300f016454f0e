"""A plan is read with every mistake named by its line, and gives each experiment once, in a reproducible order."""

import json

import pytest

from edgetrain.errors import BadTable, UsageError
from edgetrain.runner.campaign_media import check_folders
from edgetrain.runner.plan_costs import cost_of, expected_s
from edgetrain.runner.plan_json_schema import plan_schema
from edgetrain.runner.plan_reading import plan_from_text, read_plan
from edgetrain.schema import Limits, PowerMode, all_settings

GOOD = """
name: grid
network: mobilenet_v3
preset: xavier-nx
shrink: 20
cache: cold
factors:
  workers: [0, 1, 2]
  storage: [sd, hdd]
points:
  - {workers: 4, storage: ssd}
  - {workers: 0, storage: sd}
repeats: 2
"""


def test_grid_and_points_give_each_experiment_once_per_repeat():
    runs = plan_from_text(GOOD).runs()
    assert len(runs) == 2 * (6 + 1)
    assert len({run.key for run in runs}) == len(runs)
    assert sorted(run.position for run in runs) == list(range(14))
    chosen = next(run for run in runs if run.factors == {"workers": 4, "storage": "ssd"})
    assert chosen.experiment.loading.workers == 4
    assert chosen.experiment.limits == Limits(storage="ssd")
    assert chosen.experiment.preset == "xavier-nx"


def test_the_order_is_random_but_the_same_for_the_same_seed():
    keys = [run.key for run in plan_from_text(GOOD).runs()]
    assert keys == [run.key for run in plan_from_text(GOOD).runs()]
    other = [run.key for run in plan_from_text(GOOD + "order_seed: 5\n").runs()]
    listed = [run.key for run in plan_from_text(GOOD + "order: listed\n").runs()]
    assert keys != other and sorted(keys) == sorted(other) and keys != listed


def test_the_same_plan_is_the_same_campaign_and_another_is_not():
    assert plan_from_text(GOOD).id == plan_from_text(GOOD + "\n# a remark\n").id
    assert plan_from_text(GOOD).id != plan_from_text(GOOD.replace("[0, 1, 2]", "[0, 1]")).id


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("name: x\nnetwork: lenet5\nworkrs: 2\n", 3, "did you mean 'workers'"),
        ("name: x\nnetwork: lenet5\nfactors:\n  workers: 3\n", 4, "list"),
        ("name: x\nnetwork: lenet5\nfactors:\n  workers:\n    - 0\n    - many\n", 6, "number"),
        ("name: x\nnetwork: lenet5\nfactors:\n  workers: [1, 1]\n", 4, "twice"),
        ("name: x\nnetwork: lenet5\nfactors:\n  storage: [sd, floppy]\n", 4, "floppy"),
        ("name: x\nnetwork: lenet6\n", 2, "lenet6"),
        ("name: x\nnetwork: lenet5\nepochs: 0\n", 3, "minimum is 1"),
        ("name: x\nnetwork: lenet5\nname: y\n", 3, "second time"),
        ("name: x\nnetwork: lenet5\nworkers: [0, 1]\n", 3, "factors"),
        ("name: x\nnetwork: lenet5\npage_cache: lots\n", 3, "size"),
        ("name: x\nnetwork: lenet5\npreset: toaster\n", 3, "toaster"),
        ("name: x\nnetwork: lenet5\nfolders: {sd: /nowhere/at/all}\n", 3, "not a folder"),
        ("name: x\nnetwork: lenet5\nsettle: {noise: 1}\n", 3, "noise"),
        ("name: x\nnetwork: lenet5\npoints: 3\n", 3, "list"),
        ("name: x\nnetwork: lenet5\norder: backwards\n", 3, "random"),
        ("name: x\n  network: lenet5\n", 2, "YAML"),
        ("network: lenet5\n", 1, "name"),
        ("name: x\n", 1, "network"),
        ("- a\n- b\n", 1, "mapping"),
    ],
)
def test_every_mistake_is_named_with_its_line(text, line, words):
    with pytest.raises(BadTable) as caught:
        plan_from_text(text, "plan.yaml")
    assert f"plan.yaml line {line}" in str(caught.value)
    assert words in str(caught.value)


def test_an_empty_plan_and_a_missing_file_are_said(tmp_path):
    with pytest.raises(BadTable, match="empty"):
        plan_from_text("")
    with pytest.raises(BadTable, match="cannot read"):
        read_plan(tmp_path / "none.yaml")


def test_the_json_schema_knows_every_setting():
    schema = json.loads(json.dumps(plan_schema()))
    assert set(all_settings()) <= set(schema["properties"])
    assert set(all_settings()) == set(schema["properties"]["factors"]["properties"])
    assert set(all_settings()) == set(schema["properties"]["points"]["items"]["properties"])


def test_the_json_schema_knows_no_other_names_unless_a_command_has_placeholders():
    schema = plan_schema()
    assert schema["if"] == {"required": ["command"]}
    assert set(schema["else"]["propertyNames"]["enum"]) == set(schema["properties"])
    assert set(schema["else"]["properties"]["factors"]["propertyNames"]["enum"]) == set(all_settings())


def test_on_a_board_a_medium_is_a_folder_and_nothing_is_emulated(tmp_path):
    text = f"name: x\nnetwork: mobilenet_v3\nfolders: {{ssd: {tmp_path}}}\nfactors:\n  storage: [ssd, hdd]\n"
    by_medium = {run.factors["storage"]: run.experiment for run in plan_from_text(text).runs()}
    assert by_medium["ssd"].workload.dataset == str(tmp_path) and by_medium["ssd"].limits == Limits()
    assert by_medium["hdd"].workload.dataset is None and by_medium["hdd"].limits == Limits(storage="hdd")


def test_a_folder_on_another_medium_than_it_is_called_by_is_refused(tmp_path):
    from edgetrain.device import StorageMedium

    def on(kind):
        return lambda path: StorageMedium(str(path), "/", "ext4", "sda", kind)

    assert check_folders({"ssd": str(tmp_path)}, on("nvme")) == []
    assert check_folders({"ssd": str(tmp_path)}, on("virtual"))
    with pytest.raises(UsageError, match="lies on hdd"):
        check_folders({"ssd": str(tmp_path)}, on("hdd"))


def test_power_modes_are_visited_downwards_whatever_the_order():
    def read(text):
        return PowerMode(int(text), int(text) * 10**8)

    text = "name: x\nnetwork: lenet5\nfactors:\n  power_mode: ['2', '8', '4']\n  workers: [0, 1]\n"
    modes = [run.experiment.power_mode.cores for run in plan_from_text(text).runs(read_mode=read)]
    assert modes == [8, 8, 4, 4, 2, 2]
    with pytest.raises(UsageError, match="none that can be set"):
        plan_from_text(text).runs()


def test_the_cost_is_known_beforehand_from_the_tables_and_corrected_by_what_ran():
    plan = plan_from_text(GOOD)
    runs = plan.runs()
    before = cost_of(runs, {}, {}, runs)
    assert before.time_s is not None and before.unknown == 0
    slow = {run.key: 2 * expected_s(run.experiment) for run in runs[:5]}
    left = [run for run in runs if run.key not in slow]
    plain = sum(expected_s(run.experiment) for run in left)
    assert cost_of(left, slow, {}, runs).time_s == pytest.approx(2 * plain, rel=0.05)


def test_a_run_nobody_knows_is_not_guessed():
    runs = plan_from_text("name: x\nnetwork: lenet5\ncompute: cpu\n").runs()
    cost = cost_of(runs, {}, {}, runs)
    assert cost.time_s is None and cost.unknown == 1 and cost.energy_j is None


def test_joules_come_from_what_ran_or_from_the_boards_peak():
    runs = plan_from_text(GOOD).runs()
    took = {runs[0].key: 10.0}
    measured = cost_of(runs[1:], took, {runs[0].key: 200.0}, runs)
    assert measured.energy_j == pytest.approx(20.0 * measured.time_s)
    published = cost_of(runs, {}, {}, runs, device="xavier-nx")
    assert published.energy_j is not None and "peak" in published.energy_reason
