"""edgetrain: where the seconds and the joules of DNN training on an edge device go.

Importing this package is cheap and pulls in nothing: `watch` is fetched when first used, because
it runs inside the user's training process.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "watch"]


def __getattr__(name: str) -> Any:
    if name == "watch":
        from edgetrain.inside.watch import watch

        return watch
    raise AttributeError(f"module 'edgetrain' has no attribute {name!r}")
