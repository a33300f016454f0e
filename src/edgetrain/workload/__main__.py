"""The training as a program: python -m edgetrain.workload --run DIR --talk READ,WRITE.

torch is imported only when the runner says `prepare`: until then this process costs nothing and can be put into its
control groups. DIR/experiment.json says what to train.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from edgetrain.errors import EdgetrainError
from edgetrain.inside.stream import append_event, write_json
from edgetrain.schema import Experiment, read_experiment
from edgetrain.workload.talk import Talk


def main() -> int:
    """Prepare, wait, train; exit status 0 done, 1 failed (and told why), 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m edgetrain.workload", description=__doc__)
    parser.add_argument("--run", required=True, type=Path)
    parser.add_argument("--talk", required=True, help="two descriptors: read,write")
    given = parser.parse_args()
    read_fd, write_fd = map(int, given.talk.split(","))
    talk = Talk(read_fd, write_fd)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        if not talk.wait_for("prepare"):
            return 130
        return _run(given.run, talk)
    except EdgetrainError as error:
        talk.tell(failed=_own_words(str(error)), kind=type(error).__name__, status=error.exit_status)
        return 1
    except KeyboardInterrupt:
        _orphan_note(given.run, talk)
        return 130
    except MemoryError:
        talk.tell(
            failed="this process ran out of memory; lower --batch-size or --workers", kind="MemoryError", status=1
        )
        return 1
    except ImportError as error:
        traceback.print_exc()
        talk.tell(failed=_missing(error), kind="ImportError", status=1)
        return 1
    except Exception as error:
        traceback.print_exc()
        talk.tell(failed=_spelled(error), kind=type(error).__name__, status=1)
        return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(run: Path, talk: Talk) -> int:
    asked: dict[str, Any] = json.loads((run / "experiment.json").read_text())
    experiment = read_experiment(asked["experiment"])

    import torch

    from edgetrain.inside import session
    from edgetrain.workload import loop, networks
    from edgetrain.workload.job import gather

    device = loop.compute_device(experiment.compute)
    job = gather(experiment, asked.get("dataset"), bool(asked.get("generated")))
    parameters = networks.parameters(job.network)
    talk.tell(
        prepared={
            "parameters": parameters,
            "classes": job.classes,
            "samples": job.samples,
            "batch_size": job.batch_size,
            "minibatches_per_epoch": job.minibatches,
            "dataset_path": job.dataset_path,
            "compute": _compute(experiment, device),
            "torch": str(torch.__version__),
            "cuda": getattr(torch.version, "cuda", None),
            "threads": torch.get_num_threads(),
        }
    )
    if not talk.wait_for("train"):
        return 130
    recording = session.begin(str(run), timing=experiment.timing)
    recording.note(parameters=parameters)
    talk.follow()
    try:
        loop.train(experiment, job, recording, talk)
    finally:
        talk.end()
        # A second signal must not tear what is being written now.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        recording.end()
    talk.tell(done=True)
    return 0


def _compute(experiment: Experiment, device: Any) -> dict[str, Any]:
    if device is None:
        return {"kind": "paced", "name": "paced step", "ms": experiment.compute_ms}
    if device.type == "cuda":
        # Asking torch for the name would open a context, and the baseload is measured before there is one.
        return {"kind": "cuda", "name": None, "ms": None}
    return {"kind": "cpu", "name": _cpu_name(), "ms": None}


def _cpu_name() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def _spelled(error: Exception) -> str:
    """Return what happened in a sentence; the traceback is in the log."""
    text = str(error).strip()
    if "DataLoader worker" in text and ("killed by signal" in text or "exited unexpectedly" in text):
        return f"a loader worker died: {text.splitlines()[0]}"
    kind = "" if "Original Traceback" in text else f"{type(error).__name__}: "
    return f"{kind}{_own_words(text) or 'no message'}; training.log in the run's folder has the traceback"


def _own_words(text: str) -> str:
    """Return the error's own words: one raised in a loader worker arrives with its whole traceback as its text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if "Original Traceback" not in text:
        return lines[0]
    return re.sub(r"^edgetrain\.errors\.\w+: ", "", lines[-1])


def _missing(error: ImportError) -> str:
    """Say what is not installed, and how to get it."""
    name = error.name or str(error)
    cure = {
        "torch": "pip install torch (on a Jetson, NVIDIA's build)",
        "PIL": "pip install Pillow",
    }.get(name.partition(".")[0], f"make {name} importable by {sys.executable}")
    return f"training needs {name}, which cannot be imported ({error}); {cure}"


def _orphan_note(run: Path, talk: Talk) -> None:
    """Close the record where the runner was killed and cannot."""
    if not talk.orphaned:
        return
    reason = "edgetrain itself was killed; training was stopped and the record closed by the training process"
    append_event(os.fspath(run / "events-training.jsonl"), "signal", reason)
    try:
        manifest = json.loads((run / "manifest.json").read_text())
        if manifest.get("state") == "running":
            write_json(os.fspath(run / "manifest.json"), {**manifest, "state": "interrupted", "reason": reason})
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    sys.exit(main())
