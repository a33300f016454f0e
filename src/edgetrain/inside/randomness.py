"""Other random numbers for a moment, with those of the training as before after it."""

from __future__ import annotations

import random
import sys
from typing import Any, Callable


class OtherRandomness:
    """Other random numbers within it; those of Python, numpy and torch are as before after it."""

    def __enter__(self) -> None:
        self._restore: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None:
            self._restore.append((numpy.random.set_state, numpy.random.get_state()))
            numpy.random.seed(random.randrange(2**31))
        if torch is not None:
            self._restore.append((torch.set_rng_state, torch.get_rng_state()))
            torch.random.default_generator.manual_seed(random.randrange(2**31))
        random.seed(random.randrange(2**31))

    def __exit__(self, *error: Any) -> None:
        for restore, state in self._restore:
            restore(state)
