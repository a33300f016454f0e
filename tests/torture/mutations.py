"""Mutates plans, option values, manifests and tables of modes, and runs commands on them as a user would.

Every command must end by itself with status 0, 1 or 2, without a traceback and without control characters.
A number that is none must be refused, and a table in another unit than it says must be refused, converted or doubted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.cli import main
from edgetrain.cli.app import build
from edgetrain.cli.commands import COMMANDS as ENTRIES
from tests.torture.damage import damage_bytes, damage_json, nest, plan_lines, plan_value
from tests.torture.mutation_values import (
    COMMANDS,
    ESCAPES,
    LONG,
    NOT_FINITE,
    NUMBERS,
    PLAN,
    WORDS,
)

FULL = 1000
LIMIT_S = 90.0  # of one command, on a busy machine
COLUMNS = ("cores", "cpu_khz", "gpu_hz", "emc_hz", "time_ms", "power_mw")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: Sequence[str]
    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"{list(self.words)} ended with {self.status}: {self.err[-1500:]}"


class Scene:
    """A folder with a store of two simulated runs, a table of modes, and what is made of them."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.store, self.table, self.kept = folder / "store", folder / "modes.csv", folder / "kept"
        self.write_table()
        build(ENTRIES)  # loads every command once, for all the processes that are forked
        for seed in ("1", "2"):
            words = (
                "run",
                "lenet5",
                "--device",
                "sim:orin-agx",
                "--epochs",
                "2",
                "--minibatches",
                "30",
                "--seed",
                seed,
            )
            done = self.command(*words, "--power-mode", "12/2201.6/1300.5/3199")
            assert done.status == 0, done
        shutil.copytree(self.store, self.kept)
        self.first, self.second = sorted(path.name for path in (self.store / "runs").iterdir())

    def command(self, *words: str) -> Ended:
        """Run a command in a process of its own; it must end in time."""
        out, err = self.folder / "out", self.folder / "err"
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            _become(
                words,
                self.folder,
                {
                    "EDGETRAIN_STORE": str(self.store),
                    "EDGETRAIN_SIM_HOME": str(self.folder / "sim"),
                    "EDGETRAIN_CAMPAIGN_LOCK": str(self.folder),
                },
            )
        until_s = time.monotonic() + LIMIT_S
        while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > until_s:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise AssertionError(f"{words} did not end within {LIMIT_S:g} s: {err.read_text(errors='replace')}")
            time.sleep(0.005)
        status = os.waitstatus_to_exitcode(found[1])
        return Ended(
            words, status, out.read_bytes().decode(errors="replace"), err.read_bytes().decode(errors="replace")
        )

    def checked(self, *words: str) -> Ended:
        """Run a command; it must end as a command ends."""
        done = self.command(*words)
        assert done.status in (0, 1, 2) and "Traceback" not in done.err, done
        assert done.status == 0 or done.err.strip(), f"no word on why: {done}"
        for text in (done.out, done.err):
            odd = {mark for mark in text if mark not in "\n\t" and not mark.isprintable() and mark != "\ufffd"}
            assert not odd, f"control characters {odd} in the output: {done}"
        return done

    def filled(self, words: Sequence[str]) -> list[str]:
        """Return a command with the files of this scene in it."""
        plan = self.folder / "plan.yaml"
        plan.write_text(PLAN)
        files = {"store": self.store, "folder": self.folder, "table": self.table, "plan": plan}
        return [word.format(**files, first=self.first, second=self.second) for word in words]

    def write_table(self, change: Callable[[str, float], float] = lambda column, value: value) -> None:
        """Write the table of modes, changed cell by cell."""
        rows = []
        for cores in (2, 6, 12):
            for cpu in (729_600, 1_497_600, 2_201_600):
                for gpu in (306e6, 816e6, 1300.5e6):
                    time_ms, power_mw = 20 + 3e10 / gpu + 2e7 / cpu / cores, 5000 + cores * cpu / 2e3 + gpu / 1e5
                    cells = zip(COLUMNS, (cores, cpu, gpu, 3199e6, time_ms, power_mw), strict=True)
                    rows.append(",".join(f"{change(column, value):.9g}" for column, value in cells))
        self.table.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")


