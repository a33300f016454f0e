"""What does the live page cost a training that runs beside it, and does its memory stay flat?

    python benchmarks/serve.py -- lenet5 --compute paced --compute-ms 20 --workers 1     # a step as on an accelerator
    python benchmarks/serve.py -- resnet18 --workers 0                                   # a step that takes the cores
    PYTHONPATH=. python benchmarks/serve.py --soak 1800

Turns: `edgetrain run` trains and `edgetrain serve` watches its store; turns with 50 open pages, without any, and
without any once more follow each other in shuffled order. The ratio is of mean minibatch times within a repeat; the
interval is Student's t over the logarithms of the repeats' ratios. The pages are connections that read events and
discard them: a browser on another machine takes no more of this one.

Soak: a server that reads its store 50 times as often as `serve` does sends as many events as asked for (1800 are an
hour) to readers that come and go; the memory of its process is read all the while.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from edgetrain.record import FolderStore

MAX_RATIO = 1.02  # the aim
SETTLE_S = 2.0  # of each turn, not counted
SOAK_INTERVAL_S = 0.04
SOAK_READERS = 20
MAX_GROWTH_MIB = 5.0  # over the second half of a soak
KINDS = ("none", "null", "tabs")


def open_pages(port: int, count: int) -> list[socket.socket]:
    """Open event streams as pages do."""
    found = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        found.append(one)
    return found


def read_pages(port: int, count: int) -> None:
    """Read the events of many pages for ever and discard them (a process of its own)."""
    pages = open_pages(port, count)
    while True:
        for one in select.select(pages, [], [])[0]:
            if not one.recv(1 << 20):
                raise SystemExit("the server closed a page")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def start_server(store: Path) -> tuple[subprocess.Popen[str], int]:
    """Start `edgetrain serve`; return it and its port."""
    command = [sys.executable, "-m", "edgetrain", "serve", "--port", "0", "--store", str(store)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    found = re.search(r":(\d+)/", server.stderr.readline())
    assert found is not None
    return server, int(found[1])


def take_turn(kind: str, port: int, server: int, pages: int, seconds: float) -> tuple[int, int, float, float]:
    """Spend a turn; return its window in µs of the records' clock and the CPU shares of server and pages."""
    readers = None
    if kind == "tabs":
        readers = subprocess.Popen([sys.executable, __file__, "--read", str(port), str(pages)])
    time.sleep(SETTLE_S)
    begun_us, used_s = time.monotonic_ns() // 1000, cpu_s(server)
    pages_s = cpu_s(readers.pid) if readers else 0.0
    time.sleep(seconds)
    took_s = seconds
    shares = (cpu_s(server) - used_s) / took_s, ((cpu_s(readers.pid) - pages_s) if readers else 0.0) / took_s
    ended_us = time.monotonic_ns() // 1000
    if readers is not None:
        assert readers.poll() is None, "the pages did not stay open"
        readers.kill()
        readers.wait()
    return begun_us, ended_us, *shares


def compare(options: argparse.Namespace) -> str:
    """Train beside turns with and without pages; return a line of the table."""
    from overhead import ratio_interval  # imports torch, which the processes that read pages need not

    from edgetrain.analysis import find_loops, slowest

    with tempfile.TemporaryDirectory(prefix="edgetrain-serve-") as folder:
        store = Path(folder)
        command = [sys.executable, "-m", "edgetrain", "run", *options.training, "--store", folder, "--epochs", "100000"]
        training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server, port = start_server(store)
        try:
            while not list(store.glob("runs/*/minibatches-*.ets")):
                assert training.poll() is None, "the training ended before it began"
                time.sleep(0.5)
            time.sleep(5.0)
            turns = []
            for _ in range(options.turns):
                for kind in random.sample(KINDS, len(KINDS)):
                    turns.append((kind, *take_turn(kind, port, server.pid, options.pages, options.turn_s)))
        finally:
            server.send_signal(signal.SIGINT)
            training.send_signal(signal.SIGINT)
            server.wait(30)
            training.wait(60)
        done_us = slowest(find_loops(FolderStore(store).open("last"))).parts.done_us
    means: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, begun_us, ended_us, _, _ in turns:
        inside = done_us[(done_us >= begun_us) & (done_us <= ended_us)]
        means[kind].append(float(inside[-1] - inside[0]) / (len(inside) - 1) / 1e3)
    ratio, null = (
        ratio_interval([one / none for one, none in zip(means[kind], means["none"], strict=True)])
        for kind in ("tabs", "null")
    )
    with_pages = [turn for turn in turns if turn[0] == "tabs"]
    cells = (
        " ".join(options.training),
        str(options.turns),
        f"{statistics.median(means['none']):.2f}",
        f"{statistics.median(means['tabs']):.2f}",
        f"{ratio[0]:.4f} ({ratio[1]:.4f}–{ratio[2]:.4f})",
        f"{null[0]:.4f} ({null[1]:.4f}–{null[2]:.4f})",
        f"{statistics.median(turn[3] for turn in with_pages):.1%}",
        f"{statistics.median(turn[4] for turn in with_pages):.1%}",
        "yes" if ratio[0] <= MAX_RATIO else "**no**",
    )
    return f"| {' | '.join(cells)} |"


