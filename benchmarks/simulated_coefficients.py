"""Fits the physics of the simulated boards to published measurements; prints the coefficients with their sources.

    python benchmarks/simulated_coefficients.py -o src/edgetrain/device/simulated/coefficients.json

Reads the tables and published figures of `../shared` (EDGETRAIN_SHARED names another place); only fitted
coefficients leave it. The forms are those of `edgetrain.device.simulated.physics`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("EDGETRAIN_SHARED", ROOT.parent / "shared"))
TIME = ("gpu", "emc", "host", "fixed_s", "loader", "loader_cores", "roof_norm", "host_norm", "loader_norm")
POWER = (
    "base_w",
    "emc_w",
    "cpu_w",
    "gpu_w",
    "gpu_j",
    "fixed_j",
    "cpu_j",
    "cores_power",
    "cpu_power",
    "gpu_power",
    "gpu_j_power",
)
POWERTRAIN = "fitted to the per-mode medians published with PowerTrain (FGCS 2024)"
SIGMETRICS = "fitted to SIGMETRICS 2023, figure 9 (modes a to n of AGX Xavier)"


def time_s(p: np.ndarray, cores: np.ndarray, cpu: np.ndarray, gpu: np.ndarray, emc: np.ndarray) -> np.ndarray:
    a, b, h, c, loader, share, k, q, r = p
    roof = ((a / gpu) ** k + (b / emc) ** k) ** (1 / k)
    step = (roof**q + (h / cpu) ** q) ** (1 / q) + c
    return (step**r + (loader / (cpu * cores**share)) ** r) ** (1 / r)


def power_w(
    p: np.ndarray, cores: np.ndarray, cpu: np.ndarray, gpu: np.ndarray, emc: np.ndarray, t: np.ndarray
) -> np.ndarray:
    base, pe, pc, pg, eg, e0, ec, k, x, y, z = p
    return base + pe * emc + pc * cores**k * cpu**x + pg * gpu**y + (eg * gpu**z + e0 + ec * cpu**x) / t


def fit(rows: np.ndarray, prior_t: np.ndarray, prior_p: np.ndarray, weight: float) -> dict[str, object]:
    """Fit time and power of one network on one board; `weight` pulls towards the prior where data are few."""
    cores, cpu, gpu, emc, t, w = rows.T

    def off_t(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(time_s(np.exp(x), cores, cpu, gpu, emc) / t), weight * (x - np.log(prior_t))])

    low = np.log(np.array([1e-7] * 5 + [0.05, 1.0, 1.0, 1.0]))
    high = np.log(np.array([10.0] * 5 + [1.2, 12.0, 12.0, 12.0]))
    fit_t = least_squares(
        off_t, np.clip(np.log(prior_t), low + 1e-6, high - 1e-6), bounds=(low, high), loss="soft_l1", f_scale=0.05
    )
    found_t = np.exp(fit_t.x)

    def off_p(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(power_w(np.exp(x), cores, cpu, gpu, emc, t) / w), weight * (x - np.log(prior_p))])

    low = np.log(np.array([0.3, 1e-3, 1e-3, 1e-3, 1e-6, 1e-6, 1e-6, 0.3, 0.8, 0.8, 0.1]))
    high = np.log(np.array([15.0, 5.0, 5.0, 20.0, 20.0, 20.0, 20.0, 1.2, 3.5, 4.0, 3.0]))
    fit_p = least_squares(
        off_p, np.clip(np.log(prior_p), low + 1e-6, high - 1e-6), bounds=(low, high), loss="soft_l1", f_scale=0.03
    )
    found_p = np.exp(fit_p.x)
    miss_t = np.abs(time_s(found_t, cores, cpu, gpu, emc) / t - 1)
    miss_p = np.abs(power_w(found_p, cores, cpu, gpu, emc, t) / w - 1)
    return {
        "time": dict(zip(TIME, map(rounded, found_t), strict=True)),
        "power": dict(zip(POWER, map(rounded, found_p), strict=True)),
        "misfit_pct": [round(100 * float(miss_t.mean()), 1), round(100 * float(miss_p.mean()), 1)],
        "modes": len(rows),
    }


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def table(name: str) -> np.ndarray:
    rows = []
    with (SHARED / "data/jetson" / name).open() as file:
        for row in csv.DictReader(file):
            rows.append(
                [float(row["cores"]), float(row["cpu_khz"]) / 1e6, float(row["gpu_hz"]) / 1e9,
                 float(row["emc_hz"]) / 1e9, float(row["time_ms"]) / 1e3, float(row["power_mw"]) / 1e3]
            )  # fmt: skip
    return np.array(rows)


# Modes of SIGMETRICS 2023: cores, CPU, GPU, EMC in GHz as the board rounds them.
XAVIER_MODES = {
    "a": (4, 1.1904, 0.624, 1.3312), "b": (8, 1.1904, 0.624, 1.3312), "c": (8, 1.1904, 0.9, 1.3312),
    "d": (8, 1.1904, 0.9, 1.6), "e": (8, 2.1, 0.9, 1.6), "f": (2, 2.1, 0.9, 1.6), "g": (8, 2.2656, 1.377, 2.133),
    "h": (8, 2.2656, 1.377, 1.0656), "i": (8, 2.2656, 1.377, 1.3312), "j": (8, 2.2656, 1.377, 1.6),
    "k": (4, 1.0368, 0.42, 2.133), "l": (8, 1.0368, 0.42, 2.133), "m": (8, 2.2656, 0.42, 2.133),
    "n": (8, 2.2656, 0.9, 2.133),
}  # fmt: skip
BATCHES = {"lenet5": 3750, "resnet18_cifar_gn": 3125, "mobilenet_v3": 1443, "vgg11": 3125}
PRINTED = {
    "lenet5": "lenet5/MNIST",
    "resnet18_cifar_gn": "resnet18/CIFAR-10",
    "mobilenet_v3": "mobilenet_v3/GLD-23k",
    "vgg11": "vgg11/CIFAR-10",
}


def xavier(network: str) -> np.ndarray:
    found: dict[str, dict[str, float]] = {}
    with (SHARED / "reference/published_numbers.csv").open() as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            source, device, workload = row[:3]
            mode, metric, value = row[7], row[9], row[10]
            if device != "agx_xavier" or workload != PRINTED[network] or mode not in XAVIER_MODES:
                continue
            if source in ("SIGMETRICS23 Fig9a", "SIGMETRICS23 Fig9b", "SIGMETRICS23 Fig10a", "SIGMETRICS23 Fig10b"):
                found.setdefault(mode, {}).setdefault(metric, float(value))
    rows = []
    for mode, facts in found.items():
        seconds = facts.get("e2e") or facts.get("e2e_observed")
        energy = next((facts[name] for name in ("energy", "energy_total", "energy_observed") if name in facts), None)
        if seconds:
            rows.append([*XAVIER_MODES[mode], seconds / BATCHES[network], (energy or np.nan) * 3.6 / seconds])
    return np.array(rows)


NETWORKS = ("lenet5", "mobilenet_v3", "resnet18", "resnet18_cifar_gn", "vgg11", "lstm")
TOPS = {
    "orin-agx": (12, 2.2016, 1.3005, 3.199), "orin-nano": (6, 1.5104, 0.62475, 2.133),
    "xavier-agx": (8, 2.2656, 1.377, 2.133), "xavier-nx": (6, 1.4208, 1.10925, 1.6), "nano": (4, 1.479, 0.9216, 1.6),
}  # fmt: skip
# Watts of the idle board: constant, per GHz of memory clock, per GHz of CPU clock. AGX Xavier from the baseloads that
# SIGMETRICS 2023 implies per mode; the others keep its shape, at the level of the sources named.
SHAPE = "; shape of AGX Xavier"
BOARDS: dict[str, dict[str, object]] = {
    "orin-agx": {
        "idle_w": [8.0, 0.5, 0.4], "heat_c_per_w": 0.85, "heat_s": 110.0, "minibatch_cv": 0.02,
        "idle_source": "below the 11.5 W never undercut in training (PowerTrain's tables)" + SHAPE,
    },
    "orin-nano": {
        "idle_w": [5.6, 0.4, 0.3], "heat_c_per_w": 2.2, "heat_s": 100.0, "minibatch_cv": 0.02,
        "idle_source": "about 7 W before training starts (PowerTrain's logs)" + SHAPE,
    },
    "xavier-agx": {
        "idle_w": [1.9, 2.0, 0.5], "heat_c_per_w": 0.9, "heat_s": 120.0, "minibatch_cv": 0.02,
        "idle_source": "module baseloads per mode implied by SIGMETRICS 2023, figure 9",
    },
    "xavier-nx": {
        "idle_w": [1.6, 1.0, 0.3], "heat_c_per_w": 2.0, "heat_s": 100.0, "minibatch_cv": 0.025,
        "idle_source": "under the socket's 6.4 to 6.9 W (SIGMETRICS 2023, figure 7)" + SHAPE,
    },
    "nano": {
        "idle_w": [0.8, 0.25, 0.1], "heat_c_per_w": 3.5, "heat_s": 90.0, "minibatch_cv": 0.03,
        "idle_source": "under the socket's 1.6 W (SIGMETRICS 2023, figure 7)" + SHAPE,
    },
}  # fmt: skip
# Minibatch time and power that pin a board for which no table of modes exists.
PINS = {
    "xavier-nx": (
        "mobilenet_v3", 576 / 1443, 2.40 * 3600 / 560,
        "pinned to SIGMETRICS 2023: 576 s and 2.4 Wh an epoch of MobileNet in mode 15W",
    ),
    "nano": (
        "lenet5", 76.6 / 3750, 0.107 * 3600 / 76.6,
        "pinned to SIGMETRICS 2023: 76.6 s and 0.107 Wh an epoch of LeNet at MAXN",
    ),
}  # fmt: skip
# Against AGX Xavier: work per clock of GPU (CUDA cores), memory (bus width) and one CPU core.
WORK = {"xavier-nx": (512 / 384, 2.0, 1.0), "nano": (4.0, 4.0, 1.8)}


def complete(fitted: dict, board: str, network: str) -> dict[str, object]:
    """Return a board's coefficients of a network: fitted where measured, else scaled from where they were."""
    if board in PINS:
        return pinned(fitted, board, network)
    own = fitted[board].get(network)
    if own and own["power"]:
        return own
    if own:  # times alone were published: power as MobileNet's on the same board, its joules by the seconds
        other = fitted[board]["mobilenet_v3"]
        top = TOPS[board]
        share = float(
            time_s(np.array([own["time"][n] for n in TIME]), *top)
            / time_s(np.array([other["time"][n] for n in TIME]), *top)
        )
        watts = {
            n: rounded(v * (share if n in ("gpu_j", "fixed_j", "cpu_j") else 1)) for n, v in other["power"].items()
        }
        return {**own, "power": watts, "source": own["source"] + "; power scaled from MobileNet on the same board"}
    where = "orin-agx" if network in fitted["orin-agx"] else "xavier-agx"
    there, here, its = fitted[where]["mobilenet_v3"], fitted[board]["mobilenet_v3"], complete(fitted, where, network)
    scaled = ("gpu", "emc", "host", "fixed_s", "loader")
    seconds = {n: rounded(v * here["time"][n] / there["time"][n]) if n in scaled else v for n, v in its["time"].items()}
    # The split of joules between GPU and the rest is poorly determined by few modes: no board needs more than double.
    joules = here["power"]["gpu_j"] / there["power"]["gpu_j"]
    watts = {
        n: rounded(its["power"][n] * min(joules, 2.0)) if n in ("gpu_j", "fixed_j", "cpu_j") else here["power"][n]
        for n in POWER
    }
    return {"source": f"scaled from {where} by what MobileNet needs on both", "time": seconds, "power": watts}


