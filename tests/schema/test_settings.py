"""Each setting is declared once: option, plan key, check and JSON Schema follow from the declaration."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from edgetrain.api import Campaign, execute
from edgetrain.cli.app import build
from edgetrain.cli.commands import COMMANDS
from edgetrain.documents import from_document, to_document
from edgetrain.errors import BadTable, UsageError
from edgetrain.runner.checks import check
from edgetrain.runner.plan_json_schema import plan_schema
from edgetrain.runner.plan_reading import plan_from_text
from edgetrain.schema import (
    SECTIONS,
    Declared,
    Experiment,
    Limits,
    Loading,
    PowerMode,
    Setting,
    Workload,
    all_settings,
    build_experiment,
    settings_of,
)

EVERY = [one for one in all_settings().values() if one.name != "network"]
WITHOUT_BOARD = [one for one in EVERY if one.name != "power_mode"]  # a mode is read by a board's own table
NUMBERS = [one for one in EVERY if one.kind in (int, float)]
RUN = typer.main.get_command(build(COMMANDS)).commands["run"]
names = [one.name for one in EVERY]


def good(one: Declared) -> Any:
    """Return a value that a setting takes and that is not its default."""
    about = one.about
    if one.name == "power_mode":
        return "30W"
    if one.name == "storage":
        return "sd"
    if one.name == "preset":
        return "xavier-nx"
    if one.name == "picture":
        return "400x300"
    if one.kind is bool:
        return not one.default
    if about.choices:
        return next(choice for choice in about.choices if choice != one.default)
    if about.size:
        return "400MB"
    if one.kind is str:
        return "/some/folder"
    value = (about.minimum if about.minimum is not None else about.above or 0) + 1
    value = value if value != one.default else value + 1
    return one.kind(value if about.maximum is None else min(value, about.maximum / 2))


def bad(one: Declared) -> list[Any]:
    """Return values that a number setting must refuse."""
    about = one.about
    found: list[Any] = [math.nan, math.inf, -math.inf, "many", True, [1]]
    if about.minimum is not None:
        found.append(about.minimum - 1)
    if about.above is not None:
        found += [about.above, about.above - 1]
    if about.maximum is not None:
        found.append(about.maximum * 2)
    if one.kind is int:
        found.append(2.5)
    return found


def settled(experiment: Experiment) -> dict[str, Any]:
    """Return the value of every setting of an experiment, by name."""
    parts = (experiment.workload, experiment.loading, experiment.limits, experiment)
    return {one.name: getattr(part, one.name) for part in parts for one in settings_of(type(part))}


def as_yaml(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    return json.dumps(value)


def test_names_of_settings_are_unique_and_every_one_says_what_it_does() -> None:
    declared = [one for kind in SECTIONS for one in settings_of(kind)]
    assert len({one.name for one in declared}) == len(declared) > 25
    assert all(one.about.help.endswith(".") and one.about.panel for one in declared)


def test_every_field_of_a_section_is_a_setting_or_says_why_not() -> None:
    besides = {
        Workload: {"network", "command"},
        Loading: set(),
        Limits: set(),
        # The parts, the power mode (read by the board's own table), and what a campaign notes.
        Experiment: {
            "workload", "loading", "limits", "power_mode", "campaign", "factors", "repeat", "position",
        },
    }  # fmt: skip
    for kind in SECTIONS:
        declared = {one.name for one in settings_of(kind)}
        assert {item.name for item in fields(kind)} - declared == besides[kind]


@pytest.mark.parametrize("one", EVERY, ids=names)
def test_every_setting_has_a_command_line_option_of_its_name_and_type(one: Declared) -> None:
    options = {name: option for option in RUN.params for name in option.opts}
    assert one.option == "--" + one.name.replace("_", "-")
    option = options[one.option]
    assert option.help == one.about.help
    assert option.default == one.default
    if one.kind is bool:
        assert option.secondary_opts == [f"--no-{one.option[2:]}"]
    context = RUN.make_context("run", ["lenet5", *given(one, good(one))])
    assert context.params[one.name] == good(one)


@pytest.mark.parametrize("words", [("run",), ("profile",), ("tune",), ("lab", "up")], ids=" ".join)
def test_commands_that_take_settings_take_them_as_declared(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(build(COMMANDS))
    for word in words:
        command = command.commands[word]
    declared = {one.name: one for one in EVERY}
    offered = [option for option in command.params if option.name in declared]
    # `lab up` has a dataset and a network of its own: the folder to put on a medium, and what takes its memory.
    assert len(offered) > 6
    for option in offered:
        one = declared[option.name]
        assert one.option in option.opts and option.default == one.default, option.name
    if words == ("profile",):
        assert {option.name for option in offered} == {one.name for one in EVERY if one.about.for_commands}


def given(one: Declared, value: Any) -> list[str]:
    """Return the words of a command line that give a setting a value."""
    if one.kind is bool:
        return [one.option if value else f"--no-{one.option[2:]}"]
    return [one.option, str(value)]


@pytest.mark.parametrize("one", EVERY, ids=names)
def test_every_setting_has_a_plan_key_of_its_name_that_reaches_the_experiment(one: Declared) -> None:
    def read_mode(text: str) -> PowerMode:
        return PowerMode(4, 10**9, name=text)  # which modes there are is the board's affair

    line = f"{one.name}: {as_yaml(good(one))}\n"
    as_base = plan_from_text(f"name: x\nnetwork: lenet5\n{line}")
    as_factor = plan_from_text(f"name: x\nnetwork: lenet5\nfactors:\n  {one.name}: [{as_yaml(good(one))}]\n")
    as_point = plan_from_text(f"name: x\nnetwork: lenet5\npoints:\n  - {line}")
    for plan in (as_base, as_factor, as_point):
        (run,) = plan.runs(read_mode=read_mode)
        if one.name == "power_mode":
            assert run.experiment.power_mode == read_mode(good(one))
        else:
            assert settled(run.experiment)[one.name] == good(one)


@pytest.mark.parametrize("one", WITHOUT_BOARD, ids=[one.name for one in WITHOUT_BOARD])
def test_a_run_and_a_plan_give_the_same_experiment_for_the_same_value(one: Declared) -> None:
    context = RUN.make_context("run", ["lenet5", *given(one, good(one))])
    options = {name: value for name, value in context.params.items() if name in all_settings()}
    by_command = build_experiment({**options, "network": "lenet5"})
    (planned,) = plan_from_text(f"name: x\nnetwork: lenet5\n{one.name}: {as_yaml(good(one))}\n").runs()
    assert settled(by_command) == settled(planned.experiment)


@pytest.mark.parametrize("one", NUMBERS, ids=[one.name for one in NUMBERS])
def test_numbers_out_of_range_or_of_another_type_are_refused_with_the_name(one: Declared) -> None:
    for value in bad(one):
        with pytest.raises(UsageError, match=one.option):
            build_experiment({"network": "lenet5", one.name: value})
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with pytest.raises(BadTable, match=rf"plan line 3: {one.name} is"):
                plan_from_text(f"name: x\nnetwork: lenet5\n{one.name}: {as_yaml(value)}\n")
            with pytest.raises(UsageError, match=one.option):
                check(with_value(one, value))


def with_value(one: Declared, value: Any) -> Experiment:
    """Return an experiment made by a program, without any check, with this value."""
    parts: dict[Any, dict[str, Any]] = {kind: {} for kind in SECTIONS}
    owner = next(kind for kind in SECTIONS if one in settings_of(kind))
    parts[owner][one.name] = value
    return Experiment(
        Workload("lenet5", **parts[Workload]), Loading(**parts[Loading]), Limits(**parts[Limits]), **parts[Experiment]
    )


@pytest.mark.parametrize("one", [one for one in EVERY if one.about.choices], ids=lambda one: one.name)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(one: Declared) -> None:
    for choice in one.about.choices:
        assert one.read(choice) == choice
    for attempt in (
        lambda: build_experiment({"network": "lenet5", one.name: "nosuch"}),
        lambda: plan_from_text(f"name: x\nnetwork: lenet5\n{one.name}: nosuch\n"),
        lambda: check(with_value(one, "nosuch")),
    ):
        with pytest.raises(UsageError, match="nosuch") as raised:
            attempt()
        assert all(choice in str(raised.value) for choice in one.about.choices)


@pytest.mark.parametrize("one", [one for one in EVERY if one.about.size], ids=lambda one: one.name)
def test_sizes_are_written_with_units_and_anything_else_is_refused(one: Declared) -> None:
    for size in ("4GiB", "300MB", 1_000_000, "1.5Gi"):
        assert one.read(size) == str(size)
    for size in ("much", "4 parsecs", "-3GB", ""):
        with pytest.raises(UsageError, match="size"):
            one.read(size)


@pytest.mark.parametrize("one", [one for one in EVERY if one.kind is bool], ids=lambda one: one.name)
def test_a_switch_takes_true_and_false_alone(one: Declared) -> None:
    for value in ("yes", 1, 0, "true", None):
        with pytest.raises(UsageError):
            one.read(value)


def test_none_means_not_asked_for_where_there_is_no_default_and_is_refused_elsewhere() -> None:
    for one in EVERY:
        if one.optional:
            assert one.read(None) is None and one.default is None
        else:
            with pytest.raises(UsageError, match="has no value"):
                one.read(None)


@pytest.mark.parametrize("one", EVERY, ids=names)
def test_every_setting_has_a_json_schema_that_says_its_type_bounds_and_choices(one: Declared) -> None:
    schema = json.loads(json.dumps(plan_schema()))
    entry = schema["properties"][one.name]
    assert entry == schema["properties"]["factors"]["properties"][one.name]["items"]
    assert entry["description"] == one.about.help
    assert entry.get("enum", []) == list(one.about.choices)
    bounds = {"minimum": one.about.minimum, "exclusiveMinimum": one.about.above, "maximum": one.about.maximum}
    assert {key: entry.get(key) for key in bounds} == bounds
    types = {bool: "boolean", int: "integer", float: "number"}
    if one.kind in types:
        assert entry["type"] == types[one.kind]


def test_plans_accept_momentum() -> None:
    plan = plan_from_text("name: x\nnetwork: lenet5\nfactors:\n  momentum: [0, 0.5]\n")
    assert sorted(run.experiment.workload.momentum for run in plan.runs()) == [0.0, 0.5]


@pytest.mark.parametrize("old", ["lr", "scale", "as", "max_minibatches"])
def test_spellings_that_are_gone_are_refused_everywhere(old: str) -> None:
    assert f"--{old.replace('_', '-')}" not in {name for option in RUN.params for name in option.opts}
    with pytest.raises(BadTable, match=f"there is no setting '{old}'"):
        plan_from_text(f"name: x\nnetwork: lenet5\n{old}: 1\n")
    with pytest.raises(UsageError, match="there is no setting"):
        build_experiment({"network": "lenet5", old: 1})


def test_an_experiment_is_a_document_and_back() -> None:
    values = {one.name: one.read(good(one)) for one in EVERY if one.name != "power_mode"}
    experiment = build_experiment({"network": "lenet5", **values}, campaign="c", factors={"workers": 1}, repeat=2)
    document = json.loads(json.dumps(to_document(experiment)))
    assert from_document(Experiment, document) == experiment


def test_limits_are_spelled_for_people_and_never_as_a_dictionary() -> None:
    assert str(Limits(storage="sd", page_cache="300MB", cpu_share=0.5)) == "storage sd, page cache 300MB, cpu share 0.5"
    assert str(Limits()) == "none" and not Limits() and Limits(cores=1)


def test_a_declaration_is_all_that_a_new_setting_needs() -> None:
    @dataclass(frozen=True)
    class Own:
        depth: Annotated[int | None, Setting("How deep.", minimum=1, maximum=9)] = None
        note: str = ""

    (one,) = settings_of(Own)
    assert (one.name, one.kind, one.optional, one.default, one.option) == ("depth", int, True, None, "--depth")
    assert one.read(3.0) == 3 and isinstance(one.read(3.0), int)
    assert one.json_schema() == {"description": "How deep.", "type": "integer", "minimum": 1, "maximum": 9}
    with pytest.raises(UsageError, match="the maximum is 9"):
        one.read(10)


def test_your_own_workload_keeps_its_batch_size_in_a_run_and_in_a_campaign_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    data = torch.utils.data.TensorDataset(torch.zeros(24, 4), torch.zeros(24))\n"
        "    step = lambda network, batch: network(batch[0]).sum()\n"
        "    return {'network': torch.nn.Linear(4, 1), 'dataset': data, 'step': step, 'batch_size': 6}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))
    store = tmp_path / "store"
    (tmp_path / "plan.yaml").write_text("name: own\nnetwork: mine:make\nworkers: 0\nepochs: 1\n")
    ran = execute("mine:make", store=store, workers=0, epochs=1)
    done = Campaign(tmp_path / "plan.yaml", store).run()
    assert done.complete
    (planned,) = (Campaign(tmp_path / "plan.yaml", store).store.open(run) for run in done.done.values())
    for run in (ran, planned):
        assert run.manifest.workload.batch_size == 6
        assert len(run.minibatches()) == 4 and set(run.minibatches()["samples"].tolist()) == {6}
