"""Whether a Python can train: one kernel that runs decides, and NVIDIA's torch is never to be replaced."""

from __future__ import annotations

import sys

import pytest

from edgetrain.sampling.torch_check import JETSON_TORCH, TorchFacts, ask, judge
from edgetrain.schema import Finding

WORKS = TorchFacts("3.10.12", None, "2.5.0a0+nv24.08", "12.6", ("Orin",), "8.7", True, None, None, "10.0")


def found(facts: TorchFacts, jetson: bool = True) -> dict[str, Finding]:
    return {finding.what: finding for finding in judge("python3", facts, jetson)}


def changed(**facts: object) -> TorchFacts:
    values = {name: getattr(WORKS, name) for name in WORKS.__slots__}
    return TorchFacts(**{**values, **facts})


def test_a_kernel_that_ran_is_the_proof() -> None:
    assert found(WORKS)["CUDA"].works and "a kernel ran on Orin" in found(WORKS)["CUDA"].detail


def test_a_gpu_that_is_seen_but_runs_nothing_does_not_work() -> None:
    facts = changed(kernel=None, kernel_error="CUDA error: no kernel image is available for execution on the device")
    finding = found(facts)["CUDA"]
    assert finding.works is False and "no kernel image" in finding.detail and "8.7" in finding.detail
    wrong = found(changed(kernel=False))["CUDA"]
    assert wrong.works is False and "result is wrong" in wrong.detail


@pytest.mark.parametrize(
    "facts",
    [
        TorchFacts(error="No module named 'torch'"),
        changed(kernel=None, kernel_error="no kernel image"),
        changed(kernel=None, gpus=(), capability=None),
        changed(kernel=None, gpus=(), capability=None, cuda=None),
    ],
)
def test_on_a_jetson_nobody_is_advised_to_install_another_torch(facts: TorchFacts) -> None:
    fixes = [finding.fix for finding in found(facts).values() if finding.works is False]
    assert fixes == [JETSON_TORCH] and "pip install torch" not in JETSON_TORCH


def test_the_fix_on_a_jetson_says_what_to_do_and_names_no_file_that_a_wheel_lacks() -> None:
    assert "docs/" not in JETSON_TORCH and "docker run" in JETSON_TORCH


def test_a_numpy_that_this_torch_cannot_use_is_named_with_the_fix() -> None:
    finding = found(changed(numpy_error="Numpy is not available"))["NumPy"]
    assert finding.works is False and "numpy<2" in (finding.fix or "")


def test_this_python_answers() -> None:
    facts = ask(sys.executable)
    assert facts is not None and facts.python == sys.version.split()[0]
    missing = ask("/no/such/python")
    assert missing is not None and missing.error
