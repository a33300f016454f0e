"""Turns a record into what it means: steady state, where time and energy went, why the loop stood still, and doubts.

Pure: it reads a Run and returns a Digest; it never touches hardware. A Digest's `document()` is the JSON that `run`,
`profile` and `show` all give.
"""

from edgetrain.analysis.digest import Digest, digest

__all__ = ["Digest", "digest"]
