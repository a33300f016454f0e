"""The recorder that runs inside the user's training process: timers, hooks and writer.

It uses the standard library and Python 3.8 syntax only and imports no other edgetrain package, so that it works inside
a Python that edgetrain is not installed in. There it is loaded by path under the name `edgetrain_inside`;
imports inside this package are therefore relative.
"""

from .programs import has_recorder, ignoring_option, is_python

__all__ = ["has_recorder", "ignoring_option", "is_python"]
