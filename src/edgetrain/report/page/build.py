"""Builds the report page from runs summed up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from edgetrain import __version__
from edgetrain.report.page.drawing import Bar, stacked_bars
from edgetrain.report.text import CAUSES, PARTS, spell_workers, with_pm
from edgetrain.units import MS_PER_S, spell, spell_bytes, spell_seconds

COLOURS = {"fetch_stall_s": "stall", "copy_s": "copy", "compute_s": "compute", "overhead_s": "overhead"}
CAUSE_COLOURS = {
    "blocked_s": "blocked",
    "preprocess_s": "preprocess",
    "contention_s": "contention",
    "handover_s": "handover",
}
CACHE_WORDS = {"keep": "cache kept"}  # cold and warm say it themselves
MOST_BARS = 60  # epochs drawn in one picture


def write_page(documents: Sequence[Mapping[str, Any]], path: Path, title: str = "Where training time went") -> None:
    """Write the page for these runs (documents as `Digest.document()` gives them)."""
    path.write_text(build_page(documents, title), encoding="utf-8")


def build_page(documents: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("edgetrain.report", "page"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "seconds": spell_seconds,
        "bytes": spell_bytes,
        "share": _share,
        "number": spell,
        "ms": _spell_ms,
    }
    return environment.get_template("page.html.j2").render(
        title=title,
        version=__version__,
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        machine=_machine(documents),
        groups=[_group(name, runs) for name, runs in _by_network(documents).items()],
        origins=sorted({str(document.get("origin")) for document in documents}),
        count=len(documents),
        parts=[(COLOURS[name], label) for name, label, _ in PARTS],
        causes=[(CAUSE_COLOURS[name], label) for name, label in CAUSES],
    )


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _spell_ms(milliseconds: float | None) -> str:
    return spell_seconds(None if milliseconds is None else milliseconds / MS_PER_S)


def _by_network(documents: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        groups.setdefault(str((document.get("workload") or {}).get("network") or "run"), []).append(document)
    return groups


def _machine(documents: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    device: Mapping[str, Any] = next((document["device"] for document in documents if document.get("device")), {})
    facts = [
        ("device", device.get("model") or device.get("name")),
        ("GPU", device.get("gpu")),
        ("cores", device.get("cores")),
        ("memory", spell_bytes(device.get("ram_bytes")) if device.get("ram_bytes") else None),
        ("kernel", device.get("kernel")),
        ("torch", device.get("torch")),
        ("JetPack", device.get("jetpack")),
    ]
    return [(name, str(value)) for name, value in facts if value]


def _place(document: Mapping[str, Any]) -> tuple[str, int]:
    """Order settings as people read them: by factors, cache state, then workers."""
    loading = document.get("loading") or {}
    return f"{_factors(document.get('factors'))} {loading.get('cache')}", loading.get("workers") or 0


def _group(name: str, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    documents = sorted(documents, key=_place)
    rows = [_row(document) for document in documents]
    settings = Counter(row["setting"] for row in rows)
    for row in rows:
        if settings[row["setting"]] > 1:
            # The end of the id, by which `show` finds the run.
            row["setting"] += f", run {str(row['run'])[-4:]}"
    bars: list[Bar] = []
    reasons: list[Bar] = []
    for row, document in zip(rows, documents, strict=True):
        for epoch in document["epochs"]:
            label = f"{row['setting']}, epoch {epoch['epoch']}"
            count = max(epoch["minibatches"], 1)
            # Per minibatch, so that epochs of different length stand side by side.
            values = [(COLOURS[part], 1e3 * (epoch[part] or 0.0) / count) for part, _, _ in PARTS]
            bars.append(Bar(label, values, spell_seconds(epoch["e2e_s"] / count)))
        known = [epoch for epoch in document["epochs"] if epoch["stall_by"]]
        total = sum(epoch["fetch_stall_s"] for epoch in known)
        minibatches = max(sum(epoch["minibatches"] for epoch in known), 1)
        if total > 0:
            split = [
                (CAUSE_COLOURS[cause], 1e3 * sum(epoch["stall_by"][cause] for epoch in known) / minibatches)
                for cause, _ in CAUSES
            ]
            reasons.append(Bar(row["setting"], split, spell_seconds(total / minibatches)))
    return {
        "name": name,
        "rows": rows,
        "times": stacked_bars(bars[:MOST_BARS], "ms a minibatch") if bars else "",
        "reasons": stacked_bars(reasons[:MOST_BARS], "ms of stall a minibatch") if reasons else "",
        "cut": max(0, len(bars) - MOST_BARS),
        "verdict": _verdict(rows),
        "doubts": _doubts(rows),
    }


def _doubts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return each doubt once, with the settings it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        for doubt in row["doubts"]:
            about.setdefault(doubt["text"], []).append(row["setting"])
    everywhere = len(rows) if len(rows) > 1 else 0
    return [("every run" if len(named) == everywhere else "; ".join(named), text) for text, named in about.items()]


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    epochs: Sequence[Mapping[str, Any]] = document["epochs"]
    loading, workload = document.get("loading") or {}, document.get("workload") or {}
    e2e = sum(epoch["e2e_s"] for epoch in epochs)
    stall = sum(epoch["fetch_stall_s"] for epoch in epochs)
    joules = [epoch["energy_j"] for epoch in epochs]
    errors = [epoch["energy_pm_j"] or 0.0 for epoch in epochs]
    known = bool(joules) and all(value is not None for value in joules)
    setting = ", ".join(
        text
        for text in (
            spell_workers(loading.get("workers")),
            CACHE_WORDS.get(str(loading.get("cache")), str(loading.get("cache") or "")),
            f"batch {workload['batch_size']}" if workload.get("batch_size") not in (None, 16) else "",
            _factors(document.get("factors")),
        )
        if text
    )
    return {
        "run": document["run"],
        "origin": document.get("origin"),
        "batch_size": workload.get("batch_size"),
        "setting": setting or document["run"],
        "epochs": epochs,
        "minibatches": sum(epoch["minibatches"] for epoch in epochs),
        "e2e_s": e2e if epochs else None,
        "stall_share": stall / e2e if e2e else None,
        "median_ms": document["minibatch"]["median_ms"],
        "p99_ms": document["minibatch"]["p99_ms"],
        "power_w": document["power_w"]["mean"],
        "energy": with_pm(sum(joules), sum(error**2 for error in errors) ** 0.5, "J") if known else "–",
        "energy_reason": document.get("energy_reason"),
        "overhead_pct": document.get("overhead_pct"),
        "doubts": document.get("doubts") or [],
        "state": document.get("state"),
    }


def _factors(factors: Mapping[str, Any] | None) -> str:
    shown = {key: value for key, value in (factors or {}).items() if key not in ("workers", "cache", "network")}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence on what the runs of a network show, from medians, without calling luck a finding."""
    known = [row for row in rows if row["median_ms"] and row["stall_share"] is not None]
    if len(known) < 2 or len({row["batch_size"] for row in known}) > 1:
        return ""
    best = min(known, key=lambda row: row["median_ms"])
    worst = max(known, key=lambda row: row["median_ms"])
    gain = worst["median_ms"] / best["median_ms"]
    if gain < 1.05:
        return "No setting tried here changes the time of a minibatch by more than 5 %."
    return (
        f"The fastest setting tried here ({best['setting']}) takes {_spell_ms(best['median_ms'])} a minibatch, "
        f"{gain:.2g} times less than the slowest ({worst['setting']}, {worst['stall_share']:.0%} of its time stalled). "
        "These are single runs: repeat them before you rely on small differences."
    )
