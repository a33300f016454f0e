"""Flower's processes: which version is installed, its command lines and environment, without calls to the outside.

Ports, options and defaults differ between versions; 1.30 to 1.39 open every port on all interfaces by
default. Here everything that a board or a user need not reach stays on loopback.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import UsageError
from edgetrain.federated.messages import RecordValues
from edgetrain.flower_versions import HTTP_FROM, OLDEST

LOOPBACK = "127.0.0.1"
# The option that keeps a SuperLink from installing an app's dependencies over the network exists from here on.
NO_INSTALL_FROM = (1, 32)


def flower_environment(home: Path, install: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a Flower process: no telemetry, no update check, its programs on the PATH."""
    before = dict(os.environ if base is None else base)
    return {
        **before,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",  # a second outgoing call, apart from the telemetry
        "PATH": os.pathsep.join([str(install), before.get("PATH", "")]),
    }


@dataclass(frozen=True, slots=True)
class FlowerInstall:
    """One installation of Flower: the `bin` folder of its virtual environment, and its version."""

    bin: Path
    version: str

    @classmethod
    def find(cls, bin_folder: Path) -> FlowerInstall:
        """Read the version of the Flower in a virtual environment."""
        code = "from importlib.metadata import version; print(version('flwr'))"
        try:
            done = subprocess.run([bin_folder / "python", "-c", code], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(
                f"there is no Flower in {bin_folder.parent}; install it with: "
                f"{bin_folder}/pip install 'edgetrain-….whl[federated]' (`make wheel` builds the wheel)"
            ) from error
        return cls(bin_folder, done.stdout.strip())

    @property
    def parts(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def superlink(self, port: int, host: str = LOOPBACK, security: Sequence[str] = ("--insecure",)) -> list[str]:
        """Return the command of a SuperLink that boards reach at `host` and `port`; its other ports are on loopback.

        Up to 1.39 the ports after `port` are used for the ServerApp and for control.
        """
        if self.parts < OLDEST:
            raise UsageError(f"Flower {self.version} was never tried; install 1.30 or later")
        command = [str(self.bin / "flower-superlink"), *security]
        if self.parts >= NO_INSTALL_FROM:
            command.append("--disable-runtime-dependency-installation")
        if self.parts >= HTTP_FROM:
            return [*command, "--host", host, "--port", str(port)]
        command += ["--fleet-api-address", f"{host}:{port}"]
        command += ["--serverappio-api-address", f"{LOOPBACK}:{port + 1}"]
        return [*command, "--control-api-address", f"{LOOPBACK}:{self.control_port(port)}"]

    def control_port(self, port: int) -> int:
        """Return the port that `flwr run` uses of a SuperLink that boards reach at `port`."""
        return port if self.parts >= HTTP_FROM else port + 2

    def supernode(
        self, superlink: str, port: int, node_config: RecordValues, security: Sequence[str] = ("--insecure",)
    ) -> list[str]:
        """Return the command of a SuperNode; `port` is its own, on loopback, different for each on one machine."""
        command = [str(self.bin / "flower-supernode"), *security, "--superlink", superlink]
        if self.parts >= HTTP_FROM:
            command += ["--host", LOOPBACK, "--port", str(port)]
        else:
            command += ["--clientappio-api-address", f"{LOOPBACK}:{port}"]
        return [*command, "--node-config", spell_config(node_config)]


def spell_config(values: RecordValues) -> str:
    """Spell a node config as SuperNodes read it: `unit="nano-3" number=1`."""
    return " ".join(f"{key}={_spell(value)}" for key, value in values.items())


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    text = str(value)
    if '"' in text or "\n" in text:
        raise UsageError(f"a node config cannot hold quotes or line breaks: {text!r}")
    return f'"{text}"'
