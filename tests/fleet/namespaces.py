"""Hosts of a test fleet: network namespaces on one bridge, each with its own sshd and host key. Needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SSHD = "/usr/sbin/sshd"
BRIDGE = "etfleet0"
HERE = "10.77.83.1"
LISTEN = "0A"  # state of a listening socket in /proc/net/tcp


@dataclass(frozen=True)
class NamespaceHost:
    """One host: a namespace with an address and an sshd."""

    name: str
    address: str

    def cut_off(self) -> None:
        """Take its network down."""
        run("ip", "-n", self.name, "link", "set", "eth0", "down")

    def bring_back(self) -> None:
        """Take its network up again."""
        run("ip", "-n", self.name, "link", "set", "eth0", "up")

    def listening(self) -> set[tuple[str, int]]:
        """Return what listens in it, as (address, port) in hexadecimal and decimal; loopback apart."""
        return listening("ip", "netns", "exec", self.name)


@dataclass(frozen=True)
class NamespaceHosts:
    """All hosts, and how ssh reaches them."""

    folder: Path
    hosts: tuple[NamespaceHost, ...]
    identity: Path
    known_hosts: Path
    python: Path  # starts the tests' Python with our sources


def reason_not_here() -> str | None:
    """Return why there can be no such hosts here."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    if not Path(SSHD).exists() or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "needs sshd and ssh"
    if shutil.which("ip") is None or subprocess.run(["ip", "netns", "add", "etfprobe"], capture_output=True).returncode:
        return "network namespaces cannot be made here"
    subprocess.run(["ip", "netns", "del", "etfprobe"], check=False)
    return None


def run(*words: str) -> str:
    """Run a command that must succeed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def listening(*prefix: str) -> set[tuple[str, int]]:
    """Return the sockets that listen beyond loopback: (address in hexadecimal, port)."""
    found = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in run(*prefix, "cat", file).splitlines()[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            loopback = address.endswith("7F") or address == "0" * 24 + "01000000"
            if words[3] == LISTEN and not loopback:
                found.add((address, int(port, 16)))
    return found


@contextlib.contextmanager
def namespace_hosts(folder: Path, count: int) -> Iterator[NamespaceHosts]:
    """Make hosts on a bridge with this machine, and remove everything at the end."""
    names = [f"etf{number}" for number in range(1, count + 1)]
    servers: list[subprocess.Popen[bytes]] = []
    try:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{HERE}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        identity = folder / "id"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(identity))
        os.chmod(folder, 0o700)  # sshd refuses keys in folders that others may write
        known = folder / "known_hosts"
        hosts = []
        for number, name in enumerate(names, 1):
            host = NamespaceHost(name, f"10.77.83.{10 + number}")
            _add(host, number)
            servers.append(_serve(folder, host, identity, known))
            hosts.append(host)
        for host in hosts:
            _await_port(host)
        yield NamespaceHosts(folder, tuple(hosts), identity, known, _python(folder))
    finally:
        for server in servers:
            server.terminate()
            server.wait()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)


def _add(host: NamespaceHost, number: int) -> None:
    end = f"etfv{number}"
    run("ip", "netns", "add", host.name)
    run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    run("ip", "link", "set", end, "master", BRIDGE, "up")
    run("ip", "-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
    run("ip", "-n", host.name, "link", "set", "eth0", "up")
    run("ip", "-n", host.name, "link", "set", "lo", "up")


def _serve(folder: Path, host: NamespaceHost, identity: Path, known: Path) -> subprocess.Popen[bytes]:
    own = folder / host.name
    own.mkdir(mode=0o700)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(own / "host_key"))
    with open(known, "a") as file:
        file.write(f"{host.address} {(own / 'host_key.pub').read_text()}")
    shutil.copy(identity.with_suffix(".pub"), own / "authorized_keys")
    os.chmod(own / "authorized_keys", 0o600)
    config = own / "sshd_config"
    config.write_text(
        f"ListenAddress {host.address}\nHostKey {own}/host_key\nAuthorizedKeysFile {own}/authorized_keys\n"
        f"PasswordAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    command = ["ip", "netns", "exec", host.name, SSHD, "-D", "-e", "-f", str(config)]
    with open(own / "sshd.log", "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _await_port(host: NamespaceHost) -> None:
    until_s = time.monotonic() + 10
    while not host.listening():
        if time.monotonic() > until_s:
            raise RuntimeError(f"sshd of {host.name} did not start")
        time.sleep(0.05)


def _python(folder: Path) -> Path:
    """Return a program that starts this Python with our sources, as an installed edgetrain would be found."""
    sources = Path(__file__).resolve().parents[2] / "src"
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={sources} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path