def _become(words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """In a forked process: run one command in a folder, which takes the files an odd option value names, and end."""
    status = 99
    try:
        os.environ.update(environment)
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, descriptor in (("out", 1), ("err", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = main(list(words))
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


# Plans


def mutate_plan(scene: Scene) -> None:
    """Change a plan, look at its cost, and carry some of those out that are accepted."""
    draw, plan = scene.draw, scene.folder / "plan.yaml"
    data = PLAN.encode()
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice((plan_value, plan_value, plan_value, plan_lines, damage_bytes, nest))(data, draw)
    plan.write_bytes(data)
    words = ["--json"] if draw.random() < 0.3 else []
    done = scene.checked("campaign", str(plan), "--dry-run", *words)
    if done.status == 0 and draw.random() < 0.1 and len(data) < 2000:
        scene.checked("campaign", str(plan), *words)


# Options


def mutate_option(scene: Scene) -> None:
    """Replace one value of a command by another."""
    draw = scene.draw
    words = scene.filled(draw.choice(COMMANDS))
    at = draw.randrange(1, len(words))
    option = words[at - 1] if words[at - 1].startswith("-") else ""
    value = draw.choice((*NOT_FINITE, *NOT_FINITE, *WORDS, *NUMBERS, *ESCAPES))
    if option in LONG and re.fullmatch(r"\d{3,}|1e300", value):
        value = "0"
    was_number = re.fullmatch(r"[\d.]+(e\d)?", words[at]) is not None
    words[at] = value.replace("\x00", "").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if draw.random() < 0.3:
        words.append("--json")
    done = scene.checked(*words)
    if was_number and value in NOT_FINITE:
        assert done.status == 2, f"{value} was accepted: {done}"


# Manifests


def mutate_manifest(scene: Scene) -> None:
    """Change the manifest of one run; the store must stay listed, and the run must open or say why not."""
    draw = scene.draw
    manifest = scene.store / "runs" / scene.first / "manifest.json"
    document = json.loads(manifest.read_bytes())
    for _ in range(draw.choice((1, 1, 3))):
        damage_json(document, draw)
    data = json.dumps(document).encode()
    manifest.write_bytes(damage_bytes(data, draw) if draw.random() < 0.3 else data)
    listed = scene.checked("ls", *(["--json"] if draw.random() < 0.3 else []))
    assert listed.status == 0 and scene.second in listed.out, listed
    name = draw.choice((scene.first, str(manifest.parent)))
    scene.checked(
        *draw.choice(
            (
                ("show", name),
                ("show", name, "--json"),
                ("export", name, "--csv", "-o", str(scene.folder / "x")),
                ("compare", name, "vs", scene.second),
                ("report", name, "-o", str(scene.folder / "r.html")),
                ("prune", "--state", "failed", "--dry-run"),
                ("rm", name, "--dry-run"),
                ("export", name, "--trace", "-o", str(scene.folder / "t.json")),
            )
        )
    )


# Tables of modes


def mutate_table(scene: Scene) -> None:
    """Damage a table, or change the unit of a column; what is read must be right, refused or doubted."""
    if scene.draw.random() < 0.5:
        _damage_table(scene)
    else:
        _change_unit(scene)


def _damage_table(scene: Scene) -> None:
    draw = scene.draw
    lines = scene.table.read_text().split("\n")
    at = draw.randrange(len(lines) - 1)
    cells = lines[at].split(",")
    column = draw.randrange(len(cells))
    cells[column] = (
        draw.choice(
            (
                *NOT_FINITE,
                *NUMBERS,
                *WORDS,
                *ESCAPES,
                "9" * 140_000,
                '"' + "x" * 200_000 + '"',
                '"open',
                "1 000",
                cells[column] * 2,
                "1;2",
            )
        )
        .encode("utf-8", "replace")
        .decode()
    )
    lines[at] = ",".join(cells)
    data = "\n".join(lines).encode()
    scene.table.write_bytes(damage_bytes(data, draw) if draw.random() < 0.4 else data)
    table = str(scene.table)
    scene.checked(
        *draw.choice(
            (
                ("import", table),
                ("import", table, "--json"),
                ("sensitivity", table),
                ("predict", "table", "--profiled", table, "--modes", table, "--prior", "none"),
                ("recommend", "--profiled", table, "--modes", table, "--prior", "none", "--max-power-w", "20"),
            )
        )
    )


def _change_unit(scene: Scene) -> None:
    """Scale a column, or half of it, by a factor between units, its name unchanged."""
    draw = scene.draw
    column = draw.choice(COLUMNS[1:])
    factor = draw.choice((1e3, 1e-3, 1e6, 1e-6))
    share = draw.choice((1.0, 1.0, 0.5, 0.1))
    changed = 0

    def change(name: str, value: float) -> float:
        nonlocal changed
        if name != column or draw.random() >= share:
            return value
        changed += 1
        return value * factor

    scene.write_table(change)
    read = scene.checked("import", str(scene.table), "--json")
    if read.status or not changed:
        return
    campaign = json.loads(read.out)["imported"]
    said = read.err + json.dumps(campaign)
    time_ms = 50.0 * (factor if column == "time_ms" else 1)
    undecidable = column == "time_ms" and share == 1.0 and 1 <= time_ms <= 60_000
    assert column in said or undecidable, f"{column} x {factor:g} in {share:.0%} of the rows went unnoticed: {read}"


KINDS = {"plans": mutate_plan, "option values": mutate_option, "manifests": mutate_manifest, "tables": mutate_table}


def check_unmutated(scene: Scene) -> None:
    """Each command must work as it stands: a mutation of one that does not would prove nothing."""
    for words in COMMANDS:
        done = scene.checked(*scene.filled(words))
        assert done.status == 0, done


def run(count: int = FULL, seed: int = 0) -> str:
    """Make `count` mutations, a quarter of each kind; raise at the first that is not met with a clear answer."""
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="edgetrain-mutations-") as folder:
        scene = Scene(Path(folder), random.Random(seed))
        check_unmutated(scene)
        for number in range(count):
            kind = list(KINDS)[number % len(KINDS)]
            scene.draw.seed(f"{seed} {number}")
            try:
                KINDS[kind](scene)
            except AssertionError as error:
                raise AssertionError(f"mutation {number} of seed {seed}: {error}") from error
            done[kind] += 1
            shutil.rmtree(scene.store)
            shutil.copytree(scene.kept, scene.store)
            scene.write_table()
    counts = ", ".join(f"{number} {kind}" for kind, number in done.items())
    return f"{count} mutations (seed {seed}; {counts}): no traceback, no hang, no silent wrong unit"
