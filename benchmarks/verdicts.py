"""Whether `edgetrain diagnose` names the cause: runs the cases of benchmarks/verdicts.yaml and compares.

    python benchmarks/verdicts.py [--device-set here|cuda] [--only ID] [--again] [-o docs/results/diagnose.md]

Cases that need a GPU are left out unless --device-set cuda asks for them alone. Cases with storage limits need root.
What was measured is kept in --store and judged again without measuring, unless --again. A case during which other
programs took more than 15 % of the cores is measured again, except where the case itself runs them. On a quiet machine
it takes ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from whatif_campaign import ATTEMPTS, MAX_OTHER_LOAD, other_load, say, wait_until_quiet

from edgetrain.api import diagnose, execute, make_dataset
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import FolderStore

HERE = Path(__file__).parent
NOT_SETTINGS = ("id", "after", "verdict", "case", "needs", "hogs", "step_ms", "network", "pictures", "device")
PICTURES_SCALE = 0.025
FILES = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: what was expected and what was said."""

    id: str
    expected: tuple[str, ...]
    found: str
    shares: dict[str, float]
    top: str
    after: bool = False  # written when the rules existed

    @property
    def right(self) -> bool:
        """Whether exactly the expected causes are named."""
        return set(self.found.split(" + ")) == set(self.expected)


@contextlib.contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Keep this process and its children on this number of equal cores; the lab would put the training first."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[: count or len(before)])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Run processes that compute, beside the training.

    Each has a session of its own: the kernel divides the cores between sessions before processes (sched_autogroup).
    """
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    processes = [subprocess.Popen(spin, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def dataset_of(about: dict[str, Any], store: FolderStore) -> str | None:
    """Return the folder of a case's files, made on first use."""
    case = about.get("case", {})
    if case.get("pictures") or about.get("pictures"):
        folder = store.path / "pictures"
        if not folder.exists():
            make_dataset("mobilenet_v3", PICTURES_SCALE, output=folder)
        return str(folder)
    if case.get("files"):
        folder = store.path / f"files-{case['files']}"
        if not folder.exists():
            folder.mkdir(parents=True)
            random = np.random.default_rng(0)
            for index in range(FILES):
                (folder / f"{index:05d}.bin").write_bytes(random.bytes(case["files"] * 1024))
        return str(folder)
    return None


def measure(about: dict[str, Any], store: FolderStore) -> str:
    """Run one case; return the id of its run."""
    settings = {name: value for name, value in about.items() if name not in NOT_SETTINGS}
    settings.setdefault("epochs", 2)
    network = about.get("network", "verdict_workloads:case")
    case = dict(about.get("case", {}))
    if "step_ms" in about:
        settings.update(compute="paced", compute_ms=about["step_ms"])
    if about.get("minibatches"):
        case["samples"] = 16 * about["minibatches"]
        settings.pop("minibatches")
    if "device" in about:
        settings["dataset_scale"] = 0.1
    elif (folder := dataset_of(about, store)) is not None:
        settings["dataset"] = folder
    if settings.get("cache") == "warm" and "dataset" not in settings:
        settings.pop("cache")
    os.environ["EDGETRAIN_VERDICT_CASE"] = json.dumps(case)
    cores = settings.pop("cores", None) if about.get("hogs") else None
    with on_cores(cores), hogs(about.get("hogs", 0)):
        return execute(network, device=about.get("device", "auto"), store=store, **settings).id


def measure_quietly(about: dict[str, Any], store: FolderStore, quiet_wait_s: float) -> str:
    """Run one case while the machine is quiet, again where it did not stay so."""
    run = ""
    for _attempt in range(ATTEMPTS):
        if not wait_until_quiet(quiet_wait_s):
            raise UsageError(f"other programs keep this machine busy: {about['id']} was not measured; start again")
        run = measure(about, store)
        load = None if about.get("hogs") or "device" in about else other_load(store.open(run))
        if load is None or load < MAX_OTHER_LOAD:
            return run
        say(f"{about['id']}: {load:.0%} other load, measured again")
    raise UsageError(f"other programs kept this machine busy while {about['id']} ran; start again")


def judge(about: dict[str, Any], run: str, store: FolderStore) -> Outcome:
    """Diagnose the run of a case."""
    found = diagnose(run, store=store)
    shares = {cause: round(share, 3) for cause, share in found.shares.items()}
    top = f"{found.remedies[0].change}: {found.remedies[0].gain_pct:+.0f} %" if found.remedies else "–"
    return Outcome(about["id"], tuple(about["verdict"]), found.verdict, shares, top, about.get("after", False))


def table(outcomes: list[Outcome]) -> list[str]:
    """Return the outcomes as Markdown."""
    lines = [f"The cause is named correctly in {sum(each.right for each in outcomes)} of {len(outcomes)} cases."]
    before, after = ([each for each in outcomes if each.after is late] for late in (False, True))
    if after:
        lines += [
            f"Written before the rules: {sum(each.right for each in before)} of {len(before)}; after them, and run "
            f"without changing them: {sum(each.right for each in after)} of {len(after)} (marked *)."
        ]
    lines.append("")
    lines += ["| case | cause | diagnosed | right | share of the time | best remedy |", "|---|---|---|---|---|---|"]
    for each in outcomes:
        shares = ", ".join(
            f"{cause} {share:.0%}" for cause, share in sorted(each.shares.items(), key=lambda x: -x[1])[:3]
        )
        mark = "yes" if each.right else "**no**"
        case = f"{each.id} *" if each.after else each.id
        lines.append(f"| {case} | {' + '.join(each.expected)} | {each.found} | {mark} | {shares} | {each.top} |")
    return lines


def main() -> int:
    """Run, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-set", default="here", choices=("here", "cuda"))
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true", help="measure even what was measured before")
    parser.add_argument("--quiet-wait-s", type=float, default=1800.0)
    parser.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "edgetrain-verdicts")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.store.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("EDGETRAIN_SIM_HOME", str(options.store / "sim"))
    store, kept_at = FolderStore(options.store), options.store / f"cases-{options.device_set}.json"
    kept: dict[str, str] = json.loads(kept_at.read_text()) if kept_at.exists() else {}
    outcomes = []
    for about in yaml.safe_load((HERE / "verdicts.yaml").read_text())["cases"]:
        if (about.get("needs") == "cuda") != (options.device_set == "cuda") or not about["id"].startswith(options.only):
            continue
        try:
            if options.again or about["id"] not in kept:
                kept[about["id"]] = measure_quietly(about, store, options.quiet_wait_s)
                kept_at.write_text(json.dumps(kept, indent=1))
            outcomes.append(judge(about, kept[about["id"]], store))
            each = outcomes[-1]
            print(
                f"{each.id}: {each.found} {'right' if each.right else 'WRONG'} {each.shares}",
                file=sys.stderr,
                flush=True,
            )
        except EdgetrainError as error:
            print(f"{about['id']}: {error}", file=sys.stderr, flush=True)
            expected, after = tuple(about["verdict"]), about.get("after", False)
            outcomes.append(Outcome(about["id"], expected, f"failed: {error}", {}, "–", after))
    lines = table(outcomes)
    lines += ["", f"`python benchmarks/verdicts.py --device-set {options.device_set}`, {time.strftime('%Y-%m-%d')}"]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text("# Diagnosis\n\n" + text)
    return 0 if sum(each.right for each in outcomes) >= 0.9 * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
