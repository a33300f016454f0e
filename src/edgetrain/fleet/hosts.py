"""The machines of a fleet: this one, and others over plain SSH with their host keys checked."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from edgetrain.documents import from_document, read_json, to_document
from edgetrain.errors import EdgetrainError, FleetError
from edgetrain.fleet import agent
from edgetrain.fleet.agent import HostFacts, ProcessIds, ProcessName, ProcessStart
from edgetrain.fleet.inventory import FleetBoard, FleetInventory
from edgetrain.version import __version__

CONNECT_S = 10
Answer = TypeVar("Answer")
ANSWER_S = 60.0  # opening a device and importing on a slow board included


@dataclass(frozen=True, slots=True)
class TimedFacts:
    """The facts of a host, and when they were asked for and received, by this machine's wall clock."""

    facts: HostFacts
    asked_at: float
    received_at: float


class Host(Protocol):
    """A machine on which a fleet's processes are started and stopped; a failure is a FleetError."""

    def start(self, asked: ProcessStart) -> ProcessIds:
        """Start a supervised process; one that runs is left alone."""

    def stop(self, asked: ProcessName) -> None:
        """Stop a process and its supervisor."""

    def facts(self, asked: ProcessName) -> TimedFacts:
        """Return what the machine reports about itself."""


class ThisHost:
    """The machine that this process runs on."""

    def start(self, asked: ProcessStart) -> ProcessIds:
        """Start a supervised process; one that runs is left alone."""
        with _named(asked.name):
            return agent.start(asked)

    def stop(self, asked: ProcessName) -> None:
        """Stop a process and its supervisor."""
        with _named(asked.name):
            agent.stop(Path(asked.home).expanduser(), [asked.name])

    def facts(self, asked: ProcessName) -> TimedFacts:
        """Return what the machine reports about itself."""
        with _named(asked.name):
            found = agent.facts(asked)
        return TimedFacts(found, found.began_at, found.ended_at)


@contextlib.contextmanager
def _named(process: str) -> Iterator[None]:
    """Name the process in whatever goes wrong on this machine."""
    try:
        yield
    except FleetError:
        raise
    except EdgetrainError as error:
        raise FleetError(f"{process}: {error}", host=process) from error
    except OSError as error:
        raise FleetError(f"{process}: {error.strerror or error} ({error.filename})", host=process) from error


class SshHost:
    """A machine reached over ssh; `python` there has edgetrain."""

    def __init__(self, inventory: FleetInventory, board: FleetBoard) -> None:
        self.board = board
        self._command = ssh_command(inventory, board)
        self._python = board.python or inventory.python or "python3"
        self._login = login(inventory, board)

    def start(self, asked: ProcessStart) -> ProcessIds:
        """Start a supervised process; one that runs is left alone."""
        return self._ask("start", asked, ProcessIds)

    def stop(self, asked: ProcessName) -> None:
        """Stop a process and its supervisor."""
        self._ask("stop", asked, ProcessName)

    def facts(self, asked: ProcessName) -> TimedFacts:
        """Return what the machine reports about itself."""
        asked_at = time.time()
        found = self._ask("facts", asked, HostFacts)
        return TimedFacts(found, asked_at, time.time())

    def _ask(self, verb: str, asked: ProcessStart | ProcessName, kind: type[Answer]) -> Answer:
        words = [self._python, "-m", "edgetrain.fleet.agent", verb]
        text = json.dumps(to_document(asked))
        try:
            done = subprocess.run(
                [*self._command, spell_command(words)], input=text, capture_output=True, text=True, timeout=ANSWER_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise self._error(f"gave no answer within {ANSWER_S:.0f} s; is it overloaded or cut off?") from error
        except OSError as error:
            raise self._error(f"ssh cannot be started here ({error.strerror}); install an ssh client") from error
        if done.returncode:
            raise self._error(explain(done.returncode, done.stderr, words, self._login))
        try:
            return from_document(kind, read_json(done.stdout.strip().rpartition("\n")[2]))
        except (ValueError, EdgetrainError) as error:
            raise self._error(
                f"answered {done.stdout[:80]!r}, which edgetrain {__version__} does not understand; install the same "
                "version there"
            ) from error

    def _error(self, text: str) -> FleetError:
        return FleetError(f"{self.board.name} ({self.board.address}): {text}", host=self.board.name)


def ssh_command(inventory: FleetInventory, board: FleetBoard) -> list[str]:
    """Return the ssh command of a board without what it runs there; nobody is asked anything, host keys are checked."""
    address = board.address or ""
    for word in (address, board.user or ""):
        if word.startswith("-"):
            raise FleetError(f"the name {word!r} begins with '-' and is refused: ssh would read an option")
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={CONNECT_S}"]
    options += ["ServerAliveInterval=5", "ServerAliveCountMax=3", "ForwardAgent=no", "ForwardX11=no"]
    if inventory.known_hosts is not None:
        options += [f"UserKnownHostsFile={Path(inventory.known_hosts).expanduser()}", "GlobalKnownHostsFile=/dev/null"]
    words = ["ssh", "-T", *(word for option in options for word in ("-o", option))]
    if inventory.identity is not None:
        words += ["-i", str(Path(inventory.identity).expanduser()), "-o", "IdentitiesOnly=yes"]
    if board.ssh_port is not None:
        words += ["-p", str(board.ssh_port)]
    if board.user is not None:
        words += ["-l", board.user]
    return [*words, "--", address]


def login(inventory: FleetInventory, board: FleetBoard) -> str:
    """Return what a person writes after `ssh` or `ssh-copy-id` to reach a board with the keys of the inventory."""
    words = [] if inventory.identity is None else ["-i", inventory.identity]
    words += [] if inventory.known_hosts is None else ["-o", f"UserKnownHostsFile={inventory.known_hosts}"]
    words += [] if board.ssh_port is None else ["-p", str(board.ssh_port)]
    return " ".join([*words, f"{board.user}@{board.address}" if board.user else str(board.address)])


def spell_command(words: Sequence[str]) -> str:
    """Spell a command for the shell of another machine; `~/` at its beginning is that user's home."""
    first, *others = words
    program = '"$HOME"/' + shlex.quote(first[2:]) if first.startswith("~/") else shlex.quote(first)
    return " ".join([program, *map(shlex.quote, others)])


def explain(status: int, errors: str, words: Sequence[str], by_hand: str = "USER@HOST") -> str:
    """Return what a failed ssh means, and what to do next; `by_hand` is what a person writes after `ssh`."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if not line.startswith("Traceback")), f"status {status}")
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in errors:
        return "its host key has changed: another machine may answer; compare its fingerprint, then: ssh-keygen -R HOST"
    if "Host key verification failed" in errors:
        return f"its host key is not known here; connect once by hand and compare the fingerprint: ssh {by_hand}"
    if status == 255 and "Permission denied" in errors:
        return f"ssh was refused ({said}); check user and key: ssh-copy-id {by_hand}"
    if status == 255:
        return f"cannot be reached by ssh ({said}); is it on, and is its address right?"
    if "No module named" in errors and "edgetrain" in errors:
        return f"{words[0]} there has no edgetrain; install 'edgetrain[fleet]' there, or name its `python:`"
    if status == 127 or "not found" in said:
        return f"there is no {words[0]} there ({said}); name its `python:` in the inventory"
    return said.removeprefix("edgetrain: ")
