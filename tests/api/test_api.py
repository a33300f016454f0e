"""`import edgetrain`: what it offers is callable, again and again, whatever was imported before."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgetrain as et
from edgetrain import api
from edgetrain.analysis import CampaignResult, Comparison, FindingsReport, Summary, VariabilityReport
from edgetrain.documents import json_schema, to_document
from edgetrain.errors import StoreError, UsageError
from edgetrain.prediction import ModePredictor, ProfilingPlan, WhatIfAnswer
from edgetrain.recommendation import (
    DeviceRanking,
    Diagnosis,
    Evaluation,
    Recommendation,
    RoundAnswer,
    Sensitivity,
    TuneResult,
)
from edgetrain.record import ArrayTable, FolderStore, Run
from edgetrain.schema import CampaignPreview, Origin, PowerMode
from tests.api.conftest import Files
from tests.importers.test_import_tegrastats import stamped

ROUND = Path(__file__).parents[2] / "docs" / "examples" / "round.yaml"

PUBLIC = sorted(set(et.__all__) - {"__version__"})
PLAN = "name: grid\nnetwork: lenet5\ndevice: sim:orin-agx\nepochs: 1\nminibatches: 30\nfactors:\n  workers: [0, 4]\n"


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))


def import_every_module() -> int:
    """Import every module of the package that can be imported here; return how many."""
    count = 0
    for found in pkgutil.walk_packages(et.__path__, "edgetrain."):
        if found.name.endswith("__main__") or ".site" in found.name or ".callbacks." in found.name:
            continue  # programs, the hook of a training process, and other people's trainers
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            assert error.name is None or not error.name.startswith("edgetrain"), error
            continue
        count += 1
    return count


def test_what_is_offered_exists_and_is_a_function_or_a_class_and_no_module() -> None:
    assert import_every_module() > 150
    for name in PUBLIC:
        found = getattr(et, name)
        assert inspect.isfunction(found) or inspect.isclass(found), f"{name} is a {type(found).__name__}"
        assert found.__doc__, f"{name} says nothing about itself"
        assert name in dir(et)
    for name in api.__all__:
        assert not inspect.ismodule(getattr(api, name)), name
    assert set(PUBLIC) - {"cached", "watch"} <= set(api.__all__)
    with pytest.raises(AttributeError, match="nosuch"):
        et.nosuch  # noqa: B018


def test_no_module_shares_a_name_with_a_function_that_is_offered() -> None:
    for package in (et, api):
        modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
        assert not modules & set(PUBLIC)


class Reads:
    """A dataset that reads files."""

    def __len__(self) -> int:
        return 2

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()


@pytest.fixture
def calls(record: Any, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], Any]]:
    """Return a call of each public function, by its name; each can be made more than once."""
    (tmp_path / "watched").mkdir()
    monkeypatch.setenv("EDGETRAIN_RUN", str(tmp_path / "watched"))
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "log.txt").write_text("\n".join(stamped(second) for second in range(5)))
    one, two = record(seed=1), record(seed=2)
    page = tmp_path / "page.html"

    def campaign() -> CampaignResult:
        asked = et.Campaign(tmp_path / "plan.yaml")
        assert isinstance(asked.preview(), CampaignPreview) and len(asked.planned) == 2
        return asked.run()

    def run_on_a_board(**more: Any) -> Run:
        return et.execute("lenet5", device="sim:orin-agx", epochs=1, minibatches=20, workers=4, **more)

    def watched() -> list[int]:
        pytest.importorskip("torch")
        from edgetrain.inside import session

        seen = list(et.watch([1, 2, 3]))
        session.begin(tmp_path / "watched").end()  # it would go on for as long as this process does
        return seen

    return {
        "Campaign": campaign,
        "cached": lambda: et.cached(Reads(), "1MiB"),
        "choose_device": lambda: et.choose_device("mobilenet_v3", boards=["orin-agx"]),
        "compare": lambda: et.compare(one, two),
        "diagnose": lambda: et.diagnose(run_on_a_board()),
        "evaluate": lambda: et.evaluate(files.truth, profile=8, seeds=1),
        "execute": run_on_a_board,
        "export_run": lambda: et.export_run(one, "csv", tmp_path / "out.csv"),
        "findings": lambda: et.findings(papers=["sigmetrics"]),
        "import_logs": lambda: et.import_logs(tmp_path / "log.txt"),
        "open_run": lambda: et.open_run(one),
        "plan_modes": lambda: et.plan_modes(candidates=files.modes, count=4),
        "predict": lambda: et.predict(files.profiled, modes=files.modes),
        "plan_round": lambda: et.plan_round(ROUND, simulate=2),
        "predict_unit": lambda: et.predict_unit(et.predict(files.profiled, modes=files.modes), files.profiled),
        "profile": lambda: et.profile([sys.executable, "-c", "pass"], device="host"),
        "prune": lambda: et.prune(state="failed"),
        "recommend": lambda: et.recommend(files.profiled, modes=files.modes, max_power_w=9),
        "remove_run": lambda: et.remove_run(run_on_a_board().id),
        "runs": et.runs,
        "sensitivity": lambda: et.sensitivity(files.truth),
        "summarize": lambda: et.summarize(one),
        "tune": lambda: et.tune("lenet5", device="sim:orin-agx", workers=4, power_mode="MAXN", trials=6),
        "variability": lambda: et.variability([one, two]),
        "watch": watched,
        "whatif": lambda: et.whatif(run_on_a_board(), {"workers": 2}),
        "write_report": lambda: et.write_report([one], page),
    }


RESULTS: dict[str, type] = {
    "Campaign": CampaignResult,
    "cached": Reads,
    "choose_device": DeviceRanking,
    "compare": Comparison,
    "diagnose": Diagnosis,
    "evaluate": Evaluation,
    "execute": Run,
    "export_run": api.Exported,
    "findings": FindingsReport,
    "import_logs": api.ImportResult,
    "open_run": Run,
    "plan_modes": ProfilingPlan,
    "predict": ModePredictor,
    "plan_round": RoundAnswer,
    "predict_unit": ModePredictor,
    "profile": api.ProfiledRun,
    "prune": api.Pruned,
    "recommend": Recommendation,
    "remove_run": str,
    "runs": api.RunList,
    "sensitivity": Sensitivity,
    "summarize": Summary,
    "tune": TuneResult,
    "variability": VariabilityReport,
    "watch": list,
    "whatif": WhatIfAnswer,
    "write_report": api.PageWritten,
}
WITH_RUN = (Run, api.ProfiledRun)  # hold a whole run; its summary is the document


def test_every_public_function_has_its_call_here(calls: dict[str, Callable[[], Any]]) -> None:
    assert sorted(calls) == sorted(RESULTS) == PUBLIC


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_each_public_function_can_be_called_twice_after_every_module_was_imported(
    name: str, calls: dict[str, Callable[[], Any]]
) -> None:
    import_every_module()
    for _ in range(2):
        assert isinstance(calls[name](), RESULTS[name])


@pytest.mark.parametrize("kind", [kind for kind in RESULTS.values() if is_dataclass(kind) and kind not in WITH_RUN])
def test_what_a_function_returns_has_a_json_schema(kind: type) -> None:
    schema = json_schema(kind)
    assert (schema["$schema"].endswith("2020-12/schema") and schema.get("$ref")) or schema.get("properties")


def test_importing_edgetrain_loads_nothing_that_is_not_used() -> None:
    code = "import sys, edgetrain; print([name for name in ('numpy', 'rich', 'typer', 'torch') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_walk_of_the_package_docstring_works(record: Any) -> None:
    record()
    run = et.open_run("last")
    assert et.summarize(run).epochs[0].fetch_stall_s > 0
    assert run.minibatches()["asked_us"].dtype == np.int64


def test_runs_are_listed_as_a_sequence_and_filtered(record: Any) -> None:
    ids = [record(seed=seed, campaign=campaign) for seed, campaign in enumerate(("a-0123abcd", None, "a-0123abcd-2"))]
    record(workload={"network": "vgg11"})
    found = et.runs()
    assert len(found) == 4 and [row.run for row in found][:3] == ids and found[0].network == "lenet5"
    assert [row.run for row in et.runs(campaign="a")] == [ids[0], ids[2]]
    assert [row.run for row in et.runs(campaign="a-0123abcd")] == [ids[0]]
    assert [row.network for row in et.runs(network="vgg11")] == ["vgg11"]
    assert [row.run for row in et.runs(newest=2, network="lenet5")] == ids[1:]
    assert len(et.runs(newest=0)) == 0 and len(et.runs(newest=99)) == 4


def test_runs_are_given_by_id_as_a_run_or_as_a_summary(record: Any, tmp_path: Path) -> None:
    a, b = record(seed=1), record(seed=2)
    run, summary = et.open_run(a), et.summarize(a)
    assert et.summarize(run) == et.summarize(summary) == summary
    assert et.compare(run, b) == et.compare([summary], [et.open_run(b)]) == et.compare([a], b)
    sizes = {et.export_run(one, "trace", tmp_path / "x").rows for one in (a, run, summary)}
    assert len(sizes) == 1
    assert et.write_report([a, run, summary], tmp_path / "page.html").runs == 3


def test_a_store_is_a_path_or_a_store(tmp_path: Path, record: Any) -> None:
    run = record()
    for place in (record.store, str(record.store), FolderStore(record.store)):
        assert et.open_run(run, place).id == run and len(et.runs(place)) == 1
    assert len(et.runs(tmp_path / "another")) == 0


def test_mistakes_are_errors_of_ours_that_say_what_would_be_right(record: Any, tmp_path: Path) -> None:
    run = record()
    with pytest.raises(UsageError, match="csv, parquet, trace"):
        et.export_run(run, "xlsx", tmp_path / "x")
    with pytest.raises(UsageError, match="both sides"):
        et.compare(run, [run])
    with pytest.raises(UsageError, match="--workers is -1"):
        et.execute("lenet5", device="sim:orin-agx", workers=-1)
    with pytest.raises(UsageError, match="there is no setting 'lr'"):
        et.execute("lenet5", device="sim:orin-agx", lr=0.1)
    with pytest.raises(UsageError, match="cannot find the command"):
        et.profile(["no-such-command-anywhere"])
    with pytest.raises(UsageError, match="power modes"):
        et.execute("lenet5", device="host", power_mode="30W")
    with pytest.raises(UsageError, match="campaign"):
        et.write_report(campaign="nosuch", path=tmp_path / "x.html")
    with pytest.raises(UsageError, match="choose another path"):
        et.write_report([run], tmp_path / "no" / "folder.html")
    with pytest.raises(StoreError, match="no training minibatches"):
        et.export_run(record(epochs=0), "csv", tmp_path / "x")
    with pytest.raises(UsageError, match="no folder"):
        api.characterise(tmp_path / "no" / "page.html")


def test_a_power_mode_is_a_name_an_id_clocks_or_a_mode(tmp_path: Path) -> None:
    mode = api.read_power_mode("8/1728/624.75/2133", "sim:orin-agx")
    assert mode == PowerMode(8, 1_728_000_000, 624_750_000, 2_133_000_000)
    assert api.read_power_mode(mode, "host") is mode and api.read_power_mode(None, "host") is None
    stock = api.read_power_mode("MAXN", "sim:orin-agx")
    assert stock is not None and stock.cores == 12
    run = et.execute("lenet5", device="sim:orin-agx", power_mode="8/1728/624.75/2133", epochs=1, minibatches=10)
    assert run.manifest.power_mode is not None and run.manifest.power_mode.asked == mode
    assert run.manifest.origin is Origin.SIMULATED


def test_a_campaign_is_costed_run_resumed_and_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    asked = et.Campaign(tmp_path / "plan.yaml")
    before = asked.preview()
    assert (before.left, before.device, len(et.runs())) == (2, "sim:orin-agx", 0)
    announced: list[Any] = []
    result = asked.run(announced.append)
    assert result.complete and not result.failed and announced
    assert {row.get("workers") for row in result.rows} == {0, 4}
    again = et.Campaign(tmp_path / "plan.yaml")
    assert again.id == asked.id and again.preview().left == 0
    assert again.run().done == result.done  # nothing is run twice
    assert {row.run for row in et.runs(campaign="grid")} == set(result.done.values())
    assert et.write_report((), tmp_path / "page.html", campaign="grid").runs == 2
    fresh = et.Campaign(tmp_path / "plan.yaml", fresh=True)
    assert fresh.id != asked.id and fresh.preview().left == 2


def test_a_profiled_command_keeps_its_status_and_is_recorded_with_it() -> None:
    done = et.profile([sys.executable, "-c", "raise SystemExit(7)"], device="host", campaign="mine")
    assert done.status == 7
    manifest = done.run.manifest
    assert (manifest.exit_status, manifest.state, manifest.campaign, manifest.profiled) == (7, "failed", "mine", True)
    assert manifest.command[1:] == ("-c", "raise SystemExit(7)")


def test_tables_become_data_frames_with_missing_integers(record: Any) -> None:
    pandas = pytest.importorskip("pandas")
    table = ArrayTable({"at_us": np.array([1, -1, 3]), "x_w": np.array([1.5, np.nan, 2.0]), "n": np.array([0, 1, 2])})
    frame = table.to_pandas()
    assert list(frame.columns) == ["at_us", "x_w", "n"]
    assert frame["at_us"].isna().tolist() == frame["x_w"].isna().tolist() == [False, True, False]
    assert str(frame["at_us"].dtype) == "Int64" and str(frame["n"].dtype) == "int64"
    assert ArrayTable().to_pandas().empty
    run = et.open_run(record())
    frame = run.minibatches().to_pandas()
    assert len(frame) == 80 and frame["cpu_us"].isna().all() and not frame["asked_us"].isna().any()
    assert len(run.samples("rails").to_pandas()) == len(run.samples("rails"))
    listed = et.runs().to_pandas()
    assert listed["network"].tolist() == ["lenet5"] and pandas.isna(listed["campaign"][0])
    assert list(et.runs(network="none").to_pandas().columns) == list(listed.columns)


def test_epochs_and_settings_become_data_frames(record: Any, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    summary = et.summarize(record())
    frame = summary.to_pandas()
    assert frame["e2e_s"].tolist() == [epoch.e2e_s for epoch in summary.epochs] and "stall_by.blocked_s" in frame
    (tmp_path / "plan.yaml").write_text(PLAN)
    frame = et.Campaign(tmp_path / "plan.yaml").run().to_pandas()
    assert sorted(frame["workers"]) == [0, 4] and (frame["median_epoch.e2e_s"] > 0).all()


def test_without_pandas_a_table_says_how_to_get_it(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = et.open_run(record())
    for table in (run.minibatches(), et.runs()):
        with pytest.raises(UsageError, match=r"pip install 'edgetrain\[pandas\]'"):
            table.to_pandas()


def test_documents_of_results_hold_no_values_json_lacks(record: Any) -> None:
    import json

    a, b = record(seed=1), record(seed=2, power_w=None)
    for result in (et.summarize(a), et.summarize(b), et.compare(a, b), et.runs(), et.prune(state="failed")):
        json.dumps(to_document(result), allow_nan=False)
