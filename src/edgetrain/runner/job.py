"""Makes the job file: everything the training program needs of an experiment, and nothing else."""

from __future__ import annotations

from pathlib import Path

from edgetrain.documents import to_document
from edgetrain.inside.stream import write_json
from edgetrain.schema import Experiment
from edgetrain.workload import TrainingJob

JOB_FILE = "job.json"


def job_for(experiment: Experiment, run: Path, dataset: str | None, generated: bool) -> TrainingJob:
    """Return the job of an experiment with its dataset in this folder."""
    workload, loading = experiment.workload, experiment.loading
    return TrainingJob(
        run=str(run.absolute()),
        network=workload.network,
        epochs=experiment.epochs,
        dataset=dataset,
        generated=generated,
        classes=workload.classes,
        batch_size=workload.batch_size,
        max_minibatches=experiment.minibatches,
        optimizer=workload.optimizer,
        learning_rate=workload.learning_rate,
        momentum=workload.momentum,
        workers=loading.workers,
        prefetch=loading.prefetch,
        pin_memory=loading.pin_memory,
        persistent=loading.persistent,
        start_method=loading.start_method,
        timing=experiment.timing,
        compute=experiment.compute,
        compute_ms=experiment.compute_ms,
        seed=experiment.seed,
        probe_batch=experiment.probe_batch,
    )


def write_job(job: TrainingJob) -> Path:
    """Write the job into the run's folder; return its file."""
    path = Path(job.run) / JOB_FILE
    write_json(str(path), to_document(job))
    return path
