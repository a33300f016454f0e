"""Networks that never existed, with a truth that is known exactly, and the published tables where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetrain.prediction import ModeTable, load_prior, read_table
from edgetrain.prediction.modes.physics import TOP, Features, ReferenceMode, log_accelerator, log_power, log_time

SHARED = Path(os.environ.get("EDGETRAIN_SHARED", Path(__file__).parents[2].parent / "shared"))


def grid() -> ModeTable:
    """Return 441 modes of a made-up board."""
    mesh = np.meshgrid(
        [4, 8, 12],
        np.linspace(0.4e9, 2.2e9, 7),
        np.linspace(0.1e9, 1.3e9, 7),
        [0.7e9, 2.1e9, 3.2e9],
        indexing="ij",
    )
    cores, cpu, gpu, emc = (axis.ravel().astype(float) for axis in mesh)
    return ModeTable(cores, np.round(cpu), np.round(gpu), np.round(emc))


def measured(modes: ModeTable, seed: int = 0, noise: float = 0.01) -> ModeTable:
    """Return the modes with time and power of a network drawn around the shipped prior, with some scatter."""
    rng = np.random.default_rng(seed)
    prior = load_prior("orin")
    f = Features.of(modes, ReferenceMode.of(modes))
    theta, phi = prior.time().mean[None].copy(), prior.power().mean[None].copy()
    theta[:, :5] += 0.4 * rng.standard_normal(5)
    phi[:, :9] += 0.2 * rng.standard_normal(9)
    time, _ = log_time(theta, f)
    busy = np.minimum(log_accelerator(theta, f) - time, 0.0)
    power, _ = log_power(phi, f, time - log_time(theta, TOP)[0], busy)
    return replace(
        modes,
        time_s=0.05 * np.exp(time[0] + noise * rng.standard_normal(len(modes))),
        power_w=40.0 * np.exp(power[0] + noise * rng.standard_normal(len(modes))),
    )


@pytest.fixture(scope="session")
def network() -> ModeTable:
    return measured(grid())


@pytest.fixture(scope="session")
def published() -> Callable[[str], ModeTable]:
    """Return what reads a published table, or skips where the tables are not at hand."""

    def read(name: str) -> ModeTable:
        path = SHARED / "data" / "jetson" / f"{name}.csv"
        if not path.exists():
            pytest.skip(f"{path.name} is not at hand")
        return read_table(path, need_results=True)

    return read
