"""Damages records in every way a power cut or a bad card can, and reads them back."""

import random
import shutil
import tempfile
from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.documents import to_document
from edgetrain.record import read_run
from tests.recording import write_record

FULL = 1_000


def run(count: int = FULL, seed: int = 0) -> str:
    """Truncate or garble the tails of streams: each record must open, keep what lay before, and say what it lost."""
    draw = random.Random(seed)
    lost_rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        whole = store / "runs" / write_record(store, epochs=2, minibatches=100, seed=seed, every=5)
        complete = len(read_run(whole).minibatches())
        for number in range(count):
            hurt = Path(folder) / f"hurt-{number}"
            shutil.copytree(whole, hurt)
            damaged = _damage(draw, hurt)
            record = read_run(hurt)
            document = to_document(summarize(record))
            rows = len(record.minibatches())
            lost_rows.append(complete - rows)
            said = any(doubt["kind"] == "lost" for doubt in document["doubts"])
            assert said or rows == complete, f"damage to {damaged} went unsaid"
            for epoch in document["epochs"]:
                parts = sum(epoch[part] or 0 for part in ("fetch_stall_s", "copy_s", "compute_s", "overhead_s"))
                assert abs(parts - epoch["e2e_s"]) < 1e-6, "the parts no longer add up"
            shutil.rmtree(hurt)
    middle = sorted(lost_rows)[len(lost_rows) // 2]
    return (
        f"{count} truncations and garblings of stream tails (seed {seed}): every record opened, its parts added up, "
        f"and what was lost was named; rows lost: median {middle}, most {max(lost_rows)} of {complete}."
    )


def _damage(draw: random.Random, path: Path) -> list[str]:
    """Hurt the last part of some streams; return which."""
    names = []
    for stream in sorted(path.glob("*.ets")):
        if draw.random() < 0.4:
            continue
        data = bytearray(stream.read_bytes())
        tail = max(1, int(len(data) * draw.uniform(0.01, 0.3)))
        kind = draw.choice(["cut", "zeros", "noise", "flip"])
        if kind == "cut":
            data = data[:-tail]
        elif kind == "zeros":
            data[-tail:] = bytes(tail)
        elif kind == "noise":
            data[-tail:] = draw.randbytes(tail)
        else:
            data[-draw.randrange(1, tail + 1)] ^= 1 << draw.randrange(8)
        stream.write_bytes(bytes(data))
        names.append(stream.name)
    return names
