"""What does sampling beside training cost? The sampler's own account, at its defaults, beside idle and busy cores.

    python benchmarks/telemetry.py --markdown docs/results/telemetry.md
    python benchmarks/telemetry.py --quick          # 10 s each
    python benchmarks/telemetry.py --device sim:orin-agx

The promise is at most 1 % of one core. CPU is the sampler process's own (all its threads, its start included), wall
clock from its first reading to its last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.units import spell_seconds

PROMISE = 0.01
SLEEP = "import time; time.sleep({seconds})"
# As many processes as a loader with two workers has, each busy all the time.
BUSY = """
import os, time
end = time.monotonic() + {seconds}
for _ in range(2):
    if os.fork() == 0: break
while time.monotonic() < end: pass
"""


def sample(code: str, seconds: float, device: str, dataset: Path) -> dict[str, object]:
    """Run something for so long with the sampler beside it; return the sampler's account."""
    with tempfile.TemporaryDirectory() as run:
        training = subprocess.Popen([sys.executable, "-c", code.format(seconds=seconds)])
        command = [sys.executable, "-m", "edgetrain.sampling", "--run", run, "--device", device]
        command += ["--watch-pid", str(training.pid), "--dataset", str(dataset)]
        subprocess.run(command, check=True)
        training.wait()
        account: dict[str, object] = json.loads((Path(run) / "sampler.json").read_text())
        return account


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--files", type=int, default=23_000, help="files of the dataset that is followed")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = 10.0 if options.quick else options.seconds
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.files):
            path = Path(folder) / f"{index // 230:03d}"
            path.mkdir(exist_ok=True)
            (path / f"{index:06d}.jpg").write_bytes(b"x" * 5000)
        for state, code in (("idle", SLEEP), ("busy", BUSY)):
            account = sample(code, seconds, options.device, Path(folder))
            whole = account["cpu_s"] / account["wall_s"]  # type: ignore[operator]
            good = good and whole <= PROMISE
            rows.append(
                f"| {state} | {whole:.2%} | {account['cpu_share']:.2%} | {spell_seconds(account['start_cpu_s'])} "  # type: ignore[arg-type]
                f"| {spell_seconds(account['late_p50_s'])} | {spell_seconds(account['late_p99_s'])} "  # type: ignore[arg-type]
                f"| {account['missed']} | {account['written_bytes'] / account['wall_s'] / 1000:.1f} kB/s |"  # type: ignore[operator]
            )
            print(rows[-1], flush=True)
            for name, each in account["per_probe"].items():  # type: ignore[attr-defined]
                print(f"    {name}: {each['reads']} readings of {spell_seconds(each['mean_s'])}")
    text = "\n".join(
        [
            "# CPU time of the sampler",
            "",
            f"**{'At most' if good else 'More than'} 1 % of one core, idle and busy.**",
            "",
            f"Shares are of one core; the page cache share of a dataset of {options.files:,} files is followed.",
            "",
            "| cores | CPU, start included | CPU after the start | start | late p50 | late p99 | missed | written |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"`python benchmarks/telemetry.py --seconds {seconds:g} --device {options.device}` on "
            f"{platform.machine()}, {os.cpu_count()} cores, kernel {platform.release()}, load "
            f"{os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}. Origin: measured.",
            "",
        ]
    )
    print(text)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
