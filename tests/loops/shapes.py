"""Shapes of training loops that must be measured right: scripts with a stopwatch of their own, and what to expect."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
# Doubts about the machine, not about the loop.
OF_THE_MACHINE = {"other_load", "steal", "sampler_fell_behind", "sensor", "lost_samples"}
WITHIN, WITHIN_S = 0.05, 0.010  # of the stopwatch's figure, or this number of seconds per epoch
PARTS = ("fetch_stall_s", "copy_s", "compute_s", "overhead_s")


@dataclass(frozen=True)
class Shape:
    """One script, and what its record must say besides the stopwatch's figures."""

    name: str
    script: str = ""
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()  # put before the script, instead of Python
    doubts: frozenset[str] = frozenset()
    stall: bool = True  # the stall can be known
    needs: tuple[str, ...] = ()  # modules
    status: int = 0
    processes: int = 1
    lost_s: float = 0.0  # of the loop, at most this much is missing

    @property
    def command(self) -> list[str]:
        """The command line."""
        script = str(SCRIPTS / f"{self.script or self.name}.py")
        return [*(self.launcher or (sys.executable,)), script, *self.arguments]

    def missing(self) -> str | None:
        """Return the first module that this shape needs and that is not installed."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), None)


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
HF, PL = ("transformers", "accelerate"), ("pytorch_lightning",)
SHAPES = (
    Shape("plain"),
    Shape("plain_own"),
    Shape("two_workers"),
    Shape("spawn"),
    Shape("persistent"),
    Shape("iterable"),
    Shape("batch_sampler"),
    Shape("in_order_false"),
    Shape("pin_memory"),
    Shape("zip_two"),
    Shape("zip_unequal"),
    Shape("zip_same"),
    Shape("zip_skipped"),
    Shape("two_next"),
    Shape("two_next_one_loader"),
    Shape("two_next_generator"),
    Shape("alternating"),
    Shape("nested_negatives"),
    Shape("several_negatives"),
    Shape("nested_loops"),
    Shape("lookahead"),
    Shape("lookahead_by_hand"),
    Shape("lookahead_class"),
    Shape("fetch_in_step"),
    Shape("accelerated", needs=HF[1:]),
    Shape("accelerated_accumulation", needs=HF[1:]),
    Shape("hugging_face", arguments=("1", "25", "1"), needs=HF),
    Shape("hugging_face_accumulation", "hugging_face", ("4", "26", "1"), needs=HF),
    Shape("hugging_face_one_step", "hugging_face", ("8", "8", "0"), needs=HF),
    Shape("lightning", arguments=("1", "map"), needs=PL),
    Shape("lightning_accumulation", "lightning", ("3", "map"), needs=PL),
    Shape("lightning_iterable", "lightning", ("1", "iterable"), needs=PL),
    Shape("accumulate_steps"),
    Shape("accumulate_losses"),
    Shape("accumulate_list"),
    Shape("leftover_step"),
    Shape("skipped"),
    Shape("filtered"),
    Shape("skipped_first"),
    Shape("cycle", doubts=frozenset({"no_loader"})),
    Shape("next_iter"),
    Shape("next_iter_own"),
    Shape("next_iter_two"),
    Shape("forever"),
    Shape("restarted"),
    Shape("broken_off"),
    Shape("evaluation_after"),
    Shape("evaluation_inside"),
    Shape("one_function"),
    Shape("two_optimizers"),
    Shape("gan"),
    Shape("closure"),
    Shape("grad_scaler"),
    Shape("compiled"),
    Shape("repeated"),
    Shape("checkpointed"),
    Shape("manual_update"),
    Shape("phases"),
    Shape("no_loader", doubts=frozenset({"no_loader"}), stall=False),
    Shape("generator_only", doubts=frozenset({"no_loader"}), stall=False),
    Shape("generator_watched"),
    Shape("watched_pipeline"),
    Shape("thread", doubts=frozenset({"loader_in_another_thread"}), stall=False),
    Shape("torchrun", "ranks", launcher=TORCHRUN, processes=2),
    Shape("ddp", launcher=TORCHRUN, processes=2),
    Shape("mp_spawn", processes=2),
    Shape("forked", processes=2),
    Shape("os_exit"),
    Shape("killed", doubts=frozenset({"interrupted", "killed"}), status=137, lost_s=2.0),
    Shape("stopped", doubts=frozenset({"stopped"})),
    Shape("failing", doubts=frozenset({"failed"}), status=1),
    Shape("bad_samples"),
    Shape("warm_up"),
    Shape("peeked"),
    Shape("statistics_first"),
    Shape("new_loaders"),
    Shape("frozen_norm"),
    Shape("one_batch", doubts=frozenset({"no_loader"})),
    Shape("backward_each"),
    Shape("bad_losses"),
    Shape("evaluation_unmarked"),
    Shape("one_iterator"),
    Shape("left_early"),
    Shape("chained"),
    Shape("lookahead_generator"),
    Shape("statistics_process", processes=2),
    Shape("ddp_uneven", launcher=TORCHRUN, processes=2),
    Shape("compiled_step", doubts=frozenset({"steps_not_seen"})),
    Shape("interrupted", doubts=frozenset({"interrupted"}), status=130),
    Shape("watched_thread"),
)


@dataclass
class Outcome:
    """What the tool said of one script, beside the script's own figures."""

    shape: Shape
    document: dict[str, Any]
    stopwatches: list[dict[str, Any]]
    faults: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Return one line of a table: counts, loop seconds and waited seconds, ours and the script's."""
        ours = _figures(self.document["epochs"])
        slowest = max(self.stopwatches, key=lambda one: one["loop_s"])
        doubts = ", ".join(sorted(_kinds(self.document))) or "–"
        stall = "null" if ours["fetch_stall_s"] is None else f"{ours['fetch_stall_s']:.3f}"
        return (
            f"| {self.shape.name} | {ours['minibatches']} | {slowest['count']} | {ours['e2e_s']:.3f} | "
            f"{slowest['loop_s']:.3f} | {stall} | {slowest['waited_s']:.3f} | {doubts} | "
            f"{'; '.join(self.faults) or 'yes'} |"
        )


