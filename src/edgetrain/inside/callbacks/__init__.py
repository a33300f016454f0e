"""Callbacks for trainers that own the loop: one for Lightning, one for Hugging Face; neither library is needed here.

    Trainer(callbacks=[edgetrain.inside.callbacks.lightning()])
    Trainer(callbacks=[edgetrain.inside.callbacks.hugging_face()])

Each begins a recording when training begins, names its epochs and losses, and ends it. Under `edgetrain profile`
neither is needed.
"""

from __future__ import annotations

from typing import Any

from .. import session, watch


def lightning(timing: str = "async") -> Any:
    """Return a callback for `lightning.pytorch.Trainer` or `pytorch_lightning.Trainer`, whichever is installed."""
    from .for_lightning import make

    return make(timing)


def hugging_face(timing: str = "async") -> Any:
    """Return a callback for `transformers.Trainer`."""
    from .for_hugging_face import make

    return make(timing)


class Recorder:
    """What both callbacks do."""

    def __init__(self, timing: str) -> None:
        self._timing = timing
        self._session: Any = None

    def begin(self) -> None:
        """Training begins."""
        self._session = session.begin(watch.run_directory(), self._timing, steps=True)

    def epoch(self, epoch: int) -> None:
        """An epoch begins."""
        if self._session is not None:
            self._session.epoch(epoch)

    def epoch_done(self, epoch: int, loss: Any) -> None:
        """An epoch is over."""
        if self._session is not None:
            self._session.epoch_done(epoch, None if loss is None else float(loss))

    def end(self) -> None:
        """Training is over."""
        if self._session is not None:
            self._session.end()
            self._session = None
