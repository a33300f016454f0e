"""The callback for Hugging Face's Trainer; transformers is imported when it is asked for."""

from __future__ import annotations

from typing import Any

from . import Recorder


def make(timing: str) -> Any:
    """Return a TrainerCallback."""
    from transformers import TrainerCallback

    class EdgetrainTrainerCallback(TrainerCallback):
        """Records a training: epochs, losses, every minibatch."""

        def __init__(self) -> None:
            self._recorder = Recorder(timing)
            self._epoch = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self._epoch = int(state.epoch or 0)
            self._recorder.begin()

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self._recorder.epoch(self._epoch)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
            self._recorder.epoch_done(self._epoch, losses[-1] if losses else None)
            self._epoch += 1

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self._recorder.end()

    return EdgetrainTrainerCallback()
