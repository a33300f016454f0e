"""How the training program refuses and fails; the runner turns both into errors of the rest of the package."""

from __future__ import annotations


class TrainingError(Exception):
    """The training, or making its dataset, failed; what was recorded until then is kept."""

    exit_status = 1


class RequestError(TrainingError):
    """The request or the dataset is wrong; nothing was trained."""

    exit_status = 2
