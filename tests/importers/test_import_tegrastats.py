"""A tegrastats log becomes a run of telemetry on a clock that never runs back."""

from __future__ import annotations

import random

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.errors import BadTable, UsageError
from edgetrain.importers import import_path
from edgetrain.record import FolderStore


def line(power_mw: int, stamp: str = "", unit: str = "mW") -> str:
    return (
        f"{stamp}RAM 2987/6849MB (lfb 4x4MB) SWAP 64/3424MB (cached 0MB) CPU [33%@1420,21%@1190,off,off] "
        f"EMC_FREQ 7%@1600 "
        f"GR3D_FREQ 55%@[803] APE 150 AUX@41C CPU@43.5C GPU@42.5C VDD_IN {power_mw}{unit}/7010{unit} "
        f"VDD_CPU_GPU_CV 3290{unit}/2980{unit} VDD_SOC 1180{unit}/1140{unit}"
    )


def stamped(seconds: float, power_mw: int = 7640) -> str:
    whole = int(seconds)
    return line(power_mw, f"02-14-2026 09:{15 + whole // 60:02d}:{whole % 60:02d} ")


def bring_in(tmp_path, text: str | bytes, **options):
    log = tmp_path / "tegrastats.log"
    log.write_bytes(text if isinstance(text, bytes) else text.encode())
    store = FolderStore(tmp_path / "store")
    (found,) = import_path(log, store, **options)
    return found, store.open(found.id)


def test_a_log_becomes_a_run_without_minibatches_whose_power_shows(tmp_path):
    found, run = bring_in(tmp_path, "\n".join(stamped(second, 7000 + second) for second in range(30)) + "\n")
    summary = summarize(run)
    assert found.minibatches is None and summary.epochs == ()
    assert summary.power_w.median == pytest.approx(7.0145, abs=0.001)
    assert summary.device.name == "xavier-nx"
    assert found.problems == ()


def test_lines_without_stamps_are_one_interval_apart_and_that_is_reported(tmp_path):
    text = "\n".join(line(7640, unit="") for _ in range(5))
    found, run = bring_in(tmp_path, text)
    assert np.diff(run.samples("rails")["at_us"]).tolist() == [1_000_000] * 4
    assert any("no time stamps" in problem for problem in found.problems)
    found, run = bring_in(tmp_path, text, interval_s=0.25)
    assert np.diff(run.samples("rails")["at_us"]).tolist() == [250_000] * 4
    assert found.problems == ()


def test_several_lines_a_second_are_spread_over_it(tmp_path):
    text = "\n".join(stamped(tenth / 10, 7000 + tenth) for tenth in range(50))
    _, run = bring_in(tmp_path, text)
    steps = np.diff(run.samples("rails")["at_us"])
    assert (steps > 0).all() and np.median(steps) == pytest.approx(100_000, rel=0.05)


def test_a_wall_clock_set_meanwhile_neither_runs_back_nor_leaps(tmp_path):
    order = [0, 1, 2, 3, 1500, 1501, 1502, 4, 5, 6]
    text = "\n".join(
        line(7000 + place, f"02-{14 + (second > 1000)}-2026 09:15:{second % 60:02d} ")
        for place, second in enumerate(order)
    )
    found, run = bring_in(tmp_path, text)
    at_us = run.samples("rails")["at_us"]
    assert (np.diff(at_us) >= 0).all() and at_us[-1] < 60 * 1_000_000
    assert any("wall clock was set" in problem for problem in found.problems)


def test_a_cut_line_costs_its_last_reading_and_garbage_only_itself(tmp_path):
    lines = [stamped(second) for second in range(10)]
    lines[3] = lines[3][: lines[3].index("VDD_SOC") - 6]  # in the middle of the mean of VDD_CPU_GPU_CV
    data = "\n".join(lines).encode() + b"\n\x00\xff\xfe garbage\n"
    found, run = bring_in(tmp_path, data)
    assert np.isfinite(run.samples("rails")["VDD_IN_w"]).all()
    assert np.isnan(run.samples("rails")["VDD_CPU_GPU_CV_w"]).sum() == 1
    named = " ".join(found.problems)
    assert "NUL" in named and "not tegrastats'" in named and "lacks readings" in named


def test_a_log_without_an_input_rail_has_no_total_power(tmp_path):
    text = "\n".join(f"RAM 1/2MB CPU [1%@100,off] VDD_GPU {700 + i}mW/700mW" for i in range(5))
    _, run = bring_in(tmp_path, text)
    assert run.manifest.power is None
    assert "input" in run.manifest.power_reason


def test_a_window_of_minibatches_means_nothing_here(tmp_path):
    with pytest.raises(UsageError, match="no minibatches"):
        bring_in(tmp_path, stamped(1), window="5:")


@pytest.mark.parametrize("data", [b"", b"hello\nworld\n", bytes(5000), random.Random(1).randbytes(5000)])
def test_what_is_no_log_is_refused_in_words(tmp_path, data):
    with pytest.raises(BadTable, match="neither"):
        bring_in(tmp_path, data)
