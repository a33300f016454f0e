"""SuperLink and SuperNodes as processes of this machine: for trying a federation, for tests and for benchmarks.

    with LocalFederation(install, folder, nodes) as federation:
        federation.run(app, {"num-server-rounds": 3})

Everything listens on loopback, without TLS. A federation over a network needs certificates and registered keys: see
docs/flower.md.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.federated.messages import RecordValues
from edgetrain.federated.processes import LOOPBACK, FlowerInstall, flower_environment, spell_config
from edgetrain.flower_versions import version_problem

START_S = 60.0
STOP_S = 10.0
NAME = "local"  # of the SuperLink in Flower's configuration


class LocalFederation:
    """One SuperLink and its SuperNodes. `nodes` are their node configs by name; logs are in `folder`."""

    def __init__(
        self,
        install: FlowerInstall,
        folder: Path,
        nodes: Mapping[str, RecordValues],
        node_install: FlowerInstall | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        problem = version_problem(install.version, (node_install or install).version, "each board")
        if problem:
            raise UsageError(problem)
        self._install, self._node_install = install, node_install or install
        self._folder, self._nodes = folder, dict(nodes)
        self._extra = dict(environment or {})
        self._port = _free_ports()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LocalFederation:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the SuperLink, wait until it listens, then start every SuperNode."""
        home = self._folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        control = self._install.control_port(self._port)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{NAME}"\n[superlink.{NAME}]\naddress = "{LOOPBACK}:{control}"\ninsecure = true\n'
        )
        self._spawn("superlink", self._install, self._install.superlink(self._port))
        self._wait_listening(self._port)
        self._wait_listening(control)
        for number, name in enumerate(self._nodes):
            self.start_node(name, number)

    def start_node(self, name: str, number: int | None = None) -> None:
        """Start one SuperNode, for example again after it was killed."""
        place = list(self._nodes).index(name) if number is None else number
        superlink = f"{LOOPBACK}:{self._port}"
        command = self._node_install.supernode(superlink, self._port + 10 + place, self._nodes[name])
        self._spawn(name, self._node_install, command)

    def run(self, app: Path, config: RecordValues, limit_s: float) -> str:
        """Run an app to its end with `flwr run --stream`; return what was logged. EdgetrainError where it failed."""
        command = [str(self._install.bin / "flwr"), "run", str(app), NAME, "--stream"]
        if config:
            command += ["-c", spell_config(config)]
        environment = self._environment(self._install)
        try:
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s, text=True
            )
        except subprocess.TimeoutExpired as error:
            said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
            raise EdgetrainError(f"the run of {app} did not end within {limit_s:g} s: {said[-2000:]}") from error
        if done.returncode:
            raise EdgetrainError(f"flwr run ended with status {done.returncode}: {done.stdout[-2000:]}")
        return done.stdout

    def kill_node(self, name: str) -> None:
        """Kill a SuperNode and all it started, as a power cut would."""
        process = self.processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def pause_node(self, name: str) -> None:
        """Stop a SuperNode and all it started without ending them, as a board that hangs."""
        os.killpg(self.processes[name].pid, signal.SIGSTOP)

    def stop(self) -> None:
        """End everything: SuperNodes first."""
        for name in sorted(self.processes, key=lambda each: each == "superlink"):
            process = self.processes[name]
            for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    break
                if number == signal.SIGTERM:
                    _wait(process, STOP_S)
            process.wait()
        self.processes = {}

    def log_of(self, name: str) -> str:
        """Return what a process has logged so far."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _environment(self, install: FlowerInstall) -> dict[str, str]:
        return {**flower_environment(self._folder / "home", install.bin), **self._extra}

    def _spawn(self, name: str, install: FlowerInstall, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                env=self._environment(install),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,
            )

    def _wait_listening(self, port: int) -> None:
        until_s = time.monotonic() + START_S
        process = self.processes["superlink"]
        while time.monotonic() < until_s and process.poll() is None:
            with socket.socket() as probe:
                probe.settimeout(1.0)
                if probe.connect_ex((LOOPBACK, port)) == 0:
                    return
            time.sleep(0.2)
        raise EdgetrainError(
            f"the SuperLink does not listen on {LOOPBACK}:{port} after {START_S:g} s: {self.log_of('superlink')[-500:]}"
        )


def _free_ports() -> int:
    """Return a port with the next few free too, as far as can be seen."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return min(int(probe.getsockname()[1]), 65_000)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
