"""Loader workers against a fast GPU: MobileNetV3 and ResNet-18, workers 0 to 8, on 3,000 JPEG files, cold and warm.

    PYTHONPATH=src python3 benchmarks/h200.py --markdown docs/results/h200.md
    PYTHONPATH=src python3 benchmarks/h200.py --quick --compute paced --compute-ms 30     # to try the script

One run a setting, two epochs: the first begins with the files dropped from the page cache, the second finds them
there; the share that was cached stands beside the times. Runs are carried out in an order drawn from the seed, so that
a drift of the machine is not taken for the workers'. With `--energy-s`, our integral of sampled power against the
device's counter, and a run with injected stalls whose energy must split into parts that add up (benchmarks/energy.py
judges both).
Needs torch, numpy, Pillow and PyYAML; nothing of the command line.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetrain.analysis import EpochSummary, Summary, summarize
from edgetrain.device import open_device
from edgetrain.errors import EdgetrainError
from edgetrain.record import FolderStore
from edgetrain.runner import execute
from edgetrain.schema import Experiment, Loading, Workload
from edgetrain.workload import DatasetRecipe, generate_dataset

HERE = Path(__file__).resolve().parent
NETWORKS = ("mobilenet_v3", "resnet18")
WORKERS = (0, 1, 2, 4, 8)
CAUSES = {
    "blocked_s": "blocked",
    "preprocess_s": "pre-processing",
    "contention_s": "contention",
    "handover_s": "hand-over",
}
PACE = 12  # minibatches of the run that finds how long the whole will take
START_S = 8.0  # of a run besides its minibatches: torch's import, CUDA, sampler, settling; a guess on the safe side


def say(text: str) -> None:
    """Tell where we are."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def experiment(network: str, dataset: Path, workers: int, options: argparse.Namespace, cap: int | None) -> Experiment:
    """Return one setting of the matrix."""
    return Experiment(
        Workload(network, dataset=str(dataset), classes=1000, batch_size=options.batch_size),
        Loading(workers=workers, cache="cold", pin_memory=options.compute in ("auto", "cuda")),
        epochs=2,
        minibatches=cap,
        compute=options.compute,
        compute_ms=options.compute_ms,
        timing=options.timing,
        seed=options.seed,
        baseload_s=options.baseload_s,
        factors={"network": network, "workers": workers},
    )