HEAD = (
    "| shape | minibatches | script's | loop s | script's | stall s | script's waited s | doubts | agrees |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def run_shape(shape: Shape) -> Outcome:
    """Profile one script and compare."""
    with tempfile.TemporaryDirectory(prefix="edgetrain-loops-") as store:
        command = [sys.executable, "-m", "edgetrain", "profile", "--json", "--store", store, "--", *shape.command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=store)
    # With --json the script's own output goes to stderr.
    lines = [line.partition("STOPWATCH ")[2] for line in done.stderr.splitlines() if "STOPWATCH " in line]
    assert done.stdout.strip().startswith("{") and lines, (
        f"{shape.name}: status {done.returncode}\n{done.stderr[-3000:]}"
    )
    outcome = Outcome(shape, json.loads(done.stdout), [json.loads(line) for line in lines])
    if done.returncode != shape.status:
        outcome.faults.append(f"status {done.returncode}, not {shape.status}")
    compare(outcome)
    return outcome


def compare(outcome: Outcome) -> None:
    """Note where the tool and the script disagree."""
    shape, document = outcome.shape, outcome.document
    faults = outcome.faults
    if _kinds(document) != set(shape.doubts):
        said = [doubt for doubt in document["doubts"] if doubt["kind"] not in OF_THE_MACHINE]
        faults.append(f"doubts {said}, not {sorted(shape.doubts)}")
    for epoch in document["epochs"]:
        if abs(sum(epoch[part] or 0.0 for part in PARTS) - epoch["e2e_s"]) > 1e-6:
            faults.append(f"the parts of epoch {epoch['epoch']} do not sum to its time")
    if len(document["processes"]) != shape.processes:
        faults.append(f"{len(document['processes'])} processes, not {shape.processes}")
        return
    slowest = max(outcome.stopwatches, key=lambda one: one["loop_s"])
    _compare_figures(shape, _figures(document["epochs"]), slowest, faults, "")
    by_pid = {process["pid"]: process for process in document["processes"]}
    for stopwatch in outcome.stopwatches:
        process = by_pid.get(stopwatch["pid"])
        if process is None:
            faults.append(f"process {stopwatch['pid']} is not in the record")
            continue
        if stopwatch.get("rank") != process["rank"] and "rank" in stopwatch:
            faults.append(f"rank {process['rank']}, not {stopwatch['rank']}")
        _compare_figures(shape, process, stopwatch, faults, f"process {process['rank']}: ")


def _compare_figures(
    shape: Shape, ours: dict[str, Any], stopwatch: dict[str, Any], faults: list[str], where: str
) -> None:
    lost = round(shape.lost_s / stopwatch["loop_s"] * stopwatch["count"])
    if not stopwatch["count"] - lost <= ours["minibatches"] <= stopwatch["count"]:
        faults.append(f"{where}{ours['minibatches']} minibatches, not {stopwatch['count']}")
    for name, theirs in (("trained", "trained"), ("optimizer_steps", "steps")):
        if theirs in stopwatch and ours[name] != stopwatch[theirs]:
            faults.append(f"{where}{name} {ours[name]}, not {stopwatch[theirs]}")
    slack_s = WITHIN_S * stopwatch["loops"] + shape.lost_s
    if abs(ours["e2e_s"] - stopwatch["loop_s"]) > max(WITHIN * stopwatch["loop_s"], slack_s):
        faults.append(f"{where}loop time {ours['e2e_s']:.3f} s, not {stopwatch['loop_s']:.3f}")
    if not shape.stall:
        if ours["fetch_stall_s"] is not None:
            faults.append(f"{where}a stall of {ours['fetch_stall_s']:.3f} s, which cannot be known")
        return
    if ours["fetch_stall_s"] is None:
        faults.append(f"{where}the stall is null")
    elif abs(ours["fetch_stall_s"] - stopwatch["waited_s"]) > max(WITHIN * stopwatch["waited_s"], slack_s):
        faults.append(f"{where}stall {ours['fetch_stall_s']:.3f} s, but waited {stopwatch['waited_s']:.3f}")
    if (ours["hidden_wait_s"] or 0.0) > 1e-6:
        faults.append(f"{where}{ours['hidden_wait_s']:.6f} s of hidden wait on a CPU")


def _figures(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return sums over epochs; None where no epoch has the figure."""
    found: dict[str, Any] = {}
    for name in ("minibatches", "trained", "optimizer_steps", "e2e_s", "fetch_stall_s", "hidden_wait_s"):
        known = [epoch[name] for epoch in epochs if epoch[name] is not None]
        found[name] = sum(known) if known else None
    return found


def _kinds(document: dict[str, Any]) -> set[str]:
    return {doubt["kind"] for doubt in document["doubts"]} - OF_THE_MACHINE
