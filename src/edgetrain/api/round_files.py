"""Reads round.yaml: the fleet, the network, the deadline, and per device its data, links, limits and what it can do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetrain.api.round_modes import catalogue_modes, kind_spread, predictor_modes, read_recorded, table_modes
from edgetrain.errors import BadTable, EdgetrainError, UsageError
from edgetrain.fleet import LOCAL, FleetBoard, FleetInventory, read_inventory
from edgetrain.recommendation import RecordedRounds, RoundDevice, RoundModes, RoundRules, SharedSlowdown, parse_quantity
from edgetrain.schema import DEFAULT_BATCH_SIZE, Doubt
from edgetrain.units import parse_bytes
from edgetrain.yaml_files import Lines, Place, read_yaml

ROUND_KEYS = (
    "name", "fleet", "network", "batch_size", "model", "deadline", "epochs", "sit_out", "least_devices", "late",
    "rounds", "spread", "defaults", "kinds", "devices",
)  # fmt: skip
DEVICE_KEYS = (
    "name", "samples", "table", "predictor", "catalogue", "idle_w", "max_power", "download", "upload", "available",
    "answers", "time_factor",
)  # fmt: skip
SPREAD_KEYS = ("shared", "transfer", "recorded", "unit_time", "run_time")
EARLY = "as early as possible"
_BITS = {"": 1.0, "bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9}
BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class RoundFile:
    """A round as its file describes it."""

    name: str
    fleet: str
    network: str
    devices: tuple[RoundDevice, ...]
    rules: RoundRules
    doubts: tuple[Doubt, ...]


def read_round(path: Path | str) -> RoundFile:
    """Read round.yaml; a mistake is named with its file and line."""
    path = Path(path)
    document, lines = read_yaml(path, "round")
    return _Reader(path, document, lines).read()


class _Reader:
    def __init__(self, path: Path, document: dict[Any, Any], lines: Lines) -> None:
        self.folder, self.document, self.lines = path.parent, document, lines
        self.modes: dict[tuple[str, str, str, float | None], RoundModes] = {}
        self.label: str | None = None

    def read(self) -> RoundFile:
        _refuse_unknown(self.document, ROUND_KEYS, (), self.lines)
        name, network = self._word("name"), self._word("network")
        inventory = self._inventory()
        rules = self._rules()
        own = self._own_settings(inventory)
        kinds = self._mapping(self.document.get("kinds", {}), ("kinds",))
        here = sorted({board.board for board in inventory.boards})
        for kind in kinds:
            if kind not in here:
                raise self.lines.mistake(
                    ("kinds", kind),
                    f"the fleet {inventory.name} has no board of the kind {kind!r}; it has {_few(here)}",
                )
            self._settings(kinds[kind], ("kinds", kind))
        defaults = self._settings(self.document.get("defaults", {}), ("defaults",))
        assumed = []
        devices = []
        for board in inventory.boards:
            place, mine = own.get(board.name, (("devices",), {}))
            layers = [(place, mine), (("kinds", board.board), kinds.get(board.board, {})), (("defaults",), defaults)]
            devices.append(self._device(board, network, [(at, found) for at, found in layers if found], rules.recorded))
            if kind_spread(board.board)[1] and board.board not in assumed:
                assumed.append(board.board)
        doubts = []
        if assumed and rules.recorded is None:
            text = f"{', '.join(assumed)}: how units differ is not published; taken as for AGX Xavier"
            doubts.append(Doubt("spread_assumed", text))
        given = [defaults, *kinds.values(), *(found for _, found in own.values())]
        if "model" not in self.document and any(key in found for found in given for key in ("download", "upload")):
            text = "`model:`, the size of what is sent, is not given: download and upload take no time here"
            doubts.append(Doubt("transfers_unknown", text))
        return RoundFile(name, inventory.name, network, tuple(devices), rules, tuple(doubts))

    def _word(self, key: str) -> str:
        value = self.document.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.lines.mistake((key,), f"a round needs `{key}:`, a word; found {value!r}")
        return value

    def _inventory(self) -> FleetInventory:
        named = self._word("fleet")
        file = named if named == LOCAL else self.folder / named
        if file != LOCAL and not Path(file).is_file():
            raise self.lines.mistake(("fleet",), f"the inventory {named} does not exist; give the path of fleet.yaml")
        return read_inventory(file)

    def _rules(self) -> RoundRules:
        doc, spread = self.document, self._mapping(self.document.get("spread", {}), ("spread",))
        _refuse_unknown(spread, SPREAD_KEYS, ("spread",), self.lines)
        most, least = self._epochs()
        deadline = doc.get("deadline", EARLY)
        with _at(self.lines, ("deadline",)):
            deadline_s = None if deadline == EARLY else parse_quantity(deadline, "time")
        with _at(self.lines, ("sit_out",)):
            sit_out = _boolean(doc.get("sit_out", False))
        with _at(self.lines, ("late",)):
            late = _number(doc.get("late", 0.05))
        with _at(self.lines, ("rounds",)):
            rounds = _whole(doc.get("rounds", 200))
        with _at(self.lines, ("least_devices",)):
            waits = doc.get("least_devices")
            least_devices = None if waits is None else _whole(waits)
            if least_devices is not None and not sit_out:
                raise UsageError("least_devices says how many must train; devices are left out with `sit_out: true`")
        with _at(self.lines, ("spread",)):
            shared, transfer = self._shared(spread.get("shared")), _number(spread.get("transfer", 0.0), 0.0)
        recorded = None
        if "recorded" in spread:
            with _at(self.lines, ("spread", "recorded")):
                recorded = read_recorded(self._file(spread["recorded"], ("spread", "recorded"), "recorded rounds"))
        with _at(self.lines, ()):
            return RoundRules(deadline_s, most, least, sit_out, least_devices, late, rounds, shared, transfer, recorded)

    def _epochs(self) -> tuple[int, int | None]:
        asked = self.document.get("epochs", 1)
        with _at(self.lines, ("epochs",)):
            if isinstance(asked, dict):
                _refuse_unknown(asked, ("most", "least"), ("epochs",), self.lines)
                most, least = _whole(asked.get("most", 1)), _whole(asked.get("least", 1))
                if least > most:
                    raise UsageError(f"the least number of epochs, {least}, is above the most, {most}")
                return most, least
            return _whole(asked), None

    def _shared(self, asked: Any) -> SharedSlowdown | None:
        if asked is None:
            return None
        place = ("spread", "shared")
        found = self._mapping(asked, place)
        _refuse_unknown(found, ("label", "chance", "slower"), place, self.lines)
        slower = found.get("slower")
        if not isinstance(slower, list) or len(slower) != 2:
            raise self.lines.mistake(place, "slower is a range of factors on the time: [1.05, 1.3]")
        self.label = str(found.get("label", "rack"))
        return SharedSlowdown(_number(found.get("chance"), 0.0), _number(slower[0]), _number(slower[1]))

    def _own_settings(self, inventory: FleetInventory) -> dict[str, tuple[Place, dict[Any, Any]]]:
        rows = self.document.get("devices", [])
        if not isinstance(rows, list):
            raise self.lines.mistake(("devices",), "devices is a list, one `- name: ...` per device")
        names = {board.name for board in inventory.boards}
        found: dict[str, tuple[Place, dict[Any, Any]]] = {}
        for at, row in enumerate(rows):
            place = ("devices", at)
            settings = self._settings(row, place)
            name = settings.get("name")
            if name not in names:
                raise self.lines.mistake(
                    (*place, "name"), f"the fleet {inventory.name} has no board {name!r}; it has {_few(sorted(names))}"
                )
            if name in found:
                raise self.lines.mistake((*place, "name"), f"a second device is named {name!r}; names must differ")
            found[str(name)] = (place, settings)
        return found

    def _settings(self, row: Any, place: Place) -> dict[Any, Any]:
        found = self._mapping(row, place)
        known = DEVICE_KEYS if place[0] == "devices" else DEVICE_KEYS[1:]
        _refuse_unknown(found, known, place, self.lines)
        return found

    def _mapping(self, value: Any, place: Place) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise self.lines.mistake(place, f"{place[-1]} is a mapping, `key: value`; found {value!r}")
        return value

    def _device(
        self,
        board: FleetBoard,
        network: str,
        layers: list[tuple[Place, dict[Any, Any]]],
        recorded: RecordedRounds | None,
    ) -> RoundDevice:
        def given(key: str, default: Any = None) -> tuple[Any, Place]:
            return next(((found[key], (*at, key)) for at, found in layers if key in found), (default, ("devices",)))

        samples, place = given("samples")
        if samples is None:
            raise self.lines.mistake(
                ("devices",),
                f"how many samples {board.name} trains on is not given; write `samples:` under it or `defaults:`",
            )
        with _at(self.lines, place):
            samples = _whole(samples)
        modes = self._modes(board, network, layers)
        download_s, upload_s = (self._transfer_s(*given(key)) for key in ("download", "upload"))
        available, place = given("available", 0.0)
        takes_part = available is not False
        with _at(self.lines, place):
            wait_s = 0.0 if isinstance(available, bool) or available in (0, 0.0) else parse_quantity(available, "time")
        power, place = given("max_power")
        with _at(self.lines, place):
            max_power_w = parse_quantity(power, "power")
        answers, place = given("answers", 1.0)
        with _at(self.lines, place):
            answers = _number(answers, 0.0)
        factor, place = given("time_factor")
        with _at(self.lines, place):
            factor = None if factor is None else _number(factor)
        if factor is None and recorded is not None:
            factor = recorded.factor(board.name)
        with _at(self.lines, layers[0][0] if layers else ()):
            return RoundDevice(
                board.name, board.board, modes, samples, download_s, upload_s, wait_s or 0.0, takes_part, answers,
                max_power_w, factor, self._group(board), self._spread(board),
            )  # fmt: skip

    def _spread(self, board: FleetBoard) -> Any:
        found, given = kind_spread(board.board)[0], self.document.get("spread", {})
        with _at(self.lines, ("spread",)):
            unit, run = (
                _number(given.get(key, known), 0.0)
                for key, known in (("unit_time", found.unit_time), ("run_time", found.run_time))
            )
        return replace(found, unit_time=unit, run_time=run)

    def _group(self, board: FleetBoard) -> str | None:
        """Return the group of a board: its label that starts with the label's name and `=`."""
        if self.label is None:
            return None
        return next((label for label in board.labels if label.split("=")[0] == self.label), None)

    def _modes(self, board: FleetBoard, network: str, layers: list[tuple[Place, dict[Any, Any]]]) -> RoundModes:
        batch = self.document.get("batch_size", DEFAULT_BATCH_SIZE)
        with _at(self.lines, ("batch_size",)):
            batch = _whole(batch)
        idle, place = next(
            ((found["idle_w"], (*at, "idle_w")) for at, found in layers if "idle_w" in found), (None, ())
        )
        with _at(self.lines, place):
            idle_w = None if idle is None else _number(idle)
        for at, found in layers:
            sources = [key for key in ("table", "predictor", "catalogue") if key in found]
            if len(sources) > 1:
                raise self.lines.mistake((*at, sources[1]), f"give one of {' and '.join(sources)}, not both")
            if sources:
                return self._source(sources[0], found[sources[0]], (*at, sources[0]), board, batch, idle_w)
        return self._source("catalogue", network, ("network",), board, batch, idle_w)

    def _source(
        self, kind: str, value: Any, place: Place, board: FleetBoard, batch: int, idle_w: float | None
    ) -> RoundModes:
        key = (kind, str(value), board.board, idle_w)
        if key not in self.modes:
            with _at(self.lines, place):
                if kind == "catalogue":
                    self.modes[key] = catalogue_modes(board.board, str(value), batch, idle_w)
                else:
                    read = table_modes if kind == "table" else predictor_modes
                    self.modes[key] = read(self._file(value, place, kind), board.board, batch, idle_w)
        return self.modes[key]

    def _file(self, value: Any, place: Place, what: str) -> Path:
        path = self.folder / str(value)
        if not path.is_file():
            raise self.lines.mistake(place, f"the {what} {value} does not exist (looked for {path})")
        return path

    def _transfer_s(self, rate: Any, place: Place) -> float:
        """Return the time of one transfer of the network's weights; no rate or no size: none is counted."""
        size = self.document.get("model")
        if rate is None or size is None:
            return 0.0
        with _at(self.lines, ("model",)):
            size_bytes = parse_bytes(str(size))
        with _at(self.lines, place):
            return BITS_PER_BYTE * size_bytes / _bits_per_s(rate)


