"""The settable state of a board as `path → value`, what a power mode means in it, and the order of writes.

The order is the trap. Cores must be online before their clock can be set, and go offline after. A minimum must not
pass its maximum on older kernels, so the maximum is raised first and the minimum lowered first; where the kernel
wants it the other way round, control tries that too. The memory cap is set before the rate is held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from edgetrain.device.jetson.clocks import CPU, Clocks, policy_folder
from edgetrain.device.tree import Tree
from edgetrain.device.writes import State, Write
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ


def read_state(tree: Tree, clocks: Clocks) -> dict[str, str]:
    """Read every settable value that can be read now."""
    state: dict[str, str] = {}
    for core in clocks.present:
        if core:
            _take(tree, state, f"{CPU}/cpu{core}/online")
    for folder in dict.fromkeys(policy_folder(tree, clocks, core) for core in clocks.present):
        _take(tree, state, f"{folder}/scaling_max_freq")
        _take(tree, state, f"{folder}/scaling_min_freq")
    if clocks.gpu:
        _take(tree, state, f"{clocks.gpu}/max_freq")
        _take(tree, state, f"{clocks.gpu}/min_freq")
    emc = clocks.emc
    for name in (clocks.gpu_railgate, emc.cap, emc.max, emc.min, emc.lock):
        if name:
            _take(tree, state, name)
    if emc.set and emc.lock and state.get(emc.lock) == "1":
        # An unlocked rate moves by itself: only a held one is a setting. On tegra210 it is written in one file and
        # read in another.
        _take(tree, state, emc.set)
        if emc.set not in state and emc.rate:
            rate = tree.text(emc.rate)
            state.update({emc.set: rate.split()[0]} if rate else {})
    for name in clocks.idle_states:
        _take(tree, state, name)
    return state


def _take(tree: Tree, state: dict[str, str], name: str) -> None:
    text = tree.text(name)
    if text:
        state[name] = text.split()[0]


def desired(
    tree: Tree,
    clocks: Clocks,
    mode: PowerMode,
    dvfs: bool,
    idle_states: bool,
    now: State,
    cluster_hz: Mapping[int, int] | None = None,
) -> dict[str, str]:
    """Return what the board's files hold in a power mode.

    `cluster_hz` gives the clock of each core that is to be on, where a stock mode chooses other cores than the lowest
    or caps its clusters apart; else the lowest cores run at the mode's clock.

    `dvfs` off holds every clock at the mode's value (minimum = maximum, memory locked), as `jetson_clocks` does;
    on, the mode's values are ceilings and the governors move below them.
    """
    wanted: dict[str, str] = {}
    # The lowest cores stay: core 0 cannot go, and filling a cluster before the next one is what nvpmodel does.
    on = cluster_hz or dict.fromkeys(clocks.present[: mode.cores], mode.cpu_hz)
    for core in clocks.present:
        name = f"{CPU}/cpu{core}/online"
        if core and (name in now or tree.exists(name)):
            wanted[name] = "1" if core in on else "0"
    for core in sorted(on):
        folder = policy_folder(tree, clocks, core)
        table = clocks.cluster_of(core).table_hz
        lowest = min(table, default=on[core])
        wanted[f"{folder}/scaling_max_freq"] = str(on[core] // HZ_PER_KHZ)
        wanted[f"{folder}/scaling_min_freq"] = str((lowest if dvfs else on[core]) // HZ_PER_KHZ)
    if clocks.gpu and mode.gpu_hz is not None:
        lowest = min(clocks.gpu_table_hz, default=mode.gpu_hz)
        wanted[f"{clocks.gpu}/max_freq"] = str(mode.gpu_hz)
        wanted[f"{clocks.gpu}/min_freq"] = str(lowest if dvfs else mode.gpu_hz)
        if clocks.gpu_railgate:
            wanted[clocks.gpu_railgate] = "1" if dvfs else "0"
    emc = clocks.emc
    if mode.emc_hz is not None:
        highest = mode.emc_hz == max(emc.table_hz, default=0)
        if emc.cap:
            # Writing the true maximum is reported not to work; 0 means no cap.
            wanted[emc.cap] = "0" if highest else str(mode.emc_hz)
        if emc.max and emc.min:
            wanted[emc.max] = str(mode.emc_hz)
            wanted[emc.min] = str(min(emc.table_hz, default=mode.emc_hz) if dvfs else mode.emc_hz)
        if emc.lock and emc.set:
            wanted[emc.lock] = "0" if dvfs else "1"
            if not dvfs:
                wanted[emc.set] = str(mode.emc_hz)
    for name in clocks.idle_states:
        if any(f"/cpu{core}/" in name for core in on):
            wanted[name] = "0" if idle_states else "1"
    return wanted


def freed(clocks: Clocks, now: State) -> dict[str, str]:
    """Return the state with nothing held from below: nvpmodel cannot set a maximum under a minimum we hold."""
    wanted = {}
    for name in now:
        if name.endswith("/scaling_min_freq"):
            number = re.search(r"/(?:policy|cpu)(\d+)/", name)
            table = clocks.cluster_of(int(number[1]) if number else 0).table_hz
            if table:
                wanted[name] = str(table[0] // HZ_PER_KHZ)
                wanted[name.replace("_min_", "_max_")] = now[name.replace("_min_", "_max_")]
    if clocks.gpu and clocks.gpu_table_hz:
        wanted[f"{clocks.gpu}/min_freq"] = str(clocks.gpu_table_hz[0])
        wanted[f"{clocks.gpu}/max_freq"] = now[f"{clocks.gpu}/max_freq"]
    if clocks.emc.lock and clocks.emc.lock in now:
        wanted[clocks.emc.lock] = "0"
    return wanted


def writes(clocks: Clocks, wanted: State, now: State) -> Iterator[Write]:
    """Return the writes that lead from one state to another, in an order that boards accept."""
    emc = clocks.emc
    online = [f"{CPU}/cpu{core}/online" for core in clocks.present if core]
    for name in online:
        if wanted.get(name) == "1" and now.get(name) != "1":
            yield Write(name, "1", now.get(name))
    pairs = [name for name in wanted if name.endswith("/scaling_max_freq")]
    pairs += [name for name in (f"{clocks.gpu}/max_freq", emc.max) if name and name in wanted]
    for top in pairs:
        bottom = top.replace("scaling_max_freq", "scaling_min_freq").replace("/max_freq", "/min_freq")
        yield from _pair(top, bottom, wanted, now)
    if clocks.gpu_railgate and clocks.gpu_railgate in wanted:
        yield Write(clocks.gpu_railgate, wanted[clocks.gpu_railgate], now.get(clocks.gpu_railgate))
    for held in (emc.cap, emc.lock, emc.set):
        if held and held in wanted:
            yield Write(held, wanted[held], now.get(held))
    for name in clocks.idle_states:
        if name in wanted:
            yield Write(name, wanted[name], now.get(name))
    for name in reversed(online):
        if wanted.get(name) == "0" and now.get(name) != "0":
            yield Write(name, "0", now.get(name))


def _pair(top: str, bottom: str, wanted: State, now: State) -> Iterator[Write]:
    high = Write(top, wanted[top], now.get(top), bottom)
    if bottom not in wanted:
        yield high
        return
    low = Write(bottom, wanted[bottom], now.get(bottom), top)
    try:
        raising = int(wanted[top]) >= int(now.get(bottom, "0"))
    except ValueError:
        raising = True
    yield from (high, low) if raising else (low, high)
