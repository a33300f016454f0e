"""How wrong what-if answers are: runs benchmarks/whatif.yaml, predicts each setting from its bases, and compares.

    python benchmarks/whatif.py [--device-set lab|h200] [--measure|--score] [--store FOLDER] [-o docs/results/whatif.md]

Without --measure or --score it does both. Measuring resumes where it was stopped; the lab's half needs root and a quiet
machine for about an hour. The H200's half stops by itself after --budget-s (440 s); two such calls make its three
rounds. It needs torch, numpy, Pillow, PyYAML, msgspec, rich, typer and jinja2 there, and root for the settings with
fewer cores. It can be scored elsewhere: copy the store, without its `data` folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from whatif_campaign import QUIET_FOR_S, Journal, measure, read_settings
from whatif_score import details, judgement, markdown, score, truth_of

from edgetrain.analysis import summarize
from edgetrain.record import FolderStore

TITLE = {
    "lab": "# What-if in the lab: predicted against measured",
    "h200": "# What-if on an H200: predicted against measured",
}
EXPLAINED = (
    "Error of the end-to-end time per epoch in %, median / 90th percentile, over every repeat of every base and every "
    "other setting of its family, first and later epochs apart. *Nothing changes*: the base's time per sample. *Three "
    "rates*: samples / min(storage, pre-processing x min(workers, cores), compute), hits = cached share. Bias is the "
    "median signed error; *stall right*: within 20 %, or within 2 % of the epoch; *covered*: inside the 90 % interval, "
    "which contains the spread between the three runs of the base, as `whatif` finds them in a store."
)
NAMES = (
    "Names: workload (P: pictures, a paced step of 30 ms; L: digits, a paced step of 3 ms; C: pictures, a step on the "
    "CPU; G: pictures, and S: digits, on the GPU), loader workers, then warm page cache or medium, then what else "
    "changes (b32: batch size; half, most: share of the dataset that the page cache holds; x2: twice the data; pin: "
    "page-locked memory). `P-w1-sd -8`: predicted from the base P-w1-sd, 8 % too low. Bases belong to neither half; a "
    "base that is the only one of its family is not predicted."
)


def main() -> int:
    """Measure, score, or both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-set", default="lab", choices=("lab", "h200"))
    parser.add_argument("--measure", action="store_true", help="measure only")
    parser.add_argument("--score", action="store_true", help="score what was measured")
    parser.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "edgetrain-whatif")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget-s", type=float, help="stop after so long; 440 s for the H200")
    parser.add_argument("--quiet-wait-s", type=float, default=3600.0)
    parser.add_argument("--only", default="", help="settings whose id begins so")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.budget_s is None and options.device_set == "h200":
        options.budget_s = 440.0
    settings = [each for each in read_settings(options.device_set) if each.id.startswith(options.only)]
    store = FolderStore(options.store)
    options.store.mkdir(parents=True, exist_ok=True)
    journal = Journal(options.store / f"journal-{options.device_set}.jsonl")
    if not options.score:
        quiet_for_s = QUIET_FOR_S if options.device_set == "lab" else 0.3  # nobody else uses the other machine
        complete = measure(
            settings, store, journal, options.repeats, options.budget_s, options.quiet_wait_s, quiet_for_s
        )
        if options.measure:
            return 0 if complete else 1
    recorded = journal.read()
    found = score(settings, recorded, store)
    unprobed = score(settings, recorded, store, without_probe=True)
    alone = score(settings, recorded, store, with_repeats=False)
    runs = {each.id: [summarize(store.open(one.run)) for one in recorded if one.id == each.id] for each in settings}
    truths = {name: truth_of(made) for name, made in runs.items() if made}
    lines = [
        TITLE[options.device_set],
        "",
        *judgement(found, truths),
        "",
        EXPLAINED,
        "",
        *markdown(found, unprobed, alone),
    ]
    lines += ["", NAMES, "", *details(found, settings, truths), ""]
    lines.append(f"`python benchmarks/whatif.py --device-set {options.device_set}`, {time.strftime('%Y-%m-%d')}")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
