"""The inventory of a fleet: which boards there are, where they are and what they are labelled with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgetrain.device import BoardName
from edgetrain.errors import UsageError
from edgetrain.runner import Placement
from edgetrain.yaml_files import Lines, read_yaml

LOCAL = "local"  # the built-in inventory: four simulated boards on this machine
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
BOARD_KEYS = ("name", "board", "device", "address", "user", "storage", "labels", "python", "ssh_port", "worker_port")
FLEET_KEYS = ("name", "listen", "port", "state", "python", "identity", "known_hosts", "lost_after_s", "boards")
DEFAULT_PORT = 8786
WORKER_PORT = 8788
LOST_AFTER_S = 30.0
MIN_LOST_S = 12  # Dask sends ten probes, one per second
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class FleetBoard:
    """One board of a fleet. Without an address it is a process on this machine."""

    name: str
    board: str  # its kind: orin-nano
    device: str = "auto"  # as `--device` names it; sim:orin-nano?unit=3 is simulated
    address: str | None = None
    user: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)  # medium: where it is mounted
    labels: tuple[str, ...] = ()
    python: str | None = None  # of the Python there that has edgetrain; default: the fleet's, else python3
    ssh_port: int | None = None
    worker_port: int = WORKER_PORT  # where its worker listens; on this machine any free one on loopback

    @property
    def simulated(self) -> bool:
        """Whether a model replaces the hardware."""
        return self.device.startswith("sim:")


@dataclass(frozen=True, slots=True)
class FleetInventory:
    """The boards of a fleet and where its scheduler listens."""

    name: str
    boards: tuple[FleetBoard, ...]
    listen: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    state: str | None = None  # folder on each board with an address; default: in the user's state folder
    python: str | None = None  # on boards with an address
    identity: str | None = None  # private key file for ssh; default: what ssh uses
    known_hosts: str | None = None  # host keys for ssh; default: what ssh uses
    lost_after_s: float = LOST_AFTER_S  # a board that does not answer for this long is lost

    def board(self, name: str) -> FleetBoard:
        """Return a board by its name."""
        for one in self.boards:
            if one.name == name:
                return one
        raise UsageError(
            f"the fleet {self.name} has no board {name!r}; it has {', '.join(b.name for b in self.boards)}"
        )

    def fitting(self, place: Placement) -> tuple[FleetBoard, ...]:
        """Return the boards on which a plan may run; UsageError where there is none."""
        for name in place.units or ():
            self.board(name)
        found = tuple(one for one in self.boards if _fits(one, place))
        if not found:
            raise UsageError(
                f"no board of the fleet {self.name} fits the plan's `place` ({_spell(place)}); it has "
                + ", ".join(f"{one.name} ({one.board})" for one in self.boards)
            )
        return found


def _fits(one: FleetBoard, place: Placement) -> bool:
    return (
        (place.board is None or one.board == place.board)
        and (place.medium is None or place.medium in one.storage)
        and (place.units is None or one.name in place.units)
        and set(place.label or ()) <= set(one.labels)
    )


def _spell(place: Placement) -> str:
    asked = (("board", place.board), ("medium", place.medium), ("units", place.units), ("label", place.label))
    return ", ".join(f"{name} {value}" for name, value in asked if value is not None) or "any board"


def local_inventory(kinds: Sequence[str] = ("orin-nano", "orin-nano", "nano", "xavier-nx")) -> FleetInventory:
    """Return simulated boards on this machine, each kind's units numbered from 1."""
    boards, counted = [], dict.fromkeys(kinds, 0)
    for kind in kinds:
        counted[kind] += 1
        unit = counted[kind]
        boards.append(FleetBoard(f"{kind}-{unit}", kind, f"sim:{kind}?unit={unit}", storage={"ssd": "/"}))
    return FleetInventory(LOCAL, tuple(boards), port=0)


