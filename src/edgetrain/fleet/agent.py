"""Runs on the machine of a board: starts and stops its worker, reports facts about it.

`python -m edgetrain.fleet.agent start|stop|facts` reads one JSON document from stdin and prints one: plain SSH starts
it on other machines. On this machine the functions are called directly. It needs nothing but edgetrain's core, so that
it can say what is missing.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from edgetrain.documents import from_document, read_json, to_document
from edgetrain.errors import EdgetrainError
from edgetrain.version import __version__

STOP_S = 15.0
PACKAGES = ("dask", "distributed", "cryptography", "flwr")


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """A supervised process of a fleet: the scheduler, or the worker of one board."""

    home: str  # the fleet's folder on that machine
    name: str
    arguments: tuple[str, ...]  # of `python -m dask`
    config: str  # of Dask, YAML
    tls: Mapping[str, str] = field(default_factory=dict)  # file name: PEM text; empty where the files are there
    lease: bool = False  # ends with the last campaign that uses the fleet; on this machine only
    wait_for: str | None = None  # HOST:PORT
    give_up_s: float | None = None


@dataclass(frozen=True, slots=True)
class ProcessIds:
    """A process of a fleet that runs."""

    supervisor: int
    command: int | None  # None: it is being started, or waits for the scheduler
    version: str = __version__  # of edgetrain there


@dataclass(frozen=True, slots=True)
class ProcessName:
    """Which process of which fleet; `device` and `storage` are for its facts."""

    home: str
    name: str
    device: str = "auto"
    storage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a machine reports about itself."""

    began_at: float  # wall clock of that machine, at the first and at the last instruction
    ended_at: float
    user: str
    python: str
    versions: Mapping[str, str | None]  # None: not installed
    free_bytes: int | None
    writable: bool  # the fleet's folder
    modes: str | None  # None: power modes can be set (or there are none); else why not
    device: str | None  # what the device calls itself
    device_problem: str | None
    mounts: Mapping[str, str | None]  # storage medium: what is wrong with its folder
    processes: ProcessIds | None
    certificate: str | None = None  # PEM text


def start(asked: ProcessStart) -> ProcessIds:
    """Start a process under a supervisor; one that runs is left alone."""
    home = Path(asked.home).expanduser()
    (home / "run").mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in asked.tls.items():
        _write_private(home / "tls" / Path(name).name, text)
    _write_private(home / "dask.yaml", asked.config)
    known = running(home).get(asked.name)
    if known is not None:
        return known
    pid_file = home / "run" / f"{asked.name}.pid"
    options: list[str] = ["--lease", str(home)] if asked.lease else []
    options += ["--wait-for", asked.wait_for] if asked.wait_for else []
    options += ["--give-up-s", str(asked.give_up_s)] if asked.give_up_s is not None else []
    words = [word.replace("{home}", str(home)) for word in asked.arguments]
    command = [sys.executable, "-m", "edgetrain.fleet.supervisor", *options, str(pid_file), str(pid_file)[:-4] + ".log"]
    subprocess.Popen(
        [*command, sys.executable, "-m", "dask", *words], env={**os.environ, "DASK_CONFIG": str(home / "dask.yaml")},
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    until_s = time.monotonic() + STOP_S
    while time.monotonic() < until_s:
        known = running(home).get(asked.name)
        if known is not None:
            return known
        time.sleep(0.02)
    raise EdgetrainError(f"the supervisor of {asked.name} did not start; see {home}/run/{asked.name}.log")


def running(home: Path) -> dict[str, ProcessIds]:
    """Return what runs of a fleet on this machine, by name."""
    found = {}
    for path in sorted((home / "run").glob("*.pid")):
        with contextlib.suppress(OSError, ValueError):
            supervisor, command = map(int, path.read_text().split())
            words = Path(f"/proc/{supervisor}/cmdline").read_bytes()
            if b"edgetrain.fleet.supervisor" in words and str(path).encode() in words:
                found[path.stem] = ProcessIds(supervisor, command or None)
    return found


def stop(home: Path, names: Sequence[str]) -> None:
    """Stop processes of a fleet, together."""
    known = running(home)
    supervisors = [known[name].supervisor for name in names if name in known]
    for pid in supervisors:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until_s = time.monotonic() + STOP_S
    while any(_alive(pid) for pid in supervisors):
        if time.monotonic() > until_s:
            left = [pid for pid in supervisors if _alive(pid)]
            raise EdgetrainError(f"processes {left} of the fleet do not end; end them by hand: kill -9")
        time.sleep(0.05)


def facts(asked: ProcessName, began_at: float | None = None) -> HostFacts:
    """Return the facts of this machine; changes nothing."""
    began_at = time.time() if began_at is None else began_at
    home = Path(asked.home).expanduser()
    existing = home
    while not existing.exists():
        existing = existing.parent
    device, problem, modes = _device_facts(asked.device)
    cert = home / "tls" / f"{asked.name}.pem"
    return HostFacts(
        began_at, time.time(), getpass.getuser(), platform.python_version(), package_versions(),
        shutil.disk_usage(existing).free, os.access(existing, os.W_OK | os.X_OK), modes, device, problem,
        {medium: _mount_problem(Path(folder)) for medium, folder in asked.storage.items()},
        running(home).get(asked.name), cert.read_text() if cert.exists() else None,
    )  # fmt: skip


def _device_facts(name: str) -> tuple[str | None, str | None, str | None]:
    """Return what the device is, why it cannot be opened, and why its power modes cannot be set."""
    from edgetrain.device import ModeRequest, open_device

    if not name:
        return None, None, None  # not asked for
    if name.startswith("sim:"):
        return name.partition("@")[0], None, None  # a model: nothing can be missing
    try:
        device = open_device(name)
        control = device.control()
        if control is None or os.geteuid() == 0:
            return device.spec.name, None, None
        return device.spec.name, None, _modes_problem(control.closed(ModeRequest(mode=control.read())))
    except (EdgetrainError, OSError) as error:
        return None, str(error), None


def _modes_problem(closed: Sequence[str]) -> str | None:
    from edgetrain.device import control_problem, may_elevate

    if not closed or (control_problem() is None and may_elevate()):
        return None
    return f"this user may not write {closed[0]}; `edgetrain doctor` there shows how to allow it"


def _mount_problem(folder: Path) -> str | None:
    if not folder.is_dir():
        return f"{folder} is not a folder there"
    return None if os.access(folder, os.R_OK | os.X_OK) else f"{folder} cannot be read by this user"


def package_versions() -> dict[str, str | None]:
    """Return the versions of edgetrain and of what a fleet needs; None: not installed."""
    found: dict[str, str | None] = {"edgetrain": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; one with this text is left alone."""
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(fresh, path)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # one that this process started and that ended is only left to be collected
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main(verb: str) -> int:
    """Carry out one request from stdin and print its answer; a failure is one line on stderr."""
    began_at = time.time()
    try:
        text = read_json(sys.stdin.buffer.read())
        if verb == "start":
            print(json.dumps(to_document(start(from_document(ProcessStart, text)))))
        elif verb == "stop":
            asked = from_document(ProcessName, text)
            stop(Path(asked.home).expanduser(), [asked.name])
            print(json.dumps(to_document(asked)))
        elif verb == "facts":
            print(json.dumps(to_document(facts(from_document(ProcessName, text), began_at))))
        else:
            print(f"edgetrain.fleet.agent: there is no request {verb!r}", file=sys.stderr)
            return 2
    except (EdgetrainError, OSError) as error:
        print(f"edgetrain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
