"""The processes of a fleet: a scheduler on this machine and one worker per board, over TLS, here or on other hosts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib.util
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from edgetrain.errors import FleetError, UsageError
from edgetrain.fleet import agent
from edgetrain.fleet.agent import ProcessIds, ProcessName, ProcessStart
from edgetrain.fleet.board_work import device_there
from edgetrain.fleet.certificates import TlsFiles, tls_files, tls_paths
from edgetrain.fleet.hosts import Host, SshHost, ThisHost, ssh_command
from edgetrain.fleet.inventory import LOOPBACK, FleetBoard, FleetInventory
from edgetrain.fleet.supervisor import KEPT, USERS
from edgetrain.version import __version__

Answer = TypeVar("Answer")
SCHEDULER = "scheduler"
CONTROLLER = "controller"  # the name of this machine's certificate
THERE = "~/.local/state/edgetrain/fleet"  # on boards with an address
GIVE_UP_S = 3600.0  # a worker elsewhere ends when its scheduler was gone for this long, unless `fleet up` started it
AT_ONCE = 16  # hosts spoken to at the same time
ANYWHERE = ("0.0.0.0", "::", "0")  # boards would be told to connect to these
QUEUE_S = 0.5
CONFIG = """distributed:
  comm: {{require-encryption: true, timeouts: {{connect: {lost_s}s, tcp: {lost_s}s}}}}
  scheduler:
    {{allowed-failures: 0, work-stealing: false, worker-ttl: 60s, active-memory-manager: {{start: false}},
     http: {{routes: []}}}}
  worker: {{profile: {{enabled: false}}, http: {{routes: []}}}}
  diagnostics: {{nvml: false}}
  admin:
    {{tick: {{interval: 10s, limit: 60s, cycle: 10s}},
     system-monitor: {{interval: 30s, disk: false, gil: {{enabled: false}}}}}}