def affordable(step_s: float, settings: Sequence[tuple[str, int]], options: argparse.Namespace) -> int | None:
    """Return a cap of minibatches per epoch where the matrix would outlast its budget; None where it does not."""
    full = -(-options.files // options.batch_size)
    # Without workers a minibatch takes what was seen; with them at best that over their number.
    per_minibatch_s = sum(step_s / max(1, min(workers, os.cpu_count() or 1)) for _, workers in settings)
    left_s = options.budget_s - len(settings) * START_S
    fits = int(left_s / (2 * per_minibatch_s))
    return None if fits >= full else max(fits, 8)


def row(summary: Summary, epoch: EpochSummary) -> str:
    """Return one line of the table: per minibatch, so that settings compare."""
    count, stall_s = epoch.minibatches, epoch.fetch_stall_s

    def ms(seconds: float | None) -> str:
        return "–" if seconds is None else f"{1e3 * seconds / count:.2f}"

    causes = epoch.stall_by
    cause = "–" if causes is None else CAUSES[max(CAUSES, key=lambda name: float(getattr(causes, name)))]
    before, read = epoch.cached_share_before, epoch.read_bytes
    rate = (summary.workload.batch_size or 0) * count / epoch.e2e_s
    parts_s = (epoch.e2e_s, stall_s, epoch.copy_s, epoch.compute_s, epoch.overhead_s, epoch.hidden_wait_s)
    cells = [
        str(summary.workload.network),
        str(summary.loading.workers if summary.loading else None),
        "cold" if epoch.epoch == 0 else "warm",
        str(count),
        *(ms(seconds) for seconds in parts_s),
        "–" if stall_s is None else f"{stall_s / epoch.e2e_s:.0%}",
        cause,
        f"{rate:.0f}",
        "–" if before is None else f"{before:.0%}",
        "–" if read is None else f"{read / 1e6:.0f}",
        "–" if epoch.energy_j is None else f"{epoch.energy_j:.0f} ± {epoch.energy_pm_j:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = (
    "| network | workers | cache | minibatches | end to end ms | fetch stall ms | copy ms | compute ms | overhead ms | "
    "hidden wait ms | stalled | mostly | images/s | cached before | read MB | energy J |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def matrix(store: FolderStore, dataset: Path, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Run every setting; return the table's rows and what there is to say about them."""
    settings = [(network, workers) for network in options.networks for workers in options.workers]
    pace = experiment(settings[0][0], dataset, 0, options, PACE)
    first = summarize(store.open(execute(pace, "auto", store).run))
    step_s = (first.minibatch.median_ms or 0.0) / 1e3
    cap = options.minibatches or affordable(step_s, settings, options)
    say(f"about {1e3 * step_s:.0f} ms per minibatch without workers; cap {cap or 'none'}")
    random.Random(options.seed).shuffle(settings)
    found: dict[tuple[str, int], Summary] = {}
    notes: list[str] = [] if cap is None else [f"Epochs are cut at {cap} minibatches to fit the machine's time."]
    for network, workers in settings:
        try:
            name = execute(experiment(network, dataset, workers, options, cap), "auto", store).run
        except EdgetrainError as error:
            notes.append(f"{network} with {workers} workers failed: {error}")
            say(notes[-1])
            continue
        summary = summarize(store.open(name))
        found[network, workers] = summary
        parts = " / ".join(f"{epoch.e2e_s:.1f} s" for epoch in summary.epochs)
        say(f"{network}, {workers} workers: {parts}")
    rows = [row(found[key], epoch) for key in sorted(found) for epoch in found[key].epochs]
    overheads = [each.overhead_pct for each in found.values() if each.overhead_pct is not None]
    if overheads:
        notes.append(f"The tool's own cost, as each run measured it: {min(overheads):.2g} to {max(overheads):.2g} %.")
    doubts = sorted({doubt.kind for each in found.values() for doubt in each.doubts})
    notes.append(f"Doubts of these runs: {', '.join(doubts) or 'none'}.")
    origins = sorted({str(each.origin) for each in found.values()})
    for one in list(found.values())[:1]:
        name = (one.compute.name if one.compute else None) or one.device.gpu or one.device.model
        notes.insert(
            0,
            f"Machine: {name}, {one.device.cores} cores, kernel {one.device.kernel}, torch {one.device.torch}. "
            f"Origin: {', '.join(origins)}.",
        )
    return rows, notes


def energy_check(store: FolderStore, options: argparse.Namespace) -> list[str]:
    """Compare integral and counter, and split injected stalls off; lines of Markdown."""
    if open_device().total_power() is None:
        return ["", "Energy was not checked: this machine has no power sensor that can be read."]
    sys.path.insert(0, str(HERE))
    os.environ["PYTHONPATH"] = f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    import energy

    def train(name: str, minibatches: int, workers: int, baseload_s: float) -> str:
        asked = Experiment(
            Workload(f"energy_workload:{name}"),
            Loading(workers=workers),
            epochs=1,
            minibatches=minibatches,
            compute=options.compute,
            baseload_s=baseload_s,
        )
        return execute(asked, "auto", store).run

    seconds = options.energy_s
    try:
        return _energy_lines(store, energy, train, seconds)
    except (EdgetrainError, SystemExit) as error:
        return ["", f"Energy was not checked: {error}"]


def _energy_lines(store: FolderStore, energy: Any, train: Any, seconds: float) -> list[str]:
    first = summarize(store.open(train("steady", energy.CALIBRATION, 4, 0)))
    step_s = (first.minibatch.mean_ms or 0.0) / 1e3
    lines, close = energy.against_counter(store.open(train("steady", int(seconds * 1.1 / step_s), 4, 5)))
    paced = summarize(store.open(train("paced", int(seconds * 0.4 / step_s), 0, 10)))
    parts, adds_up = energy.split(paced)
    return [
        "",
        f"## Energy over {seconds:g} s of ResNet-18",
        "",
        "| reading | integral | counter | difference | refreshes |",
        "|---|---|---|---|---|",
        *lines,
        "",
        f"Integral within 2 % of the counter and its ± at most 3 %: {'yes' if close else 'NO'}.",
        "",
        "With injected stalls:",
        "",
        *parts,
        "",
        f"The parts add up to the total within ±: {'yes' if adds_up else 'NO'}.",
    ]


def read_options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--workers", nargs="+", type=int, default=list(WORKERS))
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--minibatches", type=int, help="most minibatches per epoch")
    parser.add_argument("--compute", default="auto")
    parser.add_argument("--compute-ms", type=float, help="with --compute paced")
    parser.add_argument("--timing", default="async")
    parser.add_argument("--baseload-s", type=float, default=0.0)
    parser.add_argument(
        "--energy-s", type=float, default=0.0, help="also check energy over this many seconds of training"
    )
    parser.add_argument("--skip-matrix", action="store_true", help="energy alone")
    parser.add_argument("--budget-s", type=float, default=400.0, help="of the matrix; epochs are cut to fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where files and records go; a temporary folder where left out")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--quick", action="store_true", help="64 files, workers 0 and 2")
    options = parser.parse_args(argv)
    if options.quick:
        options.files, options.workers, options.minibatches = 64, [0, 2], options.minibatches or 2
    return options


def main() -> int:
    """Generate, run, write."""
    options = read_options()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        store = FolderStore(Path(folder) / "store")
        rows: list[str] = []
        notes: list[str] = []
        if not options.skip_matrix:
            what = DatasetRecipe("gld", options.files, options.seed)
            dataset = generate_dataset(store.data / what.folder, what)
            say(f"{options.files} JPEG files in {time.monotonic() - began_s:.1f} s")
            rows, notes = matrix(store, dataset, options)
            write(page(rows, notes, options, began_s), options.markdown)
        if options.energy_s:
            lines = energy_check(store, options)
            text = "\n".join(lines) if options.skip_matrix else page(rows, [*notes, *lines], options, began_s)
            write(text, options.markdown)
            print("\n".join(lines))
    return 0 if rows or options.skip_matrix else 1


def page(rows: Sequence[str], notes: Sequence[str], options: argparse.Namespace, began_s: float) -> str:
    """Return the results as Markdown."""
    # Where the page and the scratch files went is nobody's business.
    words = iter(sys.argv[1:])
    kept = [word for word in words if word not in ("--markdown", "--scratch") or not next(words, None)]
    command = " ".join(["PYTHONPATH=src", "python3", "benchmarks/h200.py", *kept])
    lines = [
        "# Loader workers against a fast GPU",
        "",
        f"`{command}`, {time.strftime('%Y-%m-%d', time.gmtime())}, {time.monotonic() - began_s:.0f} s.",
        "",
        f"{options.files} generated JPEG files of 800x600 and about 122 kB, batch {options.batch_size}, "
        f"{options.timing} timing. One run a setting, two epochs, the files dropped from the page cache before the "
        f"first. Times are means a minibatch; stall, copy, compute and overhead add up to end to end.",
        "",
        HEADER,
        *rows,
        "",
        *notes,
        "",
    ]
    return "\n".join(lines)


def write(text: str, path: Path | None) -> None:
    """Print the page, or keep it; called again with more, so that what is done survives what comes after."""
    if path is None:
        print(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    say(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
