"""NVIDIA GPUs through NVML, called by ctypes so that nothing needs installing beside training.

Each metric is tried once when the probe is built; one that this GPU or driver lacks has no column. Traps:
`nvmlDeviceGetPowerUsage` is a one-second mean on Hopper and on most Ampere parts, so the instantaneous field is
preferred for `gpu_power_w` where it exists; NVML counts GPUs in PCI order, CUDA by speed unless CUDA_DEVICE_ORDER is
set.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Collection, Sequence
from ctypes import byref, c_char_p, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
from typing import Any

from edgetrain.device.base import FAST_S, ProbeEvent
from edgetrain.device.refresh import measure_refresh_s
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import PowerSource
from edgetrain.units import HZ_PER_MHZ, W_PER_MW

LIBRARY = "libnvidia-ml.so.1"
J_PER_MJ = 1e-3
NAN = math.nan
_SM_CLOCK = 1
_POWER_AVERAGE, _POWER_INSTANT = 185, 186  # NVML_FI_DEV_POWER_*
_QUANTUM_W = 1e-3  # NVML reports whole milliwatts
_MOST_POWER_W = 10_000.0  # no accelerator draws more: a lost GPU answers 2^32 - 1
# nvml.h, nvmlClocksEventReason*: what lowers the clock, in words.
_SLOWED = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class _Value(ctypes.Union):
    _fields_ = [("d", ctypes.c_double), ("ui", c_uint), ("ull", c_ulonglong), ("sll", c_longlong)]


class _Field(ctypes.Structure):
    _fields_ = [
        ("field", c_uint),
        ("scope", c_uint),
        ("timestamp_us", c_longlong),
        ("latency_us", c_longlong),
        ("value_type", c_int),
        ("status", c_int),
        ("value", _Value),
    ]


class Nvml:
    """The library, initialised; closes itself once."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
            status = int(self._library.nvmlInit_v2())
        except (OSError, AttributeError) as error:
            raise ProbeUnavailable(f"no NVIDIA driver library {library}: {error}") from error
        if status:
            raise ProbeUnavailable(f"NVML does not start: {self._spell(status)}")
        self._open = True

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; without it all, in NVML's order."""
        count = c_uint()
        if self._library.nvmlDeviceGetCount_v2(byref(count)):
            return []
        found = []
        for index in range(count.value):
            handle = c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)) == 0:
                found.append(Gpu(self._library, handle, index))
        return visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))

    def driver(self) -> str | None:
        """Return the driver's version."""
        text = ctypes.create_string_buffer(96)
        status = self._library.nvmlSystemGetDriverVersion(text, c_uint(96))
        return None if status else text.value.decode("utf-8", "replace")

    def _spell(self, status: int) -> str:
        spell = self._library.nvmlErrorString
        spell.restype = c_char_p
        text = spell(status)
        return text.decode("utf-8", "replace") if text else f"status {status}"

    def close(self) -> None:
        """Shut the library down; safe to call twice."""
        if self._open:
            self._open = False
            self._library.nvmlShutdown()


class Gpu:
    """One GPU: each method returns a number in our units, or NaN where NVML refused."""

    def __init__(self, library: Any, handle: c_void_p, index: int) -> None:
        self._library, self._handle, self.index = library, handle, index
        self._number, self._long = c_uint(), c_ulonglong()
        self._utilization, self._memory = _Utilization(), _Memory()
        self._field = _Field()

    def name(self) -> str | None:
        """Return the GPU's name."""
        return self._text("nvmlDeviceGetName")

    def uuid(self) -> str | None:
        """Return its identifier, as CUDA_VISIBLE_DEVICES knows it."""
        return self._text("nvmlDeviceGetUUID")

    def busy_share(self) -> float:
        """Return the share of the last sampling interval in which a kernel ran."""
        if self._library.nvmlDeviceGetUtilizationRates(self._handle, byref(self._utilization)):
            return NAN
        percent = int(self._utilization.gpu)
        return percent / 100 if percent <= 100 else NAN

    def clock_hz(self) -> float:
        """Return the streaming multiprocessors' clock."""
        if self._library.nvmlDeviceGetClockInfo(self._handle, c_int(_SM_CLOCK), byref(self._number)):
            return NAN
        return float(self._number.value * HZ_PER_MHZ)

    def memory_bytes(self) -> float:
        """Return the memory in use, by all processes on this GPU and the driver."""
        failed = self._library.nvmlDeviceGetMemoryInfo(self._handle, byref(self._memory))
        return NAN if failed else float(self._memory.used)

    def memory_total_bytes(self) -> float:
        """Return the memory it has."""
        failed = self._library.nvmlDeviceGetMemoryInfo(self._handle, byref(self._memory))
        return NAN if failed else float(self._memory.total)

    def temp_c(self) -> float:
        """Return the die's temperature."""
        failed = self._library.nvmlDeviceGetTemperature(self._handle, c_int(0), byref(self._number))
        return NAN if failed or self._number.value > 200 else float(self._number.value)

    def usage_w(self) -> float:
        """Return nvmlDeviceGetPowerUsage: on many parts a mean over the last second."""
        failed = self._library.nvmlDeviceGetPowerUsage(self._handle, byref(self._number))
        return NAN if failed else _watts(self._number.value)

    def instant_w(self) -> float:
        """Return the power now, where the driver has that field."""
        return self._field_w(_POWER_INSTANT)

    def average_w(self) -> float:
        """Return the one-second mean, where the driver has that field."""
        return self._field_w(_POWER_AVERAGE)

    def energy_j(self) -> float:
        """Return the joules since the driver was loaded (Volta and later)."""
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle, byref(self._long))
        return NAN if failed else self._long.value * J_PER_MJ

    def slowed_by(self) -> int:
        """Return the reasons that lower the clock as bits, 0 where none or not known."""
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            function = getattr(self._library, name, None)
            if function is not None:
                return 0 if function(self._handle, byref(self._long)) else int(self._long.value)
        return 0

    def _field_w(self, field: int) -> float:
        self._field.field, self._field.scope = field, 0
        failed = self._library.nvmlDeviceGetFieldValues(self._handle, c_int(1), byref(self._field))
        return NAN if failed or self._field.status else _watts(self._field.value.ui)

    def _text(self, function: str) -> str | None:
        text = ctypes.create_string_buffer(96)
        status = getattr(self._library, function)(self._handle, text, c_uint(96))
        return None if status else text.value.decode("utf-8", "replace")