"""


def fleet_home() -> Path:
    """Return where fleets keep keys, logs and the state of local boards."""
    named = os.environ.get("EDGETRAIN_FLEET_HOME")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "edgetrain" / "fleet"


class Fleet:
    """The processes of a fleet: what is started where, and who uses it."""

    def __init__(self, inventory: FleetInventory, home: Path | None = None) -> None:
        self.inventory = inventory
        self.home = ((home or fleet_home()) / inventory.name).absolute()

    # Where things are.

    def host_of(self, board: FleetBoard) -> Host:
        """Return the machine of a board."""
        return ThisHost() if board.address is None else SshHost(self.inventory, board)

    def home_of(self, board: FleetBoard) -> str:
        """Return the fleet's folder on a board's machine, as that machine reads it."""
        return str(self.home) if board.address is None else f"{self.inventory.state or THERE}/{self.inventory.name}"

    def folder_of(self, board: FleetBoard) -> str:
        """Return the folder of a board there: its store, its experiments and, of a simulated one, its files."""
        return f"{self.home_of(board)}/boards/{board.name}"

    def device_of(self, board: FleetBoard) -> str:
        """Return a device that this process can open and that has the board's power modes."""
        if board.address is None:
            return device_there(self.folder_of(board), board.device)
        return f"sim:{board.board}"

    def tls(self, name: str = CONTROLLER, address: str | None = None) -> TlsFiles:
        """Return the TLS files of one process."""
        return tls_files(self.home / "tls", name, address or self.inventory.listen)

    @property
    def address(self) -> str:
        """The scheduler's address; its port is chosen once where the inventory leaves it open."""
        port = self.inventory.port
        if port == 0:
            chosen = self.home / "port"
            with contextlib.suppress(OSError, ValueError):
                return _url(self.inventory.listen, int(chosen.read_text()))
            port = _free_port(self.inventory.listen)
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            chosen.write_text(str(port))
        return _url(self.inventory.listen, port)

    @property
    def known_address(self) -> str:
        """The scheduler's address as far as it is chosen."""
        if self.inventory.port == 0 and not (self.home / "port").exists():
            return _url(self.inventory.listen, "ANY")
        return self.address

    def listen_problem(self) -> str | None:
        """Return why the scheduler cannot listen where the inventory says, and what to do; None where it can."""
        listen, port = self.inventory.listen, self.inventory.port
        if listen in ANYWHERE:
            return f"`listen: {listen}` means every address of this machine; name the one that the boards can reach"
        if listen in (LOOPBACK, "localhost", "::1") and any(one.address for one in self.inventory.boards):
            return (
                f"boards with an address cannot reach a scheduler on {listen}; add `listen:` with an address of this "
                "machine that they can reach to the inventory"
            )
        if SCHEDULER in self.pids():
            return None
        try:
            _free_port(listen, port)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = f"another program listens there; stop it, or give the fleet {self.inventory.name} its own port"
            elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                reason = f"{reason}; name an address that this machine has"
            return f"the scheduler cannot listen on {listen} port {port} (`listen:`, `port:`): {reason}"
        return None

    # Starting and stopping.

    def up(self, boards: Sequence[FleetBoard] | None = None, keep: bool = False) -> dict[str, str]:
        """Start what is not running; return why boards could not be started, by name.

        With `keep` it stays until `down`; otherwise it ends with the last campaign that uses it.
        """
        if importlib.util.find_spec("distributed") is None:
            raise UsageError("a fleet needs dask; install it with: pip install 'edgetrain[fleet]'")
        problem = self.listen_problem()
        if problem is not None:
            raise UsageError(problem)
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if keep:
            (self.home / KEPT).touch()
        if self.inventory.port == 0 and not self.pids():
            (self.home / "port").unlink(missing_ok=True)
        assert self.address  # chooses the port
        self.tls(SCHEDULER)
        ThisHost().start(self.scheduler_start())
        asked = self.inventory.boards if boards is None else boards
        for one in asked:  # before the threads: they share the authority
            self.tls(one.name, one.address)
        return self.each(asked, self.start_board)[1]

    def scheduler_start(self) -> ProcessStart:
        """Return how the scheduler is started."""
        port = self.known_address.rpartition(":")[2]
        words = ["scheduler", "--port", port, *_common(self.inventory.listen), "--preload", "edgetrain.fleet.heartbeat"]
        words += tls_paths(self.home / "tls", SCHEDULER).options()
        return ProcessStart(str(self.home), SCHEDULER, tuple(words), self.config, lease=True)

    def worker_start(self, board: FleetBoard) -> ProcessStart:
        """Return how the worker of a board is started, without its TLS files."""
        here = board.address is None
        words = ["worker", self.known_address, *_common(board.address or LOOPBACK), "--name", board.name, "--no-nanny"]
        words += ["--nthreads", "2", "--nworkers", "1", "--memory-limit", "0", "--resources", "board=1"]
        words += ["--death-timeout", "60", "--local-directory", f"{{home}}/boards/{board.name}/dask"]
        words += [] if here else ["--worker-port", str(board.worker_port)]
        words += tls_paths(Path("{home}/tls"), board.name).options()
        give_up_s = None if here or (self.home / KEPT).exists() else GIVE_UP_S
        wait_for = self.known_address.removeprefix("tls://")
        return ProcessStart(self.home_of(board), board.name, tuple(words), self.config, {}, here, wait_for, give_up_s)

    def start_board(self, board: FleetBoard) -> ProcessIds:
        """Start the worker of a board; FleetError where its machine cannot be reached or has another edgetrain."""
        tls = self.tls(board.name, board.address)
        asked = self.worker_start(board)
        if board.address is not None:
            asked = replace(asked, tls={path.name: path.read_text() for path in (tls.ca, tls.cert, tls.key)})
        host = self.host_of(board)
        got = host.start(asked)
        if got.version != __version__:
            with contextlib.suppress(FleetError):
                host.stop(ProcessName(asked.home, asked.name))  # else it would get experiments that it may misread
            raise FleetError(
                f"{board.name} has edgetrain {got.version}, this machine {__version__}; install the same version there",
                host=board.name,
            )
        return got

    def commands(self) -> list[str]:
        """Return in words what `up` would start, where; changes nothing."""
        lines = [f"here: dask {' '.join(self.scheduler_start().arguments)}"]
        for one in self.inventory.boards:
            where = "here" if one.address is None else " ".join(ssh_command(self.inventory, one))
            start = self.worker_start(one)
            words = " ".join(start.arguments).replace("{home}", start.home)
            lines.append(f"{where}: dask {words}")
        return lines

    @property
    def config(self) -> str:
        """Dask's settings, as YAML."""
        return CONFIG.format(lost_s=f"{self.inventory.lost_after_s:g}")

    def down(self) -> dict[str, str]:
        """Stop the workers, then the scheduler; return why boards could not be stopped, by name.

        Together, workers hang and connect to the next scheduler.
        """
        (self.home / KEPT).unlink(missing_ok=True)
        remote = [one for one in self.inventory.boards if one.address is not None]
        problems = self.each(remote, lambda one: self.host_of(one).stop(ProcessName(self.home_of(one), one.name)))[1]
        agent.stop(self.home, [name for name in self.pids() if name != SCHEDULER])
        agent.stop(self.home, [SCHEDULER])
        return problems

    def pids(self) -> dict[str, ProcessIds]:
        """Return what runs of the fleet on this machine, by name."""
        return agent.running(self.home)

    def each(
        self, boards: Sequence[FleetBoard], do: Callable[[FleetBoard], Answer]
    ) -> tuple[dict[str, Answer], dict[str, str]]:
        """Do something for many boards at once; return the answers and what went wrong, by name."""
        answers: dict[str, Answer] = {}
        problems: dict[str, str] = {}

        def one(board: FleetBoard) -> None:
            try:
                answers[board.name] = do(board)
            except FleetError as error:
                problems[board.name] = str(error)

        if boards:
            with ThreadPoolExecutor(min(AT_ONCE, len(boards))) as pool:
                list(pool.map(one, boards))
        return answers, problems

    # Who uses it.

    @contextlib.contextmanager
    def reserved(
        self, boards: Sequence[FleetBoard], who: str, announce: Callable[[str], None] = lambda text: None
    ) -> Iterator[None]:
        """Reserve boards for one campaign; a second one on any of them waits here."""
        folder = self.home / "reserved"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.ExitStack() as held:
            for name in sorted(one.name for one in boards):  # in one order: two campaigns cannot wait for each other
                descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                held.callback(os.close, descriptor)
                said = ""
                while not _try_lock(descriptor, fcntl.LOCK_EX):
                    holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another campaign"
                    if holder != said:
                        announce(f"{name} is used by {holder}; waiting for it")
                    said = holder
                    time.sleep(QUEUE_S)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{who} (process {os.getpid()})".encode(), 0)
            yield

    @contextlib.contextmanager
    def running(self, boards: Sequence[FleetBoard] | None = None) -> Iterator[dict[str, str]]:
        """Have the fleet up for a while; the last user takes it down, unless `fleet up` was asked for.

        Gives why boards could not be started. When this process is killed, the supervisors see that nobody holds the
        lock any more, and end.
        """
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.home / USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            try:
                yield self.up(boards)
            finally:
                if not (self.home / KEPT).exists() and _try_lock(descriptor, fcntl.LOCK_EX):
                    self.down()
        finally:
            os.close(descriptor)

    def used(self) -> bool:
        """Return whether a campaign uses the fleet."""
        try:
            descriptor = os.open(self.home / USERS, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not _try_lock(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)


def _common(host: str) -> list[str]:
    return ["--protocol", "tls", "--host", _bracketed(host), "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _url(host: str, port: int | str) -> str:
    return f"tls://{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    """Return a host as it stands in an address: IPv6 needs brackets."""
    return f"[{host}]" if ":" in host else host


def _free_port(host: str, port: int = 0) -> int:
    """Return a port that can be listened on; OSError where this one cannot."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen(1)  # two may bind a port that nobody listens on
        return int(probe.getsockname()[1])