class _at:
    """Names file and line in whatever goes wrong inside."""

    def __init__(self, lines: Lines, place: Place) -> None:
        self.lines, self.place = lines, place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BadTable) and str(error).startswith(f"{self.lines.name} line "):
            return
        if isinstance(error, (EdgetrainError, ValueError)):
            raise self.lines.mistake(self.place, str(error)) from error


def _bits_per_s(text: Any) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z/]*)\s*", str(text))
    if not match or match[2].lower() not in _BITS or float(match[1]) <= 0:
        raise UsageError(f"cannot read {text!r} as a rate above zero; write for example 50Mbit/s")
    return float(match[1]) * _BITS[match[2].lower()]


def _number(value: Any, least: float | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):
        raise UsageError(f"a number is needed, not {value!r}")
    if (least is None and value <= 0) or (least is not None and value < least):
        raise UsageError(
            f"a number {'above zero' if least is None else f'of at least {least:g}'} is needed, not {value:g}"
        )
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"a whole number of at least 1 is needed, not {value!r}")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"true or false is needed, not {value!r}")
    return value


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _refuse_unknown(row: Mapping[Any, Any], known: tuple[str, ...], place: Place, lines: Lines) -> None:
    for key in row:
        if key not in known:
            raise lines.mistake((*place, key), f"there is no key {key!r} here; known: {', '.join(known)}")
