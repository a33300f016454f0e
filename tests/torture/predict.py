"""Feeds the predictor networks that never existed and tables that nobody should write."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from edgetrain.errors import EdgetrainError
from edgetrain.prediction import (
    bare,
    choose_modes,
    dump_predictor,
    fit,
    load_prior,
    parse_predictor,
    parse_table,
    write_table,
)
from tests.prediction.conftest import grid, measured

FULL = 400


def run(count: int, seed: int) -> str:
    """Made-up networks, and fifty damaged tables for each."""
    return f"{run_networks(count, seed)} {run_tables(50 * count, seed)}"


def run_networks(count: int, seed: int) -> str:
    """Any network, any scale, any labels, any few modes, some rows wrong: predictions stay finite and positive."""
    rng = np.random.default_rng(seed)
    prior = load_prior("orin")
    errors = []
    for i in range(count):
        table = measured(grid(), int(rng.integers(1 << 30)), float(rng.uniform(0, 0.1)))
        scale = np.exp(rng.uniform(-4, 4, 5))
        table = replace(
            table,
            time_s=scale[0] * table.time_s,
            power_w=scale[1] * table.power_w,
            cpu_hz=scale[2] * table.cpu_hz,
            gpu_hz=scale[3] * table.gpu_hz,
            emc_hz=scale[4] * table.emc_hz,
        )
        many = int(rng.integers(2, 30))
        chosen = i % 2 == 0
        rows = choose_modes(bare(table), many, prior=prior) if chosen else rng.choice(len(table), many).tolist()
        seen = table.take(rows)
        assert seen.time_s is not None and table.time_s is not None
        if i % 3 == 0:
            wrong = seen.time_s.copy()
            wrong[int(rng.integers(many))] *= float(np.exp(rng.uniform(-3, 3)))
            seen = replace(seen, time_s=wrong)
        fitted = fit(seen, prior if i % 5 else None, i, bare(table))
        found = fitted.predict(bare(table))
        for column in (found.time_s, found.power_w, found.time_log_sd, found.power_log_sd):
            assert np.isfinite(column).all() and (column > 0).all(), f"network {i}: {column.min()} to {column.max()}"
        again = parse_predictor(dump_predictor(fitted)).predict(bare(table))
        assert (again.time_s == found.time_s).all(), f"network {i} changed on its way through a file"
        if chosen and many >= 8 and i % 3:
            errors.append(float(np.mean(np.abs(found.time_s / table.time_s - 1))))
    middle = 100 * float(np.median(errors)) if errors else float("nan")
    return f"{count} made-up networks predicted, all finite; median error of those with 8 or more modes {middle:.1f} %."


def run_tables(count: int, seed: int) -> str:
    """A table with random damage is read as it is, or refused with an error of ours; never a traceback."""
    rng = random.Random(seed)
    whole = write_table(measured(grid()).take(slice(0, 12)))
    refused = 0
    for _ in range(count):
        text = list(whole)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            text[at] = rng.choice(
                ["", ",", "\n", "-", "0", "9", "e", ".", '"', "nan", "inf", "\x00", "é", "1e308", " "]
            )
        try:
            table = parse_table("".join(text), "damaged.csv", need_results=True)
        except EdgetrainError as error:
            refused += 1
            assert "damaged.csv" in str(error)
            continue
        assert len(table) and table.time_s is not None and (table.time_s > 0).all()
    return f"{count} damaged tables: {refused} refused by name, the others read; none raised anything else."
