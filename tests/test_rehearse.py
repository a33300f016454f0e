"""The rehearsal's serial line: each command gets its own output, however the line cuts it into pieces."""

from __future__ import annotations

import importlib.util
import re
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools/rehearse"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rehearse() -> ModuleType:
    return load("rehearse")


def answer_in_pieces(line: socket.socket, outputs: list[str], status: str) -> None:
    """Answer each command with its output and status, cut after every character of the status and its newline."""
    for output in outputs:
        asked = ""
        while asked.count("\n") < 2:
            asked += line.recv(4096).decode()
        mark = re.findall(r"echo END''(\w+) ", asked)[0]
        line.sendall(f"{output}END{mark} ".encode())
        for piece in f"{status}\r\n":
            time.sleep(0.02)
            line.sendall(piece.encode())


def test_a_newline_that_comes_late_is_not_the_next_commands(rehearse: ModuleType) -> None:
    ours, theirs = socket.socketpair()
    guest = threading.Thread(target=answer_in_pieces, args=(theirs, ["one\r\n", "two\r\n", ""], "127"))
    guest.start()
    shell = rehearse.SerialShell(ours)
    answers = [shell.run(command) for command in ("echo one", "echo two", "true")]
    guest.join()
    shell.close()
    theirs.close()
    assert [answer.text for answer in answers] == ["one\n", "two\n", ""]
    assert [answer.status for answer in answers] == [127, 127, 127]


def test_settings_are_compared_by_file_whatever_else_the_line_carried(rehearse: ModuleType) -> None:
    checks = load("checks")

    class Board:
        """A guest whose shell announces the end of a background job among the settings."""

        def __init__(self) -> None:
            self.texts = [
                "\n[1] + Done  sleep 60\n/sys/a 1\n/sys/b cat: /sys/b: Device or resource busy\n",
                "/sys/a 1\n/sys/b cat: /sys/b: Device or resource busy\n",
                "/sys/a 2\n",
            ]

        def run(self, command: str) -> object:
            return rehearse.Answer(0, self.texts.pop(0))

    board = Board()
    before = checks.settings_of(board)
    checks.expect_as_before(before, board)
    with pytest.raises(AssertionError, match=r"/sys/a was 1, is 2; /sys/b was .* is None"):
        checks.expect_as_before(before, board)
