"""The callback for Lightning; Lightning is imported when it is asked for."""

from __future__ import annotations

from typing import Any

from . import Recorder


def make(timing: str) -> Any:
    """Return a Callback of the Lightning that is installed."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class EdgetrainLightningCallback(Callback):
        """Records a fit: epochs, losses, every minibatch."""

        def __init__(self) -> None:
            super().__init__()
            self._recorder = Recorder(timing)

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            self._recorder.begin()

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self._recorder.epoch(trainer.current_epoch)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            known = trainer.callback_metrics
            loss = known.get("train_loss_epoch", known.get("train_loss", known.get("loss")))
            self._recorder.epoch_done(trainer.current_epoch, loss)

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            self._recorder.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._recorder.end()

    return EdgetrainLightningCallback()
