"""`edgetrain doctor`: a document for programs, a table for people, and never a failure."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.sampling.checkup import examine


def test_its_document_says_what_works_and_why_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jpg").write_bytes(b"x" * 10_000)
    status = main(["doctor", "--json", "--store", str(tmp_path / "store"), "--dataset", str(tmp_path / "data")])
    document = json.loads(capsys.readouterr().out)
    assert status == 0
    assert document["schema"] == "edgetrain/1"
    assert document["device"]["cores"] == len(os.sched_getaffinity(0)) or document["device"]["cores"] >= 1
    by_name = {finding["what"]: finding for finding in document["findings"]}
    assert {"python", "store", "dataset", "torch", "control groups", "FUSE", "cold runs"} <= set(by_name)
    assert by_name["store"]["works"] is True
    assert by_name["separate medium"]["works"] is False and by_name["separate medium"]["fix"]
    assert all(each["detail"] for each in document["findings"] if each["works"] is False)
    assert 0 <= document["overhead"]["cpu_share"] < 0.2


def test_for_people_every_fix_is_a_command_of_its_own_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "sampling these sensors costs" in out and "torch" in out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_comes_with_the_way_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    finding = next(each for each in examine(tmp_path / "store") if each.what == "store")
    assert finding.works is False and finding.fix is not None and "EDGETRAIN_STORE" in finding.fix


def test_a_dataset_that_is_not_there_is_found_not_raised(tmp_path: Path) -> None:
    findings = examine(tmp_path, tmp_path / "nowhere")
    assert any(each.what == "dataset" and each.works is False for each in findings)


def test_a_python_without_torch_is_distinguished_from_one_that_is_not_there(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(
        '#!/bin/sh\nexec python3 -I -S -c "import sys; sys.modules[\'torch\'] = None; exec(sys.argv[1])" "$2"\n'
    )
    bare.chmod(0o755)
    for python in (str(bare), str(tmp_path / "no-such-python")):
        finding = next(each for each in examine(tmp_path, python=python) if each.what == "torch")
        assert finding.works is False and finding.detail and finding.fix


def test_an_unknown_device_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", "toaster"]) == 2
    assert "unknown device" in capsys.readouterr().err


def test_a_file_does_not_pass_for_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in (tmp_path / "file", tmp_path / "file" / "below"):
        finding = next(each for each in examine(store) if each.what == "store")
        assert finding.works is False and "is a file" in finding.detail
