"""Round files: what they say is planned, and mistakes in them are named with file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import edgetrain as et
from edgetrain.cli import main
from edgetrain.errors import BadTable, UsageError
from edgetrain.recommendation import PLAN, SITS_OUT

FLEET = """\
name: lab
boards:
  - {name: agx, device: "sim:orin-nano?unit=1", labels: [rack=1]}
  - {name: nano, device: "sim:nano?unit=1", labels: [rack=2]}
"""
ROUND = """\
name: night
fleet: fleet.yaml
network: lenet5
model: 250kB
defaults: {samples: 3200, download: 10Mbit/s, upload: 2Mbit/s}
"""
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "round.yaml"


@pytest.fixture
def plan_of(tmp_path: Path):
    """Return a function that plans a round file with extra lines."""
    (tmp_path / "fleet.yaml").write_text(FLEET)

    def plan(extra: str = "", text: str = ROUND, rounds: int = 0):
        file = tmp_path / "round.yaml"
        file.write_text(text + extra)
        return et.plan_round(file, simulate=rounds)

    return plan


def modes_csv(folder: Path, power: bool = True) -> None:
    rows = ["cores,cpu_khz,gpu_hz,emc_hz,time_ms" + (",power_mw" if power else "")]
    for gpu in (76_800_000, 460_800_000, 921_600_000):
        row = f"4,1479000,{gpu},1600000000,{2e10 / gpu:.3f}"
        rows.append(row + (f",{3000 + gpu / 2e5:.0f}" if power else ""))
    (folder / "modes.csv").write_text("\n".join(rows) + "\n")


def test_the_example_is_planned_and_drawn(tmp_path: Path, capsys) -> None:
    page = tmp_path / "round.html"
    assert main(["round", str(EXAMPLE), "--rounds", "50", "-o", str(page)]) == 0
    out = capsys.readouterr().out
    assert "all MAXN" in out and "race to idle" in out and "█" in out and "50 simulated rounds" in out
    assert "not comparable" in out  # in the default mode some devices are late
    text = page.read_text()
    assert "<svg" in text and "nano-2" in text and "Race to idle" in text


def test_the_chart_alone_is_an_svg_and_a_large_fleet_is_shown_by_its_extremes(tmp_path: Path, capsys, plan_of) -> None:
    boards = [f'  - {{name: n{place}, device: "sim:nano?unit={place + 1}"}}' for place in range(40)]
    (tmp_path / "fleet.yaml").write_text("\n".join(["name: big", "boards:", *boards]) + "\n")
    plan_of("devices:\n  - {name: n3, samples: 9000}\n")
    chart = tmp_path / "round.svg"
    assert main(["round", str(tmp_path / "round.yaml"), "--rounds", "0", "-o", str(chart)]) == 0
    out = capsys.readouterr().out
    assert "38 devices are left out here" in out and "n3 " in out and "simulated rounds" not in out
    root = ElementTree.fromstring(chart.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and "40 devices" in root.attrib["aria-label"]
    assert main(["round", str(tmp_path / "round.yaml"), "--rounds", "0", "--all"]) == 0
    assert capsys.readouterr().out.count("|") > 40


def test_json_has_every_device_and_null_for_what_is_not_known(tmp_path: Path, capsys, plan_of) -> None:
    modes_csv(tmp_path, power=False)
    plan_of("devices:\n  - {name: nano, table: modes.csv}\n")
    assert main(["round", str(tmp_path / "round.yaml"), "--rounds", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    nano = next(one for one in found["plan"]["assignments"] if one["device"] == "nano")
    assert nano["power_w"] is None and nano["energy_j"] is None and nano["origin"] == "replayed"
    assert found["plan"]["energies"][0]["energy_j"] is None
    assert "power_unknown" in {doubt["kind"] for doubt in found["plan"]["doubts"]}


def test_a_measured_table_with_idle_power_gives_energies(tmp_path: Path, plan_of) -> None:
    modes_csv(tmp_path)
    plan = plan_of("devices:\n  - {name: nano, table: modes.csv, idle_w: 1.2, max_power: 7W}\n").plan
    nano = plan.assignments[1]
    assert nano.power_w is not None and nano.power_w <= 7 and nano.energy_j is not None
    assert plan.energy(PLAN).energy_j is not None


def test_a_saved_predictor_gives_every_mode_of_the_board(tmp_path: Path, plan_of) -> None:
    rows = ["cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw"]
    for cores, cpu, gpu in ((2, 710_400, 307_200_000), (4, 1_479_000, 921_600_000), (3, 1_036_800, 614_400_000)):
        for emc in (800_000_000, 1_600_000_000):
            rows.append(f"{cores},{cpu},{gpu},{emc},{2e10 / gpu + 2e10 / emc:.3f},{2000 + gpu / 2e5 + cpu / 1e3:.0f}")
    (tmp_path / "few.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "nano.json").write_text(et.predict(tmp_path / "few.csv", "nano").dump())
    plan = plan_of("devices:\n  - {name: nano, predictor: nano.json, idle_w: 1.2}\n").plan
    assert str(plan.assignments[1].origin) == "predicted" == str(plan.origin)


def test_settings_of_a_device_go_before_its_kind_and_the_defaults(plan_of) -> None:
    before = plan_of().plan.assignments
    after = plan_of("kinds:\n  nano: {samples: 1600}\ndevices:\n  - {name: agx, samples: 320, available: 9s}\n").plan
    assert after.assignments[0].train_s < before[0].train_s and after.assignments[0].begin_s > 9
    assert after.assignments[1].needs_s < before[1].needs_s


def test_the_built_in_fleet_needs_no_inventory(plan_of) -> None:
    found = plan_of(text=ROUND.replace("fleet.yaml", "local"), rounds=20)
    assert found.fleet == "local" and len(found.plan.assignments) == 4
    assert found.simulation is not None and found.simulation.rounds == 20


def test_a_device_that_is_away_or_never_answers_sits_out_with_the_reason(plan_of) -> None:
    plan = plan_of("devices:\n  - {name: nano, answers: 0}\n").plan
    assert plan.assignments[1].status == SITS_OUT and plan.assignments[1].reason == "never answers"
    plan = plan_of("devices:\n  - {name: agx, available: false}\n").plan
    assert plan.assignments[0].status == SITS_OUT and plan.assignments[0].reason == "not available"


def test_recorded_rounds_give_factors_and_margins(tmp_path: Path, plan_of) -> None:
    lines = ["round,device,predicted_s,observed_s"]
    for turn in range(60):
        lines += [f"{turn},agx,10,{10 + turn % 3 / 10}", f"{turn},nano,20,{'' if turn == 5 else 24}"]
    (tmp_path / "rounds.csv").write_text("\n".join(lines) + "\n")
    before, after = plan_of().plan, plan_of("spread: {recorded: rounds.csv}\n").plan
    assert after.assignments[1].train_s == pytest.approx(1.2 * before.assignments[1].train_s, rel=0.2)
    (tmp_path / "rounds.csv").write_text("round,device,predicted_s,observed_s\n1,agx,x,3\n")
    with pytest.raises(BadTable, match="line 2"):
        plan_of("spread: {recorded: rounds.csv}\n")
    (tmp_path / "rounds.csv").write_text("round,device\n1,agx\n")
    with pytest.raises(BadTable, match="predicted_s is missing"):
        plan_of("spread: {recorded: rounds.csv}\n")


@pytest.mark.parametrize(
    ("extra", "line", "words"),
    [
        ("devices:\n  - {name: nano, table: nowhere.csv}\n", 7, "the table nowhere.csv does not exist"),
        ("devices:\n  - {name: nano, predictor: nowhere.json}\n", 7, "the predictor nowhere.json does not exist"),
        ("devices:\n  - {name: nano}\n  - {name: nano}\n", 8, "a second device is named 'nano'"),
        ("devices:\n  - {name: tx2}\n", 7, "has no board 'tx2'; it has agx, nano"),
        ("devices:\n  - {name: nano, catalogue: bert}\n", 7, "no entry for the network 'bert' on nano; it has lenet5"),
        ("devices:\n  - {name: nano, tabel: x}\n", 7, "there is no key 'tabel' here"),
        ("devices:\n  - {name: nano, table: a, catalogue: b}\n", 7, "give one of table and catalogue"),
        ("devices:\n  - {name: nano, samples: 0}\n", 7, "whole number of at least 1"),
        ("devices:\n  - {name: nano, download: fast}\n", 7, "cannot read 'fast' as a rate"),
        ("devices:\n  - {name: nano, max_power: 3 h}\n", 7, "cannot read '3 h' as power"),
        ("devices:\n  - {name: nano, answers: 2}\n", 7, "between 0 and 1"),
        ("devices: {name: nano}\n", 6, "devices is a list"),
        ("deadline: soon\n", 6, "cannot read 'soon' as time"),
        ("epochs: {most: 1, least: 3}\n", 6, "is above the most"),
        ("spread: {shared: {chance: 0.1, slower: 2}}\n", 6, "slower is a range"),
        ("spread: {shared: {chance: 3, slower: [1.1, 1.2]}}\n", 6, "chance from 0 to 1"),
        ("sit_out: perhaps\n", 6, "true or false"),
        ("kinds:\n  nanno: {samples: 10}\n", 7, "has no board of the kind 'nanno'; it has nano, orin-nano"),
        ("devices:\n  - name: nano\n    idle_w: little\n", 8, "a number is needed, not 'little'"),
        ("least_devices: 1\n", 6, "devices are left out with `sit_out: true`"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(extra: str, line: int, words: str, plan_of) -> None:
    with pytest.raises(BadTable) as caught:
        plan_of(extra)
    assert str(caught.value).startswith(f"round.yaml line {line}: ") and words in str(caught.value)


def test_a_network_that_a_board_of_the_fleet_lacks_and_a_missing_inventory_are_named(plan_of) -> None:
    with pytest.raises(BadTable, match=r"round.yaml line 3: .*no entry for the network 'bert' on orin-nano"):
        plan_of(text=ROUND.replace("lenet5", "bert"))
    with pytest.raises(BadTable, match=r"round.yaml line 2: the inventory nowhere.yaml does not exist"):
        plan_of(text=ROUND.replace("fleet.yaml", "nowhere.yaml"))
    with pytest.raises(BadTable, match="how many samples agx trains on is not given"):
        plan_of(text=ROUND.rpartition("defaults")[0])


def test_a_measured_idle_power_counts_in_the_catalogue_too(plan_of) -> None:
    before, after = (plan_of(extra).plan for extra in ("", "kinds:\n  nano: {idle_w: 0.01}\n"))
    assert after.assignments[1].energy_j < before.assignments[1].energy_j
    assert after.assignments[0].energy_j == before.assignments[0].energy_j


def test_rates_without_the_size_of_what_is_sent_are_a_doubt(plan_of) -> None:
    assert "transfers_unknown" not in {doubt.kind for doubt in plan_of().plan.doubts}
    plan = plan_of(text=ROUND.replace("model: 250kB\n", "")).plan
    assert "transfers_unknown" in {doubt.kind for doubt in plan.doubts}


def test_a_round_that_leaves_fewer_devices_than_asked_for_is_refused(plan_of) -> None:
    needs = sorted(one.needs_s for one in plan_of().plan.assignments)
    between = f"sit_out: true\ndeadline: {(needs[0] + needs[1]) / 2:.3f}s\nleast_devices: "
    assert plan_of(between + "1\n").plan.assignments
    with pytest.raises(UsageError, match=r"1 of 2 devices finish within .* allow a deadline of"):
        plan_of(between + "2\n")
    with pytest.raises(UsageError, match="only 2 take part: ask for fewer"):
        plan_of("sit_out: true\nleast_devices: 3\n")


def test_a_deadline_nobody_can_meet_fails_with_who_and_how_long(tmp_path: Path, capsys, plan_of) -> None:
    with pytest.raises(UsageError, match=r"no device can finish within 50 ms: nano needs .*, agx needs"):
        plan_of("deadline: 0.05s\n")
    assert main(["round", str(tmp_path / "round.yaml")]) == 2
    assert "nano needs" in capsys.readouterr().err


def test_the_trace_set_has_an_origin_and_a_source_for_every_value(tmp_path: Path, capsys) -> None:
    path = tmp_path / "trace.csv"
    assert main(["export", "--fleet-trace", "-o", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(path)
    rows = list(csv.DictReader(path.open()))
    assert {row["origin"] for row in rows} == {"published", "simulated"} and all(row["source"] for row in rows)
    boards = {row["board"] for row in rows if row["quantity"] == "minibatch_s"}
    assert boards == {"orin-agx", "orin-nano", "xavier-agx", "xavier-nx", "nano"}
    for board in boards:
        quantities = {row["quantity"] for row in rows if row["board"] == board}
        assert {"power_w", "idle_free_w", "unit_time_log_sd", "run_time_log_sd"} <= quantities
    assert all(float(row["value"]) > 0 for row in rows)
    documented = (Path(__file__).parents[2] / "docs" / "rounds.md").read_text()
    assert all(f"`{row['quantity'].partition(':')[0]}" in documented for row in rows)
    assert main(["export", "--fleet-trace", "--csv"]) == 2
