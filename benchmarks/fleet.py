"""A campaign on 20 simulated boards while workers and the scheduler are killed; what an idle worker and a task cost.

    python benchmarks/fleet.py [--boards 20] [--runs 400] [--worker-kills 10] [--scheduler-kills 2] [--seed 20]
    python benchmarks/fleet.py --only campaign|costs|hosts

Needs the extra `fleet`; about 12 minutes on two cores. Raises where a promise does not hold: every planned run recorded
exactly once, none damaged, every board back in its original state, no process left. `hosts` needs root and sshd: four
hosts in network namespaces over ssh and TLS, one cut off and brought back (tests/fleet/test_namespaces.py).
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.fleet import SCHEDULER, Fleet, local_inventory
from edgetrain.fleet.board_work import device_there

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
torture = importlib.import_module("tests.torture.fleet")

TASKS = 1000
IDLE_S = 60.0


def measure_costs(folder: Path, boards: int) -> str:
    """Return how long 1,000 tasks without work take, and the share of a core that an idle worker takes."""
    from distributed import Client
    from distributed.security import Security

    fleet = Fleet(local_inventory((torture.KIND,) * boards), folder)
    fleet.up(keep=True)
    try:
        tls = fleet.tls()
        security = Security(
            tls_ca_file=str(tls.ca), tls_client_cert=str(tls.cert), tls_client_key=str(tls.key), require_encryption=True
        )
        with Client(fleet.address, security=security, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(boards, timeout=120)
            began_s = time.monotonic()
            futures = [
                client.submit(device_there, "/x", str(at), key=f"no-op-{at}", resources={"board": 1}, pure=False)
                for at in range(TASKS)
            ]
            client.gather(futures)
            took_s = time.monotonic() - began_s
        time.sleep(5)
        workers = [ids.command for name, ids in fleet.pids().items() if name != SCHEDULER and ids.command is not None]
        before = [cpu_s(pid) for pid in workers]
        time.sleep(IDLE_S)
        shares = sorted((cpu_s(pid) - was) / IDLE_S for pid, was in zip(workers, before, strict=True))
    finally:
        fleet.down()
    return (
        f"{TASKS} tasks without work over {boards} workers: {took_s:.1f} s; an idle worker takes "
        f"{shares[len(shares) // 2]:.2%} of a core (median of {boards} over {IDLE_S:.0f} s; most {shares[-1]:.2%})"
    )


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Run what was asked for and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("campaign", "costs", "hosts"))
    parser.add_argument("--boards", type=int, default=torture.BOARDS)
    parser.add_argument("--runs", type=int, default=torture.FULL)
    parser.add_argument("--worker-kills", type=int, default=torture.WORKER_KILLS)
    parser.add_argument("--scheduler-kills", type=int, default=torture.SCHEDULER_KILLS)
    parser.add_argument("--seed", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgetrain-fleet-") as folder:
        if asked.only in (None, "campaign"):
            kills = (asked.worker_kills, asked.scheduler_kills)
            print(torture.disturb(Path(folder), asked.boards, asked.runs, *kills, asked.seed), flush=True)
        if asked.only in (None, "costs"):
            print(measure_costs(Path(folder) / "costs", asked.boards), flush=True)
    if asked.only in (None, "hosts"):
        command = [sys.executable, "-m", "pytest", "-v", "-rs", "tests/fleet/test_namespaces.py"]
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, "EDGETRAIN_SLOW_TESTS": "1"}, check=False
        ).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
