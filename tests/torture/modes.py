"""Kills a process at random instants while it switches modes; the next start must find the board as it was."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.device import ModeRequest, open_simulated
from edgetrain.schema import PowerMode

FULL = 200

# What is killed: it switches without end, custom modes and stock ones, and says when it has begun.
VICTIM = """
import random, sys
from pathlib import Path
from edgetrain.device import ModeRequest
from edgetrain.device import open_simulated
from edgetrain.schema import PowerMode
board, root, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
device = open_simulated(board, root)
control, space, draw = device.control(), device.modes(), random.Random(seed)
control.repair()
print("ready", flush=True)
while True:
    tables = (space.cores, space.cpu_hz, space.gpu_hz, space.emc_hz)
    mode = PowerMode(*(draw.choice(table) for table in tables))
    kind = draw.randrange(3)
    if kind == 0:
        with control.session():
            control.apply(ModeRequest(mode))
            control.apply(ModeRequest(space.stock[0].mode))
    elif kind == 1:
        with control.hold(ModeRequest(mode, dvfs=draw.random() < 0.5)):
            pass
    else:
        easy = [stock.id for stock in space.stock if stock.reboot is None]
        with control.hold(ModeRequest(stock=draw.choice(easy), dvfs=True)):
            pass
"""


def run(count: int = FULL, seed: int = 0) -> str:
    """Kill `count` processes; after each the next start repairs, and the board is as it was before all of them."""
    draw = random.Random(seed)
    dirty = restored = 0
    with tempfile.TemporaryDirectory() as folder:
        boards = {name: Path(folder) / name for name in ("orin-agx", "xavier-nx", "nano")}
        originals = {}
        for name, root in boards.items():
            device = open_simulated(name, root)
            originals[name] = (device.state(), device.active_stock())
        for number in range(count):
            name = draw.choice(list(boards))
            root = boards[name]
            process = subprocess.Popen(
                [sys.executable, "-c", VICTIM, name, str(root), str(draw.randrange(10**9))],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
            time.sleep(draw.expovariate(1 / 0.08))
            assert process.poll() is None, process.stderr.read().decode()
            # The board's own programs die with it: a power cut spares nobody.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
            device = open_simulated(name, root)
            state, stock = originals[name]
            dirty += device.state() != state or device.active_stock() != stock
            control = device.control()
            assert control is not None
            restored += control.repair() is not None
            assert device.state() == state, f"kill {number} on {name}: {_differ(device.state(), state)}"
            assert device.active_stock() == stock, f"kill {number} on {name}: stock mode {device.active_stock()}"
            assert control.held() is None
            with control.hold(ModeRequest(PowerMode(1, *_lowest(device)))):
                pass  # and it can be set again
            assert device.state() == state
    return (
        f"{count} kills at random instants while switching modes on three simulated boards (seed {seed}): the "
        f"original state came back at the next start every time; {dirty} had left the board changed, "
        f"{restored} a journal to undo."
    )


def _lowest(device):
    space = device.modes()
    return space.cpu_hz[0], space.gpu_hz[0], space.emc_hz[0]


def _differ(found: dict[str, str], wanted: dict[str, str]) -> str:
    names = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    return "; ".join(f"{name} is {found.get(name)}, was {wanted.get(name)}" for name in names[:4])
