"""The published power modes a to j of AGX Xavier as tables, read from the reference folder; none is kept here."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from edgetrain.prediction import ModeTable

MODES = "abcdefghij"
NETWORKS = {
    "lenet5/MNIST": "LeNet",
    "resnet18/CIFAR-10": "ResNet",
    "mobilenet_v3/GLD-23k": "MobileNet",
    "vgg11/CIFAR-10": "VGG",
}
CLOCKS = {"cpu_cores": "cores", "cpu_freq": "cpu_hz", "gpu_freq": "gpu_hz", "mem_freq": "emc_hz"}
J_PER_MWH = 3.6


def read_modes(path: Path) -> dict[str, ModeTable]:
    """Return epoch times (and mean power, where energy is published) of each network in the ten modes."""
    settings: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    epochs: dict[str, dict[str, float]] = {network: {} for network in NETWORKS}
    joules: dict[str, dict[str, float]] = {network: {} for network in NETWORKS}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            mode, metric, source = row["power_mode"], row["metric"], row["source"]
            if row["device"] != "agx_xavier" or mode not in settings or len(mode) != 1:
                continue
            if source.endswith("Table3") and metric in CLOCKS:
                scale = 1.0 if metric == "cpu_cores" else 1e6
                settings[mode][CLOCKS[metric]] = scale * float(row["value"])
            if row["workload"] not in epochs or row["storage"] != "ssd" or row["epoch"] != "1+":
                continue
            if (source.endswith("Fig9a") and metric == "e2e") or (
                source.endswith("Fig10a") and metric == "e2e_observed"
            ):
                epochs[row["workload"]].setdefault(mode, float(row["value"]))
            if "Fig9" in source and metric in ("energy", "energy_total"):
                joules[row["workload"]].setdefault(mode, J_PER_MWH * float(row["value"]))
    clocks = {name: np.array([settings[mode][name] for mode in MODES]) for name in CLOCKS.values()}
    found = {}
    for network, label in NETWORKS.items():
        if len(epochs[network]) < len(MODES):
            continue
        times = np.array([epochs[network][mode] for mode in MODES])
        # Without published energy the power is not used: a constant, so that time can be fitted.
        known = len(joules[network]) == len(MODES)
        power = np.array([joules[network][mode] for mode in MODES]) / times if known else np.ones(len(MODES))
        found[label] = ModeTable(**clocks, time_s=times, power_w=power)
    return found
