"""The process that carries out one experiment on a board: `python -m edgetrain.fleet.experiment REQUEST.json`.

It holds the experiment's lock while it lives and the board's lock while it measures: a second campaign waits here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from edgetrain.documents import from_document, read_json, to_document
from edgetrain.errors import EdgetrainError
from edgetrain.fleet.board_work import (
    BoardOutcome,
    BoardRequest,
    device_there,
    hold_board,
    hold_lock,
    known_outcome,
    list_record,
    write_whole,
)
from edgetrain.record import FolderStore, FolderWriter
from edgetrain.runner import execute, wait_until_quiet

TRIES = 100  # to take the experiment's own lock, which others only check


def main(path: str) -> int:
    """Carry the request out and write its outcome."""
    request = from_document(BoardRequest, read_json(Path(path).read_bytes()))
    folder = Path(request.folder).expanduser()
    with hold_lock(request.home / "lock", TRIES) as mine:
        if not mine or known_outcome(request) is not None:
            return 0
        with hold_board(folder, request.device):
            outcome = _outcome(request, FolderStore(folder / "store"))
            text = json.dumps(to_document(outcome))
            write_whole(request.home / f"outcome-{request.attempt}.json", text.encode())
            time.sleep(request.cool_down_s)
    return 0


def _outcome(request: BoardRequest, store: FolderStore) -> BoardOutcome:
    start_s = time.monotonic()
    try:
        run = _finished_before(request, store)
        if run is None:
            (request.home / "begun").touch()
            settle = request.settle
            quiet = wait_until_quiet(settle.busy, settle.temp_c, settle.wait_s)
            device = device_there(request.folder, request.device)
            done = execute(request.experiment, device, store, like=request.like)
            if done.status:
                reason = f"the command ended with status {done.status}"
                return BoardOutcome("failed", request.attempt, done.run, reason)
            run = done.run
            if quiet.doubt:
                FolderWriter(store.locate(run)).event("doubt", quiet.doubt, doubt="not_quiet")
        took_s = time.monotonic() - start_s
        return BoardOutcome("done", request.attempt, run, None, took_s, list_record(store.locate(run)))
    except EdgetrainError as error:
        return BoardOutcome("failed", request.attempt, error.run, str(error))
    except OSError as error:
        reason = f"{error.strerror or error} ({error.filename or store.path} on the board)"
        return BoardOutcome("failed", request.attempt, None, reason)


def _finished_before(request: BoardRequest, store: FolderStore) -> str | None:
    """Return the run of a process that was killed between the end of its run and its outcome."""
    if not (request.home / "begun").exists():
        return None
    asked = request.experiment
    for row in store.runs():
        if row.campaign == request.campaign and row.state == "finished" and row.run not in request.damaged:
            found = store.manifest(row.run).experiment
            if found is not None and (found.factors, found.repeat, found.position) == (
                asked.factors,
                asked.repeat,
                asked.position,
            ):
                return row.run
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
