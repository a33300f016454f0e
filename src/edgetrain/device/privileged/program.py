"""The program itself: requests as lines of JSON on standard input, and the check that only root can change this file.

Part of edgetrain-control: Python 3.6, standard library only.
"""

import json
import os
import signal
import stat
import sys
from typing import IO, Any, Dict, List, Optional

from edgetrain.device.privileged.files import ControlError, Files
from edgetrain.device.privileged.journal import to_json
from edgetrain.device.privileged.transaction import BoardTransaction

MAX_REQUEST = 1 << 16
USAGE = "usage: edgetrain-control session | restore"


def unsafe_reason(path: str) -> Optional[str]:
    """Return why a program must not be run as root: a user other than root could change it. None: it is safe."""
    if os.path.realpath(path) != os.path.abspath(path):
        return "%s is reached through a symbolic link" % path
    part = os.path.abspath(path)
    while True:
        try:
            state = os.lstat(part)
        except OSError as error:
            return "%s: %s" % (part, error.strerror)
        if state.st_uid != 0:
            return "%s belongs to user %d, not to root" % (part, state.st_uid)
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "%s can be written by others than root (mode %o)" % (part, stat.S_IMODE(state.st_mode))
        if part == os.path.dirname(part):
            return None
        part = os.path.dirname(part)


def answer(board: BoardTransaction, request: Dict[str, Any]) -> Any:
    """Carry out one request and return what is to be said about it."""
    what = request.get("do")
    if what == "read":
        return board.read()
    if what == "held":
        entry = board.held()
        return None if entry is None else to_json(entry)
    if what == "begin":
        return board.begin(str(request["asked"]), bool(request["keep"]), dict(request["instead"]))
    if what == "write":
        return board.write(dict(request["values"]))
    if what == "full_fan":
        return board.full_fan()
    if what == "set_stock":
        return board.set_stock(request["number"])
    if what == "keep":
        return board.keep()
    if what in ("restore", "repair"):
        report = board.restore() if what == "restore" else board.repair()
        return None if report is None else report._asdict()
    raise ControlError("unknown request %r" % (what,))


def serve(files: Files, requests: IO[str], answers: IO[str]) -> int:
    """Answer requests until they end; then put back what was to be held only as long as the caller lives."""
    board = BoardTransaction(files)
    try:
        for line in iter(lambda: requests.readline(MAX_REQUEST), ""):
            try:
                said: Dict[str, Any] = {"answer": answer(board, json.loads(line))}
            except ControlError as error:
                said = {"error": str(error)}
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                said = {"error": "a request that cannot be read: %s" % error}
            except OSError as error:
                said = {"error": "%s: %s" % (error.filename, error.strerror)}
            answers.write(json.dumps(said) + "\n")
            answers.flush()
    finally:
        board.close()
    return 0


def main(arguments: List[str]) -> int:
    """Run as a program."""
    reason = unsafe_reason(os.path.abspath(__file__)) if os.geteuid() == 0 else None
    if reason is None and not sys.flags.isolated:
        reason = "it was not started with /usr/bin/python3 -I"
    if reason is not None:
        sys.stderr.write("edgetrain-control: refusing to work: %s\n" % reason)
        return 1
    # The caller's terminal must not end us before the board is put back; the end of standard input does.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        if arguments == ["session"]:
            return serve(Files("/"), sys.stdin, sys.stdout)
        if arguments == ["restore"]:
            report = BoardTransaction(Files("/")).restore()
            sys.stdout.write(json.dumps(report._asdict() if report else None) + "\n")
            return 1 if report and report.left else 0
    except (ControlError, OSError) as error:
        sys.stderr.write("edgetrain-control: %s\n" % error)
        return 1
    sys.stderr.write(USAGE + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
