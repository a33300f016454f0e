"""The training program: prepares, waits for the runner, trains, and reports how it ended.

torch is imported only at the command `prepare`: until then this process costs nothing and can be put into its control
groups.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import sys
import traceback
from types import FrameType
from typing import Any, Sequence

from edgetrain.inside.stream import append_event, write_json
from edgetrain.workload.errors import TrainingError
from edgetrain.workload.job import TrainingJob, read_job
from edgetrain.workload.messages import ComputeUsed, Prepared, TrainingFailed, TrainingFinished
from edgetrain.workload.pipe import RunnerPipe

INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Prepare, wait, train; exit status 0 done, 1 or 2 failed (the reason was reported), 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m edgetrain.workload", description=__doc__)
    parser.add_argument("--job", required=True, help="JSON file with the training job")
    parser.add_argument("--pipe", help="two descriptors, read,write: wait for commands and report there")
    given = parser.parse_args(argv)
    descriptors = None
    if given.pipe:
        read_fd, write_fd = map(int, given.pipe.split(","))
        descriptors = (read_fd, write_fd)
    pipe = RunnerPipe(descriptors)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    job: TrainingJob | None = None
    try:
        job = read_job(given.job)
        if not pipe.wait_for("prepare"):
            return INTERRUPTED
        return _run(job, pipe)
    except KeyboardInterrupt:
        if job is not None and pipe.orphaned:
            _close_orphaned_record(job.run)
        return INTERRUPTED
    except Exception as error:
        if not isinstance(error, (TrainingError, MemoryError)):
            traceback.print_exc()
        failed = _failed(error)
        pipe.send(failed)
        return failed.status


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(job: TrainingJob, pipe: RunnerPipe) -> int:
    import torch

    from edgetrain.inside import session
    from edgetrain.workload import loop, networks
    from edgetrain.workload.training import prepare

    device = loop.compute_device(job.compute)
    training = prepare(job)
    parameters = networks.parameters(training.network)
    pipe.send(
        Prepared(
            parameters=parameters,
            classes=training.classes,
            samples=training.samples,
            batch_size=training.batch_size,
            minibatches_per_epoch=training.minibatches,
            dataset_path=training.dataset_path,
            compute=_compute_used(job, device),
            torch=str(torch.__version__),
            cuda=getattr(torch.version, "cuda", None),
            threads=torch.get_num_threads(),
            python=platform.python_version(),
        )
    )
    if not pipe.wait_for("train"):
        return INTERRUPTED
    recording = session.begin(job.run, timing=job.timing)
    recording.note(parameters=parameters)
    pipe.follow()
    try:
        loop.train(job, training, recording, pipe)
    finally:
        pipe.end()
        # A second signal must not tear what is being written now.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        recording.end()
    pipe.send(_probed(job, training))
    return 0


def _probed(job: TrainingJob, training: Any) -> TrainingFinished:
    """Measure what the record does not show; a probe that fails costs its figure and nothing else."""
    from edgetrain.workload import probes

    found = TrainingFinished()
    try:
        if job.workers == 0 and job.probe_hand_over:
            found = TrainingFinished(probes.measure_hand_over(job, training))
        if job.probe_batch:
            found = TrainingFinished(found.hand_over, tuple(probes.measure_batch_sizes(job, training)))
    except Exception:
        traceback.print_exc()
    return found


def _compute_used(job: TrainingJob, device: Any) -> ComputeUsed:
    if device is None:
        return ComputeUsed("paced", "paced step", job.compute_ms)
    if device.type == "cuda":
        # Asking torch for the name would open a context, and the baseload is measured before there is one.
        return ComputeUsed("cuda")
    return ComputeUsed("cpu", _cpu_name())


def _cpu_name() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def _failed(error: Exception) -> TrainingFailed:
    """Return the message that reports an error; the traceback is in the log."""
    kind = type(error).__name__
    if isinstance(error, TrainingError):
        return TrainingFailed(_own_words(str(error)), kind, error.exit_status)
    if isinstance(error, MemoryError):
        return TrainingFailed("this process ran out of memory; lower --batch-size or --workers", kind, 1)
    if isinstance(error, ImportError):
        return TrainingFailed(_missing(error), kind, 1)
    text = str(error).strip()
    if "DataLoader worker" in text and ("killed by signal" in text or "exited unexpectedly" in text):
        return TrainingFailed(f"a loader worker died: {text.splitlines()[0]}", kind, 1)
    prefix = "" if "Original Traceback" in text else f"{kind}: "
    reason = f"{prefix}{_own_words(text) or 'no message'}; training.log in the run's folder has the traceback"
    return TrainingFailed(reason, kind, 1)


def _own_words(text: str) -> str:
    """Return the error's own words: one raised in a loader worker arrives with its whole traceback as its text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if "Original Traceback" not in text:
        return lines[0]
    return re.sub(r"^edgetrain\.workload\.errors\.\w+: ", "", lines[-1])


def _missing(error: ImportError) -> str:
    """Say what is not installed, and how to get it."""
    name = error.name or str(error)
    cure = {
        "torch": "pip install torch (on a Jetson, NVIDIA's build)",
        "PIL": "pip install Pillow",
        "numpy": "pip install numpy (below 2 beside NVIDIA's torch)",
    }.get(name.partition(".")[0], f"make {name} importable")
    return f"training needs {name}, which {sys.executable} cannot import ({error}); {cure}"


def _close_orphaned_record(run: str) -> None:
    """Close the record where the runner was killed and cannot."""
    reason = "edgetrain itself was killed; training was stopped and the record closed by the training process"
    append_event(os.path.join(run, "events-training.jsonl"), "signal", reason)
    path = os.path.join(run, "manifest.json")
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        if manifest.get("state") == "running":
            manifest.update(state="interrupted", reason=reason)
            write_json(path, manifest)
    except (OSError, ValueError):
        pass