def pinned(fitted: dict, board: str, network: str) -> dict[str, object]:
    base = complete(fitted, "xavier-agx", network)
    anchor_network, seconds_pin, watts_pin, said = PINS[board]
    gpu, emc, cpu = WORK[board]
    factors = {"gpu": gpu, "emc": emc, "host": cpu, "fixed_s": cpu, "loader": cpu}

    def scale(entry: dict) -> np.ndarray:
        return np.array([entry["time"][n] * factors.get(n, 1.0) for n in TIME])

    anchor = complete(fitted, "xavier-agx", anchor_network)
    top = TOPS[board]
    level = seconds_pin / float(time_s(scale(anchor), *top))
    vector = scale(base) * np.array([level if n in factors else 1.0 for n in TIME])
    watts_there = float(power_w(np.array([anchor["power"][n] for n in POWER]), *top, seconds_pin))
    share = watts_pin / watts_there
    watts = {n: rounded(v if n.endswith("_power") else v * share) for n, v in base["power"].items()}
    return {
        "source": f"scaled from AGX Xavier by cores of the GPU, width of the memory and core type, {said}",
        "time": dict(zip(TIME, map(rounded, vector), strict=True)),
        "power": watts,
    }


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("-o", type=Path)
    out = arguments.parse_args().o
    start_t = np.array([0.05, 0.05, 0.03, 0.005, 0.1, 0.4, 4.0, 4.0, 4.0])
    start_p = np.array([7.0, 0.5, 0.15, 1.5, 0.3, 0.05, 0.1, 0.8, 1.8, 1.5, 0.8])
    fitted: dict[str, dict[str, dict[str, object]]] = {}
    for board, network, file in (
        ("orin-agx", "resnet18", "orin_agx_resnet_train.csv"),
        ("orin-agx", "mobilenet_v3", "orin_agx_mobnet_train.csv"),
        ("orin-agx", "lstm", "orin_agx_lstm_train.csv"),
        ("orin-nano", "resnet18", "orin_nano_resnet_train.csv"),
        ("orin-nano", "mobilenet_v3", "orin_nano_mobnet_train.csv"),
    ):
        rows = table(file)
        result = fit(rows, start_t, start_p, 0.02 if len(rows) > 300 else 0.05)
        fitted.setdefault(board, {})[network] = {"source": f"{POWERTRAIN}, {len(rows)} modes", **result}
        print(board, network, result["misfit_pct"])
    for network in BATCHES:
        rows = xavier(network)
        with_power = rows[np.isfinite(rows[:, 5])]
        if not len(with_power):
            rows[:, 5] = 20.0
        scale = np.median(rows[:, 4])
        prior_t = start_t * np.array([scale / 0.08] * 5 + [1] * 4)
        result = fit(rows if not len(with_power) else with_power, prior_t, start_p * np.array([0.5] + [1] * 10), 0.02)
        if not len(with_power):
            result["power"] = None
        fitted.setdefault("xavier-agx", {})[network] = {"source": f"{SIGMETRICS}, {len(rows)} modes", **result}
        print("xavier-agx", network, result["misfit_pct"], len(with_power))
    document = {"boards": {name: {**facts, "networks": {}} for name, facts in BOARDS.items()}}
    for board in BOARDS:
        for network in NETWORKS:
            document["boards"][board]["networks"][network] = complete(fitted, board, network)
    for board, facts in document["boards"].items():
        for network, entry in facts["networks"].items():
            top = TOPS[board]
            seconds = float(time_s(np.array([entry["time"][n] for n in TIME]), *top))
            watts = float(power_w(np.array([entry["power"][n] for n in POWER]), *top, seconds))
            print(f"{board:11} {network:18} top mode {1e3 * seconds:7.1f} ms {watts:5.1f} W  {entry['source'][:70]}")
    text = json.dumps(document, indent=1)
    if out:
        out.write_text(text + "\n")
