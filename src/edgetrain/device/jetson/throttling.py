"""Reads what slows a Jetson down: cooling devices, over-current counters and alarms, the cap of each CPU cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetrain.device.base import SLOW_S, ProbeEvent
from edgetrain.device.jetson.rails import Rails
from edgetrain.device.jetson.reader import Reader
from edgetrain.device.privileged import CPU, is_throttle
from edgetrain.device.tree import Tree
from edgetrain.errors import ProbeUnavailable
from edgetrain.units import HZ_PER_KHZ

OVER_CURRENT = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon*"
# NVIDIA's driver tegra234-oc-event: what each counter counts since boot.
_COUNTED = {"oc1": "under-voltage", "oc2": "average over-current", "oc3": "instantaneous over-current"}


class ThrottleProbe:
    """Throttling as it happens: `_state` and `_alarm` above 0 while active, `_events` counted since boot."""

    name = "alarms"
    period_s = SLOW_S
    blocking = False

    def __init__(self, tree: Tree, rails: Rails) -> None:
        files: dict[str, str] = {}
        for column, name in rails.alarms:
            files.setdefault(column, name)
        for folder in tree.glob("/sys/class/thermal/cooling_device*"):
            kind = tree.text(f"{folder}/type") or ""
            if is_throttle(kind) and tree.exists(f"{folder}/cur_state"):
                files.setdefault(f"{kind}_state", f"{folder}/cur_state")
        monitors = tree.glob("/sys/class/hwmon/hwmon*")
        counting = [folder for folder in monitors if tree.text(f"{folder}/name") == "soctherm_oc"]
        for folder in (*tree.glob(OVER_CURRENT), *counting):
            for name in tree.glob(f"{folder}/oc[123]_event_cnt"):
                files.setdefault(f"{name.rsplit('/', 1)[1].split('_')[0]}_events", name)
        if not files:
            raise ProbeUnavailable("this board shows no over-current alarm and no cooling device")
        for folder in tree.glob(f"{CPU}/cpufreq/policy[0-9]*"):
            files[f"cpu{folder.rsplit('policy', 1)[1]}_cap_hz"] = f"{folder}/scaling_max_freq"
        self.columns: Sequence[str] = list(files)
        self._reader = Reader(tree, list(files.values()))
        self._before: dict[str, float] = {}
        self._events: list[ProbeEvent] = []

    def read(self) -> Sequence[float]:
        """Return every state, alarm and counter, and the cap of each cluster."""
        row = []
        for index, column in enumerate(self.columns):
            scale = HZ_PER_KHZ if column.endswith("_hz") else 1.0
            value = self._reader.number(index, scale)
            row.append(value)
            self._notice(column, value)
        return row

    def _notice(self, column: str, value: float) -> None:
        # A counter has a past; a state or an alarm that is raised at the first reading is worth an event.
        before = self._before.get(column, value if column.endswith("_events") else 0.0)
        if column.endswith("_state") and value > 0 and not before > 0:
            self._events.append(ProbeEvent("throttle", f"{column.removesuffix('_state')} slows the board down"))
        elif column.endswith("_alarm") and value > 0 and not before > 0:
            self._events.append(ProbeEvent("over_current", f"{column} was raised"))
        elif column.endswith("_events") and value > before:
            what = _COUNTED.get(column.removesuffix("_events"), column)
            self._events.append(ProbeEvent("throttle", f"{what} throttled the board {value - before:g} times"))
        if value == value:
            self._before[column] = value

    def pop_events(self) -> Iterable[ProbeEvent]:
        """Return throttling and alarms that began since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()