def read_inventory(path: Path | str) -> FleetInventory:
    """Read fleet.yaml, or return the built-in fleet for `local`; a mistake is named with its line."""
    if str(path) == LOCAL:
        return local_inventory()
    document, lines = read_yaml(path, "inventory")
    _refuse_unknown(document, FLEET_KEYS, (), lines)
    rows = document.get("boards")
    if not isinstance(rows, list) or not rows:
        raise lines.mistake(("boards",), "an inventory lists its boards: `boards:` and one `- name: ...` per board")
    name = _name(document.get("name"), ("name",), lines)
    boards: list[FleetBoard] = []
    for at, row in enumerate(rows):
        one = _board(row, at, lines)
        if one.name in {known.name for known in boards}:
            raise lines.mistake(("boards", at, "name"), f"a second board is named {one.name!r}; names must differ")
        boards.append(one)
    ports = [(one.address, one.worker_port) for one in boards if one.address is not None]
    if len(set(ports)) < len(ports):
        raise lines.mistake(("boards",), "two boards have the same address and worker_port; one of them must differ")
    listen = _host(document.get("listen", LOOPBACK), ("listen",), lines) or LOOPBACK
    lost_after_s = document.get("lost_after_s", LOST_AFTER_S)
    if (
        not isinstance(lost_after_s, int | float)
        or isinstance(lost_after_s, bool)
        or not MIN_LOST_S <= lost_after_s <= 3600
    ):
        raise lines.mistake(
            ("lost_after_s",), f"lost_after_s is a number of seconds from 12 to 3600, not {lost_after_s!r}"
        )
    state, python, identity, known_hosts = (
        _path(document.get(key), (key,), lines) for key in ("state", "python", "identity", "known_hosts")
    )
    return FleetInventory(
        name, tuple(boards), listen, _port(document.get("port", DEFAULT_PORT), ("port",), lines), state, python,
        identity, known_hosts, float(lost_after_s),
    )  # fmt: skip


def _board(row: Any, at: int, lines: Lines) -> FleetBoard:
    place = ("boards", at)
    if not isinstance(row, dict):
        raise lines.mistake(place, "a board is a mapping with name and board")
    _refuse_unknown(row, BOARD_KEYS, place, lines)
    name = _name(row.get("name"), (*place, "name"), lines)
    kind, device = row.get("board"), row.get("device", "auto")
    if not isinstance(device, str):
        raise lines.mistake((*place, "device"), "device is auto, jetson or sim:orin-nano?unit=3")
    if device.startswith("sim:"):
        try:
            simulated = BoardName.parse(device.removeprefix("sim:")).board
        except UsageError as error:
            raise lines.mistake((*place, "device"), str(error)) from error
        if kind not in (None, simulated):
            raise lines.mistake((*place, "board"), f"board {name} is a {kind}, but its device simulates a {simulated}")
        kind = simulated
    if not isinstance(kind, str):
        raise lines.mistake(place, f"board {name}: say its kind, for example `board: orin-nano`")
    storage = row.get("storage", {})
    if not isinstance(storage, dict) or not all(isinstance(mount, str) for mount in storage.values()):
        raise lines.mistake((*place, "storage"), "storage maps a medium to its mount: {ssd: /mnt/ssd}")
    labels = row.get("labels", [])
    if not isinstance(labels, list):
        raise lines.mistake((*place, "labels"), "labels is a list: [rack=1, cooled]")
    address = _host(row.get("address"), (*place, "address"), lines)
    user = _host(row.get("user"), (*place, "user"), lines)
    ssh_port = row.get("ssh_port")
    return FleetBoard(
        name, kind, device, address, user, dict(storage), tuple(str(label) for label in labels),
        _path(row.get("python"), (*place, "python"), lines),
        None if ssh_port is None else _port(ssh_port, (*place, "ssh_port"), lines),
        _port(row.get("worker_port", WORKER_PORT), (*place, "worker_port"), lines),
    )  # fmt: skip


def _port(value: Any, place: tuple[str | int, ...], lines: Lines) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 65536:
        raise lines.mistake(place, f"{place[-1]} is a number from 0 to 65535, not {value!r}")
    return value


def _path(value: Any, place: tuple[str | int, ...], lines: Lines) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or value.startswith("-") or "\n" in value:
        raise lines.mistake(place, f"{place[-1]} is a path, not first '-'; found {value!r}")
    return value


def _name(value: Any, place: tuple[str | int, ...], lines: Lines) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise lines.mistake(place, f"a name is letters, digits, '_', '.' and '-', not first '-'; found {value!r}")
    return value


def _host(value: Any, place: tuple[str | int, ...], lines: Lines) -> str | None:
    """Return a host or user name as ssh may get it: one that starts with '-' would be read as an option."""
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_:.][A-Za-z0-9_:.%-]*", value):
        raise lines.mistake(
            place, f"{place[-1]} {value!r} is refused: letters, digits, '_', ':', '.', '-'; not first '-'"
        )
    return value


def _refuse_unknown(row: Mapping[Any, Any], known: Sequence[str], place: tuple[str | int, ...], lines: Lines) -> None:
    for key in row:
        if key not in known:
            raise lines.mistake((*place, key), f"there is no key {key!r} here; known: {', '.join(known)}")
