"""The experiments of SIGMETRICS 2023 as campaigns on simulated boards; nothing is trained, time is virtual.

    loading   workers x storage for three networks on AGX Xavier, cold and later epochs      1 to 6, 8, 9
    slow-gpu  workers where the GPU clock is low, so that compute is longer than fetching    5, 6
    nx        workers on Xavier NX, whose RAM does not hold the dataset                      4 to 6
    batch     batch sizes 1 to 128                                                           10, 11
    dvfs      clocks held, and free                                                          16, 17
    modes     power modes a to h, with the idle power                                        7, 18 to 24

As in the paper, the loop waits for each step. The paper's own numbers are judged beside them. A simulated board's
times and powers were fitted to those numbers: for most take-aways its runs are shown and not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.runner import Plan
from edgetrain.schema import Origin, Scalar
from edgetrain.studies.base import PlannedSection, StudyPlan
from edgetrain.studies.sigmetrics.claims import TAKE_AWAYS
from edgetrain.studies.sigmetrics.published import published_data

SECTIONS = ("loading", "slow-gpu", "nx", "batch", "dvfs", "modes")
AGX, NX = "sim:xavier-agx", "sim:xavier-nx"
NETWORKS: list[Scalar] = ["lenet5", "resnet18_cifar_gn", "mobilenet_v3"]
REPEATS = 3
SCALE = 0.1  # of the dataset: 144 minibatches per epoch and more
MINIBATCHES = 100
BASELOAD_S = 20.0
# At most 6 % of the dataset stay in the page cache of the paper's NX: this much of the 282 MB here.
NX_PAGE_CACHE = "17MB"
SLOW_GPU = "8/2265.6/318.75/2133"
# Table 3, modes a to h, at the nearest clocks that the board has; a is what its factory-default mode amounts to.
MODES: list[Scalar] = [
    "4/1190.4/624.75/1331.2",
    "8/1190.4/624.75/1331.2",
    "8/1190.4/905.25/1331.2",
    "8/1190.4/905.25/1600",
    "8/2112/905.25/1600",
    "2/2112/905.25/1600",
    "8/2265.6/1377/2133",
    "8/2265.6/1377/1065.6",
]


def plan(data: Path, quick: bool = False, sections: Sequence[str] = SECTIONS) -> StudyPlan:
    """Return the study with these sections; it needs no datasets."""
    makers = {"loading": _loading, "slow-gpu": _slow_gpu, "nx": _nx, "batch": _batch, "dvfs": _dvfs, "modes": _modes}
    planned = tuple(PlannedSection(name, makers[name](quick)) for name in sections)
    title = "SIGMETRICS 2023 on simulated boards and by its published numbers"
    return StudyPlan("sigmetrics", title, "", data, planned, TAKE_AWAYS, Origin.SIMULATED, published_data())


def _plan(
    name: str, device: str, quick: bool, base: dict[str, Scalar], factors: dict[str, list[Scalar]], repeats: int = 1
) -> Plan:
    named = f"sigmetrics-{name}{'-quick' if quick else ''}"
    return Plan(named, {"epochs": 3, "timing": "sync", **base}, factors, device=device, repeats=1 if quick else repeats)


def _loading(quick: bool) -> Plan:
    base: dict[str, Scalar] = {"cache": "cold", "dataset_scale": SCALE}
    factors: dict[str, list[Scalar]] = {
        "network": ["lenet5", "mobilenet_v3"] if quick else NETWORKS,
        "storage": ["hdd"] if quick else ["ssd", "hdd"],
        "workers": [0, 1, 2] if quick else [0, 1, 2, 4],
    }
    return _plan("loading", AGX, quick, base, factors, REPEATS)


def _slow_gpu(quick: bool) -> Plan:
    base: dict[str, Scalar] = {
        "cache": "cold", "dataset_scale": SCALE, "network": "resnet18_cifar_gn", "storage": "ssd",
        "power_mode": SLOW_GPU,
    }  # fmt: skip
    return _plan("slow-gpu", AGX, quick, base, {"workers": [0, 1, 2]}, REPEATS)


def _nx(quick: bool) -> Plan:
    base: dict[str, Scalar] = {
        "cache": "cold", "dataset_scale": SCALE, "network": "mobilenet_v3", "storage": "hdd",
        "page_cache": NX_PAGE_CACHE,
    }  # fmt: skip
    return _plan("nx", NX, quick, base, {"workers": [0, 1, 2] if quick else [0, 1, 2, 4]}, REPEATS)


def _batch(quick: bool) -> Plan:
    base: dict[str, Scalar] = {"cache": "warm", "minibatches": MINIBATCHES, "workers": 4}
    sizes: list[Scalar] = [1, 16, 128] if quick else [1, 8, 16, 64, 128]
    return _plan("batch", AGX, quick, base, {"network": NETWORKS, "batch_size": sizes})


def _dvfs(quick: bool) -> Plan:
    base: dict[str, Scalar] = {"cache": "warm", "minibatches": MINIBATCHES, "workers": 4, "power_mode": "MAXN"}
    return _plan("dvfs", AGX, quick, base, {"network": NETWORKS, "dvfs": [False, True]})


def _modes(quick: bool) -> Plan:
    base: dict[str, Scalar] = {
        "cache": "warm", "minibatches": MINIBATCHES, "workers": 4, "baseload_s": BASELOAD_S,
    }  # fmt: skip
    modes = MODES[:1] + MODES[4:5] + MODES[6:] if quick else MODES
    return _plan("modes", AGX, quick, base, {"network": NETWORKS, "power_mode": modes})
