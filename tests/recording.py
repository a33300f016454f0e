"""Writes small records as a real run would: same writer, same columns, instants from a seeded draw."""

import random
from pathlib import Path

from edgetrain.documents import from_document
from edgetrain.inside.stream import MINIBATCHES, WORKERS, StreamWriter, append_event, write_json
from edgetrain.record import FolderStore, Manifest


def write_record(
    store: Path,
    epochs: int = 2,
    minibatches: int = 40,
    workers: int = 1,
    seed: int = 0,
    stall_us: int = 20_000,
    compute_us: int = 30_000,
    power_w: float | None = 20.0,
    state: str = "finished",
    every: int = 10,
    **manifest,
) -> str:
    """Write one run into the store; return its id. `every` rows make a frame."""
    draw = random.Random(seed)
    facts = {
        "origin": "simulated",
        "state": state,
        "timing": "async",
        "workload": {"network": "lenet5", "batch_size": 16},
        "loading": {"workers": workers, "cache": "keep"},
        "device": {"name": "host", "cores": 2},
        "power": {"stream": "rails", "columns": ["total_w"], "scope": "board", "refresh_s": 0.1, "quantum_w": 0.01},
    }
    if power_w is None:
        facts["power"] = None
    path = FolderStore(store).create(from_document(Manifest, facts | manifest)).path
    main = StreamWriter(str(path / "minibatches-1.ets"), "minibatches", MINIBATCHES)
    side = StreamWriter(str(path / "workers-0-0-2.ets"), "workers", WORKERS)
    now = begun = 1_000_000_000
    marks = []
    for epoch in range(epochs):
        start = now
        for batch in range(minibatches):
            asked = now
            ready = asked + draw.randrange(stall_us // 2, stall_us * 3 // 2)
            done = ready + draw.randrange(compute_us * 9 // 10, compute_us * 11 // 10)
            row = dict.fromkeys(name for name, _ in MINIBATCHES)
            row |= {"loader": 0, "generation": epoch, "epoch": epoch, "batch": batch, "phase": 1, "samples": 16}
            row |= {"asked_us": asked, "ready_us": ready, "copying_us": ready + 5, "copied_us": ready + 400}
            row |= {"launched_us": done - 10, "done_us": done, "sent_us": asked - 50_000, "worker": 0, "queued_us": 0}
            main.add(tuple(row.values()))
            made = dict.fromkeys(name for name, _ in WORKERS)
            made |= {"loader": 0, "generation": epoch, "batch": batch, "worker": 0, "began_us": ready - 48_000}
            made |= {"fetched_us": ready - 300, "shipped_us": ready - 100, "cpu_us": 40_000, "queued_us": 500}
            made |= {"read_bytes": 1_900_000 if epoch == 0 else 0, "switches": 20, "stolen_us": 0, "system_us": 1_000}
            made |= {"helpers_us": 0, "helpers_queued_us": 0, "collate_us": 900, "pickled_us": ready - 250}
            made |= {"feeder_cpu_us": 50, "feeder_queued_us": 0, "waking_us": 0, "faults": 0}
            side.add(tuple(made.values()))
            now = done + 200
            if batch % every == every - 1:
                main.flush()
                side.flush()
        marks.append(
            {"epoch": epoch, "generation": epoch, "loader": 0, "began_us": start, "ended_us": now, "loss": 1.0}
        )
    main.close()
    side.close()
    if power_w is not None:
        rails = StreamWriter(str(path / "samples-rails.ets"), "rails", (("at_us", "delta"), ("total_w", "f8")))
        for at in range(begun - 500_000, now + 500_000, 100_000):
            rails.add((at, power_w + draw.uniform(-0.5, 0.5)))
        rails.close()
    cost = {"per_minibatch_us": 12.0, "minibatches": epochs * minibatches}
    write_json(str(path / "inside.json"), {"epochs": marks, "main_thread_cost": cost})
    write_json(str(path / "sampler.json"), {"cpu_s": 0.01, "wall_s": (now - begun) / 1e6, "late_p99_s": 0.001})
    append_event(str(path / "events-test.jsonl"), "epoch", "began")
    return path.name