def serve_quickly(folder: str) -> None:
    """Serve a store with uvicorn, reading it far more often than `serve` does (a process of its own)."""
    from edgetrain.api.serving import RecordPages
    from edgetrain.live import AccessRules, ServerOptions, Watcher, build_application, listen_on, serve

    listening = listen_on("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    store = FolderStore(folder)
    watcher = Watcher(store, 4.0, lambda: 1_003_000_000)
    options = ServerOptions(AccessRules(("127.0.0.1",), "token"), whatif=True, interval_s=SOAK_INTERVAL_S)
    serve(build_application(watcher, RecordPages(store), options), listening)


def come_and_go(port: int, stop: threading.Event, seen: list[int], number: int) -> None:
    """Open a page, read some events, leave, come again; now and then ask for a report or a what-if answer."""
    draw = random.Random(number)
    while not stop.is_set():
        with open_pages(port, 1)[0] as page:
            page.settimeout(20)
            for _ in range(draw.randrange(5, 40)):
                seen[number] += page.recv(1 << 18).count(b"data: {")
        path = draw.choice(("/", "/runs/last", f"/api/whatif?run=last&workers={draw.randrange(6)}&interval=no"))
        with socket.create_connection(("127.0.0.1", port)) as page:
            page.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            while page.recv(1 << 18):
                pass
        seen[-1] += 1


def soak(events: int) -> str:
    """Send events to readers that come and go; return a line of the table."""
    from tests.recording import write_record

    with tempfile.TemporaryDirectory(prefix="edgetrain-soak-") as folder:
        write_record(Path(folder), epochs=3, minibatches=60)
        write_record(Path(folder), epochs=2, state="running", runner={"pid": os.getpid(), "boot": None})
        command = [sys.executable, __file__, "--serve-quickly", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        stop, seen = threading.Event(), [0] * (SOAK_READERS + 1)
        steady = open_pages(port, 1)[0]  # counts the events
        readers = [
            threading.Thread(target=come_and_go, args=(port, stop, seen, number)) for number in range(SOAK_READERS)
        ]
        for reader in readers:
            reader.start()
        sent, memory, began = 0, [], time.monotonic()
        while sent < events:
            news = steady.recv(1 << 18).count(b"data: {")
            sent += news
            if news:
                memory.append(memory_mib(server.pid))
        took_s = time.monotonic() - began
        stop.set()
        for reader in readers:
            reader.join(30)
        server.send_signal(signal.SIGINT)
        server.wait(30)
    parts = [statistics.median(memory[place * len(memory) // 4 :][: len(memory) // 4]) for place in range(4)]
    growth = parts[3] - parts[1]
    cells = (str(sent), f"{took_s:.0f} s", f"{sum(seen[:-1])}", str(seen[-1]))
    cells += (
        " → ".join(f"{part:.1f}" for part in parts),
        f"{growth:+.1f}",
        "yes" if growth < MAX_GROWTH_MIB else "**no**",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure what was asked for and print a line of its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=6, help="repeats of the three kinds of turn")
    parser.add_argument("--turn-s", type=float, default=10.0)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--soak", type=int, metavar="EVENTS")
    parser.add_argument("--read", nargs=2, type=int, metavar=("PORT", "PAGES"), help=argparse.SUPPRESS)
    parser.add_argument("--serve-quickly", metavar="STORE", help=argparse.SUPPRESS)
    parser.add_argument("training", nargs="*", help="arguments of `edgetrain run`, after --")
    options = parser.parse_args()
    random.seed(0)
    if options.read:
        read_pages(*options.read)
    elif options.serve_quickly:
        serve_quickly(options.serve_quickly)
    elif options.soak:
        print(
            "| events | took | received by those that come and go | pages asked for | MiB by quarter | growth | flat |"
        )
        print("|---|---|---|---|---|---|---|")
        print(soak(options.soak))
    else:
        print(
            "| training | repeats | ms, no page | ms, 50 pages | ratio (90 % interval) | no page against no page ",
            end="",
        )
        print("| server's share of a core | readers' | ≤ 1.02 |\n" + "|---" * 9 + "|")
        print(compare(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
