"""What sampling costs on a board's registers, and how long a campaign over 40 modes takes from plan to report.

    python benchmarks/boards.py [--quick] [-o docs/results/boards.md]

Run it on a quiet machine. Everything is on simulated boards: `sim:orin-agx+live` for the sampler, whose registers take
their 0.55 ms each, and virtual time for the campaign.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.device import open_simulated
from edgetrain.units import spell

MAX_WALL, MAX_CPU, MAX_CAMPAIGN_S = 0.02, 0.01, 60.0
BOARDS = ("orin-agx", "orin-nano", "xavier-agx", "xavier-nx", "nano")


def sampler(board: str, folder: Path, seconds: float) -> dict[str, float]:
    """Run the sampler beside a process that sleeps; return its own account."""
    root, run = folder / board, folder / f"run-{board}"
    open_simulated(board, root)
    run.mkdir()
    watched = subprocess.Popen(["sleep", str(seconds)])
    command = [sys.executable, "-m", "edgetrain.sampling", "--run", str(run), "--device", f"sim:{board}+live@{root}"]
    subprocess.run([*command, "--watch-pid", str(watched.pid)], check=True)
    watched.wait()
    account: dict[str, float] = json.loads((run / "sampler.json").read_text())
    return account


def campaign(folder: Path, modes: int) -> tuple[float, int, Path]:
    """Carry out a campaign over modes of ResNet-18 on Orin AGX and write its report; return the wall time."""
    space = open_simulated("orin-agx", folder / "campaign-board").modes()
    assert space is not None
    draw = random.Random(4)
    chosen = set()
    while len(chosen) < modes:
        mode = (
            draw.choice(space.cores[1:]),
            *(draw.choice(table) / 1e6 for table in (space.cpu_hz[3:], space.gpu_hz, space.emc_hz)),
        )
        chosen.add("/".join(f"{part:g}" for part in mode))
    plan = folder / "plan.yaml"
    plan.write_text(
        "name: modes\nnetwork: resnet18\nworkers: 4\nepochs: 1\nminibatches: 60\nfactors:\n  power_mode:\n"
        + "".join(f"    - {mode}\n" for mode in sorted(chosen))
    )
    store, page = folder / "store", folder / "report.html"
    device = f"sim:orin-agx@{folder / 'campaign-board'}"
    # A lock of its own: a simulated campaign measures nothing of this machine.
    environment = {**os.environ, "EDGETRAIN_STORE": str(store), "EDGETRAIN_CAMPAIGN_LOCK": str(folder)}
    ours = [sys.executable, "-m", "edgetrain"]
    began = time.monotonic()
    subprocess.run([*ours, "campaign", str(plan), "--device", device], check=True, env=environment, capture_output=True)
    listed = subprocess.run([*ours, "ls", "--json"], check=True, env=environment, capture_output=True, text=True)
    runs = json.loads(listed.stdout)["runs"]
    subprocess.run(
        [*ours, "report", "--campaign", runs[0]["campaign"], "-o", str(page)],
        check=True,
        env=environment,
        capture_output=True,
    )
    return time.monotonic() - began, len([run for run in runs if run["state"] == "finished"]), page


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="one board, few seconds")
    arguments.add_argument("-o", type=Path, help="write the results here")
    options = arguments.parse_args()
    load = os.getloadavg()[0]
    lines = [
        "| board | rails read every | wall share of reading (≤ 2 %) | CPU of one core (≤ 1 %) | readings missed |",
        "|---|---|---|---|---|",
    ]
    fine = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for board in BOARDS[:1] if options.quick else BOARDS:
            account = sampler(board, folder, 10 if options.quick else 60)
            wall, cpu = float(account["read_wall_share"]), float(account["cpu_share"])
            reads = account["per_probe"]["rails"]["reads"]  # type: ignore[index]
            fine &= wall <= MAX_WALL and cpu <= MAX_CPU
            lines.append(
                f"| {board} | {account['wall_s'] / reads:.2f} s | {wall:.2%} | {cpu:.2%} | {account['missed']} |"
            )
        count = 8 if options.quick else 40
        seconds, finished, page = campaign(folder, count)
        fine &= seconds <= MAX_CAMPAIGN_S and finished == count
        lines.append(
            f"| campaign | {finished} of {count} modes of `sim:orin-agx`, ResNet-18, 60 minibatches each, from plan to "
            f"a page of {page.stat().st_size / 1e3:.0f} kB: {spell(seconds, 's')} (≤ 60 s) | | | |"
        )
    verdict = "All limits hold" if fine else "A limit does not hold"
    head = [
        "# Sampling and campaigns on boards",
        "",
        f"**{verdict} on simulated boards; no real board was used.**",
        "",
        "Reading a register takes 0.55 ms; the campaign runs in virtual time.",
        "",
    ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start"
    command = "`python benchmarks/boards.py -o docs/results/boards.md`"
    foot = ["", f"{command}, {datetime.date.today()}, {machine}. Origin: simulated.", ""]
    lines = [*head, *lines, *foot]
    text = "\n".join(lines)
    print(text)
    if options.o:
        options.o.write_text(text)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
