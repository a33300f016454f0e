"""The keys of every JSON document of prediction and recommendation: users' programs rely on them."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import Any

import pytest

from edgetrain.cli import main
from edgetrain.documents import json_schema
from edgetrain.prediction import PriorList, ProfilingPlan, ProfilingRun
from edgetrain.recommendation import DeviceRanking, Recommendation, Sensitivity
from tests.schemas import check_document

ESTIMATE = "value lo hi unit origin level"
MODE = "cores cpu_hz gpu_hz emc_hz name"
PICK = "row mode time_s power_w energy_j holds stock_name extrapolated"
FIGURES = "mape median p95"
PHASE = "modes time_s energy_j power_w switches"

KEYS: dict[str, dict[str, str]] = {
    "plan": {
        "": "schema board prior origin modes cost warnings",
        "modes": "mode row cores cpu_hz gpu_hz emc_hz rank time_error_after power_error_after",
        "cost": "switching_min training_min minibatches",
    },
    "until": {
        "": "schema board until_pct reached profiled cost_s origin steps warnings",
        "steps": "mode time_s power_w cost_s origin time_error power_error refusal",
    },
    "table": {
        "": "schema profiled profiled_modes modes board origin level prior expected_error warnings columns unit",
        "prior": "name without held",
        "expected_error": "time power",
        "columns": "cores cpu_khz gpu_hz emc_hz batch_size time_ms time_ms_lo time_ms_hi time_mean_ms power_mw "
        "power_mw_lo power_mw_hi energy_mj energy_mj_lo energy_mj_hi extrapolated",
    },
    "evaluate": {
        "": "schema table modes profile seeds method units origin over chosen_by prior energy_follows time power "
        "energy coverage90 width90 score90 fit_s fit_s_per_seed plan_s profiled_rows baselines budgets",
        "time": FIGURES,
        "time.mape": "mean per_seed",
        "coverage90": "time power energy per_seed",
        "baselines.linear": "time power energy coverage90 width90 score90 fit_s fit_s_per_seed plan_s",
        "budgets": "confidence confirm profile limits penalty_pct broken broken_1w broken_count over_w_max no_answer "
        "profiles_mean per_budget",
        "budgets.penalty_pct": "mean median",
        "budgets.per_budget": "seed limit_w row time_s power_w optimum_time_s penalty_pct broken over_w profiles "
        "averaged",
    },
    "prior list": {
        "": "schema priors written replaced",
        "priors": "name provenance entries",
        "priors.entries": "network board kind time power time_spread power_spread time_scatter power_scatter modes "
        "batch_size weight source",
    },
    "recommend": {
        "": "schema from goal best runner_up relaxed nearest considered feasible notes confirmed trail training phases "
        "frontier stock applied",
        "from": "profiled predictor prior board modes left_out",
        "goal": "minimize limits confidence work",
        "goal.limits": "max_power_w max_time_s max_energy_j max_cores max_temp_c peak stock_only",
        "goal.work": "minibatches epochs label median",
        "best": PICK,
        "best.mode": MODE,
        "best.time_s": ESTIMATE,
        "best.holds": "power",
        "relaxed": "limit from to gain_pct pick",
        "trail": "row mode expected_time_s expected_power_w time_s power_w origin within reason",
        "training": "epochs time_s energy_j energy_wh cold_extra_s baseload_j between battery pay_off notes",
        "training.between": "state power_w origin source period_s waiting_s waiting_j energy_j mean_power_w",
        "training.battery": "capacity_wh usable_j rounds rounds_sure lasts_s notes",
        "training.pay_off": "profiling_s profiling_j saved_s_per_epoch saved_j_per_epoch epochs_for_time "
        "epochs_for_energy notes",
        "phases": "single switched gain_pct gain_lo_pct gain_hi_pct level advised reason",
        "phases.single": PHASE,
        "frontier": "row mode time_s power_w energy_j stays knee",
        "frontier.power_w": ESTIMATE,
        "stock": "name factory_default mode slower_pct more_energy_pct more_power_pct better",
        "applied": "device dry_run undo writes",
    },
    "infeasible": {"nearest": "pick needs separately_possible", "nearest.pick": PICK, "nearest.needs": "power"},
    "sensitivity": {
        "": "schema from modes origin level elasticities rules notes",
        "elasticities": "quantity factor value lo hi level method count reason",
    },
    "choose-device": {
        "": "schema network samples file_bytes epochs deadline_s max_energy_j max_price_usd rank_by workers notes "
        "options",
        "options": "board title ram_bytes medium price_usd verdict fits epoch_s cold_epoch_s total_s epoch_energy_j "
        "fetch_s fetch_hidden fetch_hidden_cold cached_share just_enough fails unknown sources",
        "options.epoch_s": ESTIMATE,
    },
}


def at(document: Any, path: str) -> Any:
    """Return what is at a path; of a list, its first element."""
    for key in path.split(".") if path else ():
        document = document[0] if isinstance(document, list) else document
        document = document[key]
    return document[0] if isinstance(document, list) else document


@pytest.fixture
def run(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    recommend = ["recommend", "--profiled", files.profiled]
    whole = ["--minibatches", 1000, "--epochs", 5, "--cold-epoch-s", "20min", "--baseload-w", 4, "--battery-wh", 50]
    sim = ["--device", "sim:orin-agx", "--max-power-w", 25, "--frontier", "--apply", "--dry-run", "--confirm", 1]
    commands: dict[str, list[object]] = {
        "plan": ["predict", "plan", "--candidates", files.modes, "--count", 4],
        "until": ["predict", "plan", "--candidates", files.modes, "--truth", files.truth, "--until", "20%"],
        "table": ["predict", "table", "--profiled", files.profiled, "--modes", files.modes],
        "evaluate": ["evaluate", files.truth, "--profile", 6, "--seeds", 1, "--method", "physics", "--method", "linear",
                     "--budgets", "7:9"],
        "prior list": ["prior", "list"],
        "recommend": [*recommend, *sim, "--measure-on", "sim:orin-agx", "--network", "resnet18", *whole,
                      "--period", "24h", "--between-w", 1.5],
        "infeasible": [*recommend, "--modes", files.modes, "--max-power-w", 3],
        "sensitivity": ["sensitivity", files.truth],
        "choose-device": ["choose-device", "lenet5", "--device", "nano"],
    }  # fmt: skip

    def document(name: str) -> Any:
        status = main([*map(str, commands[name]), "--json"])
        out = capsys.readouterr()
        assert status == (1 if name == "infeasible" else 0), out.err
        found = json.loads(out.out)
        check_document([*map(str, commands[name])], found)
        return found

    return document


@pytest.mark.parametrize("name", KEYS)
def test_every_document_has_exactly_these_keys(run, name):
    document = run(name)
    for path, keys in KEYS[name].items():
        assert set(at(document, path)) == set(keys.split()), path
    assert document["schema"] == "edgetrain/1"


@pytest.mark.parametrize("kind", [Recommendation, DeviceRanking, Sensitivity, ProfilingPlan, ProfilingRun, PriorList])
def test_the_schema_of_a_document_is_generated_from_its_type(kind):
    schema = json_schema(kind)
    named = schema["$defs"][kind.__name__]["properties"]
    assert is_dataclass(kind) and set(named) == {name.rstrip("_") for name in kind.__slots__}