POWER = ("power_w", "energy_j")  # metrics whose integral matters
STATE = ("share", "hz", "memory_bytes", "power_average_w", "temp_c")


class NvmlProbe:
    """Reads every visible GPU; columns `gpu_…` for the first one, `gpu1_…` and on for the others.

    `only` names the metrics wanted. Power and energy are read apart from the rest: on an H200 the whole row took
    3 ms, and a probe that slow is read so rarely that the integral of power suffers.
    """

    blocking = False

    def __init__(
        self, library: str = LIBRARY, only: Collection[str] | None = None, name: str = "gpu", period_s: float = FAST_S
    ) -> None:
        self.name = name
        self.period_s = period_s
        self._watches = only is None or "hz" in only  # throttle reasons belong to the clock
        self._nvml = Nvml(library)
        self.gpus = self._nvml.gpus()
        self._readers: list[Callable[[], float]] = []
        columns: list[str] = []
        for position, gpu in enumerate(self.gpus):
            prefix = f"gpu{position}" if position else "gpu"
            for column, reader in _metrics(gpu):
                if (only is None or column in only) and not math.isnan(_tried(reader)):
                    columns.append(f"{prefix}_{column}")
                    self._readers.append(reader)
        if not columns:
            self._nvml.close()
            raise ProbeUnavailable("NVML starts but shows no GPU that can be read here")
        self.columns: Sequence[str] = tuple(columns)
        self._slowed = 0
        self._events: list[ProbeEvent] = []

    def read(self) -> list[float]:
        """Return every metric now; NaN for one that failed this time."""
        row = [reader() for reader in self._readers]
        if not self._watches:
            return row
        slowed = self.gpus[0].slowed_by()
        new = slowed & ~self._slowed
        reasons = [words for bit, words in _SLOWED.items() if new & bit]
        if reasons:
            self._events.append(ProbeEvent("throttle", f"the GPU's clock is lowered by: {', '.join(reasons)}"))
        # Reported once: a power cap may come and go ten times a second.
        self._slowed |= slowed
        return row

    def pop_events(self) -> list[ProbeEvent]:
        """Return throttle reasons seen for the first time."""
        events, self._events = self._events, []
        return events

    def power_source(self, measure: bool = True) -> PowerSource | None:
        """Return the first visible GPU's power, its refresh period measured for a second.

        Other GPUs of the machine may be used by others; the manifest names the columns that are summed.
        """
        if "gpu_power_w" not in self.columns:
            return None
        refresh_s = self.refresh_s("gpu_power_w") if measure else None
        refresh_s = max(refresh_s, self.period_s) if refresh_s is not None else None
        counter = "gpu_energy_j" if "gpu_energy_j" in self.columns else None
        return PowerSource(self.name, ("gpu_power_w",), counter, "gpu", refresh_s, _QUANTUM_W)

    def refresh_s(self, column: str) -> float | None:
        """Return how often a reading has a new value, found by reading it fast for a second."""
        return measure_refresh_s(self._readers[list(self.columns).index(column)])

    def close(self) -> None:
        """Shut the library down."""
        self._nvml.close()


def gpu_names(library: str = LIBRARY) -> list[str]:
    """Return the names of the visible GPUs; none where there is no driver. No sensor is opened."""
    try:
        nvml = Nvml(library)
    except ProbeUnavailable:
        return []
    names = [gpu.name() or "GPU" for gpu in nvml.gpus()]
    nvml.close()
    return names


def visible(gpus: Sequence[Gpu], asked: str | None) -> list[Gpu]:
    """Return the GPUs that a CUDA_VISIBLE_DEVICES text leaves: indices or UUIDs, up to the first unknown one."""
    if asked is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for word in asked.split(","):
        word = word.strip()
        if word.isdecimal():
            match = [gpu for gpu in gpus if gpu.index == int(word)]
        else:
            match = [gpu for gpu in gpus if word and (gpu.uuid() or "").startswith(word)]
        if not match:
            break  # CUDA too ignores everything after an entry it does not know
        chosen.append(match[0])
    return chosen


def _metrics(gpu: Gpu) -> list[tuple[str, Callable[[], float]]]:
    power = gpu.instant_w if not math.isnan(_tried(gpu.instant_w)) else gpu.usage_w
    return [
        ("share", gpu.busy_share),
        ("hz", gpu.clock_hz),
        ("memory_bytes", gpu.memory_bytes),
        ("power_w", power),
        # Beside the instant one only: where there is none, power_w is this same reading.
        ("power_average_w", gpu.average_w if power == gpu.instant_w else _nothing),
        ("energy_j", gpu.energy_j),
        ("temp_c", gpu.temp_c),
    ]


def _tried(reader: Callable[[], float]) -> float:
    try:
        return reader()
    except AttributeError:  # an older library without this function
        return NAN


def _nothing() -> float:
    return NAN


def _watts(milliwatts: int) -> float:
    watts = milliwatts * W_PER_MW
    return watts if watts < _MOST_POWER_W else NAN
