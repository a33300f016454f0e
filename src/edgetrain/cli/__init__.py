"""Reads arguments, calls one room, hands the answer to `report`; one file per verb.

A verb is a module in this folder that has `PANEL` (the group `--help` shows it in), `ORDER` (its place there) and
`register(app)`. It appears by being there. Only the standard library is imported here: whatever else is loaded while
`main` watches, so that Ctrl-C during the half second that takes is no traceback either.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130  # as shells say of a command that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 the thing asked about failed, 2 wrong usage."""
    try:
        from edgetrain.cli.app import run_verb

        status = run_verb(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stopped:
        print(f"edgetrain: {stopped if str(stopped) else 'interrupted'}", file=sys.stderr)
        status = INTERRUPTED
    if argv is None:
        sys.exit(status)
    return status
