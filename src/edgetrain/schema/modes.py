"""The power modes a board has: its stock modes, and every combination of its clock tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetrain.errors import UsageError
from edgetrain.schema.device import PowerMode
from edgetrain.units import spell_hz

PREFIX = "MODE_"  # AGX boards print MODE_30W, others 30W: both spellings are accepted everywhere


@dataclass(frozen=True, slots=True)
class StockMode:
    """A mode the board ships with. The name is not a power budget: `mode` is what it really caps."""

    id: int
    name: str
    mode: PowerMode
    gated: tuple[tuple[str, str], ...] = ()  # masks of parts of the GPU, as its file writes them
    reboot: str | None = None  # why changing to it from the mode now in force needs a reboot
    default: bool = False
    active: bool = False
    gates_gpu: bool = False  # it switches parts of the GPU off that another stock mode of this board leaves on

    def is_called(self, text: str) -> bool:
        """Return whether a user means this mode: its id, or its name in any case, with or without `MODE_`."""
        word = text.strip().upper()
        return word == str(self.id) or word.removeprefix(PREFIX) == self.name.upper().removeprefix(PREFIX)


@dataclass(frozen=True, slots=True)
class ModeSpace:
    """Clock tables and stock modes. An empty table: the board has no such clock, or this user cannot see it."""

    cores: tuple[int, ...]
    cpu_hz: tuple[int, ...]
    gpu_hz: tuple[int, ...]
    emc_hz: tuple[int, ...]
    stock: tuple[StockMode, ...] = ()
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cores) * len(self.cpu_hz) * max(1, len(self.gpu_hz)) * max(1, len(self.emc_hz))

    def __iter__(self) -> Iterator[PowerMode]:
        gpus: Sequence[int | None] = self.gpu_hz or (None,)
        emcs: Sequence[int | None] = self.emc_hz or (None,)
        for cores, cpu, gpu, emc in itertools.product(self.cores, self.cpu_hz, gpus, emcs):
            yield PowerMode(cores, cpu, gpu, emc)

    def __contains__(self, mode: object) -> bool:
        return isinstance(mode, PowerMode) and not self._faults(mode)

    def _faults(self, mode: PowerMode) -> list[str]:
        faults = []
        if mode.cores not in self.cores:
            most = max(self.cores, default=0)
            faults.append(f"{mode.cores} cores (it has {min(self.cores, default=0)} to {most})")
        for name, value, table in (
            ("CPU", mode.cpu_hz, self.cpu_hz),
            ("GPU", mode.gpu_hz, self.gpu_hz),
            ("memory", mode.emc_hz, self.emc_hz),
        ):
            if value is None or value in table:
                continue
            if not table:
                faults.append(f"{name} {spell_hz(value)} (that clock cannot be set here)")
            else:
                near = min(table, key=lambda hertz: abs(hertz - (value or 0)))
                faults.append(f"{name} {spell_hz(value)} (nearest is {spell_hz(near)})")
        return faults

    def check(self, mode: PowerMode) -> PowerMode:
        """Return the mode, or raise UsageError: the kernel would silently round a clock that is not in its table."""
        faults = self._faults(mode)
        if faults:
            raise UsageError(f"this board has no mode with {', '.join(faults)}; edgetrain modes list shows its clocks")
        return mode

    def stock_called(self, text: str) -> StockMode | None:
        """Return the stock mode with this id or name, or None."""
        return next((stock for stock in self.stock if stock.is_called(text)), None)

    def find(self, text: str) -> StockMode | PowerMode:
        """Read a mode as people write it: id or name of a stock mode, or `8/1728/612/3199` in cores and MHz.

        Hertz and kilohertz are distinguished from megahertz by their size, and a clock within 1 MHz of one in the table
        (1300 for 1300.5) is the table's.
        """
        stock = self.stock_called(text)
        if stock is not None:
            return stock
        words = [word.strip() for word in text.replace(",", "/").replace("x", "/").split("/")]
        if len(words) not in (2, 3, 4):
            names = ", ".join(f"{stock.id} {stock.name}" for stock in self.stock) or "none"
            raise UsageError(
                f"cannot read {text!r} as a power mode; write cores/CPU/GPU/memory in MHz such as 8/1728/612.75/3199, "
                f"or one of the board's own: {names}"
            )
        try:
            numbers = [None if word in ("", "-", "–") else _number(word) for word in words]
            cores = int(numbers[0] or 0)
            if numbers[0] not in (None, cores):
                raise ValueError(f"{words[0]!r} is not a number of cores")
        except ValueError as error:
            raise UsageError(f"cannot read {text!r} as a power mode: {error}") from error
        tables = (self.cpu_hz, self.gpu_hz, self.emc_hz)
        clocks: list[int | None] = [
            None if number is None else _snap(number, table) for number, table in zip(numbers[1:], tables, strict=False)
        ]
        cpu, gpu, emc = (*clocks, None, None)[:3]
        if cpu is None:
            raise UsageError(f"{text!r} gives no CPU clock; write for example 8/1728/612.75/3199")
        return self.check(PowerMode(cores, cpu, gpu, emc))

    def find_mode(self, text: str) -> PowerMode:
        """Read a mode as people write it; a stock mode gives the clocks it amounts to, under its name."""
        found = self.find(text)
        return found.mode if isinstance(found, StockMode) else found


def _number(word: str) -> float:
    if not math.isfinite(number := float(word)):
        raise ValueError(f"{word!r} is not a clock")
    return number


def _snap(number: float, table: Sequence[int]) -> int:
    hertz = number * 1e6 if number < 1e5 else number * 1e3 if number < 1e8 and number * 1e3 <= 1e10 else number
    near = min(table, key=lambda value: abs(value - hertz), default=None)
    return near if near is not None and abs(near - hertz) <= 1e6 else round(hertz)
