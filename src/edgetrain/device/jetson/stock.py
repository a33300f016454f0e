"""Whether a stock mode is in force, and whether changing to one needs a reboot; the board's files decide, not nvpmodel.

nvpmodel may refuse, ask for a reboot, or do nothing and end with status 0 (in a container it even writes its status
file). Its prompt means rebooting the machine: it is never answered with YES.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetrain.device.jetson.clocks import Clocks
from edgetrain.device.jetson.nvpmodel import Caps, NvpmodelConfig, active_mode, caps
from edgetrain.device.privileged import active_throttles, same
from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused
from edgetrain.units import HZ_PER_KHZ

_TROUBLE = re.compile(r"NVPM ERROR|Reboot required|Golden image context|Running in chroot", re.I)
# Thor keeps its mask in a file that the GPU's module reads when it is loaded.
_READ_AT_BOOT = ("/opt/", "/etc/")


@dataclass(frozen=True, slots=True)
class MaskChange:
    """A mask that switches parts of the GPU off, and would change."""

    name: str
    path: str | None
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.name} changes from {self.found} to {self.wanted}"


def gating_modes(modes: Sequence[Caps]) -> set[int]:
    """Return the ids of the modes that switch off parts of the GPU which another mode leaves on.

    A mask alone does not show that: Orin NX and Nano write 240 in their fullest mode, Xavier NX writes 1 in all.
    """
    always: dict[str, int] = {}
    numbers = {mode.id: {name: _mask(text) for name, text in mode.masks.items()} for mode in modes}
    for masks in numbers.values():
        for name, mask in masks.items():
            always[name] = always.get(name, mask) & mask
    return {id for id, masks in numbers.items() if any(mask & ~always[name] for name, mask in masks.items())}


def _mask(text: str) -> int:
    return max(int(text), 0) if re.fullmatch(r"-?\d+", text) else 0


def mask_changes(tree: Tree, config: NvpmodelConfig, then: Caps, present: tuple[int, ...]) -> list[MaskChange]:
    """Return the masks that a mode changes: against the board's files, else against the mode in force."""
    number = active_mode(tree)
    active = config.mode(number) if number is not None else None
    before = caps(config, active, present).masks if active else {}
    changes = []
    for name, wanted in then.masks.items():
        param, _, argument = name.partition(".")
        path = config.params[param].path(argument, tree.exists) if param in config.params else None
        # Thor's file holds `gpu_pg_mask_param=512`.
        numbers = re.findall(r"0x[0-9a-fA-F]+|\d+", (tree.text(path) or "") if path else "")
        found = str(int(numbers[-1], 0)) if numbers else before.get(name)
        if found is not None and found != wanted:
            changes.append(MaskChange(name, path, found, wanted))
    return changes


def reboot_reason(tree: Tree, clocks: Clocks, changes: list[MaskChange], undo: bool) -> str | None:
    """Return why changing masks needs a reboot, None where it does not; `undo`: also where only the way back would.

    Masks cannot change once a GPU context exists, which `golden_img_status` shows; where that file is missing it cannot
    be known, and the answer is the cautious one.
    """
    for change in changes:
        if change.path and change.path.startswith(_READ_AT_BOOT):
            return f"{change}, and the GPU reads it only when its driver is loaded"
        folders = [change.path.rsplit("/", 1)[0] if change.path else None, clocks.gpu_device]
        found = [tree.number(f"{folder}/golden_img_status") for folder in folders if folder]
        status = next((number for number in found if number is not None), None)
        if status is None:
            return f"{change}, and whether the GPU was used since boot cannot be seen (no golden_img_status)"
        if status == 1:
            return f"{change}, and the GPU was used since boot"
        if undo:
            return f"{change}, which could be set now but not undone after the GPU was used"
    return None


def check(
    tree: Tree, clocks: Clocks, config: NvpmodelConfig, wanted: Caps, answer: tuple[int, str], now: Mapping[str, int]
) -> list[str]:
    """Raise ControlRefused where a stock mode is not in force after nvpmodel has run; return doubts where it is.

    nvpmodel may end with an error although the mode is in force (R39.2, where the memory's cap cannot be read).
    """
    status, text = answer
    if status == 127:
        raise ControlRefused(
            "nvpmodel is not installed here (in a container? it belongs on the host); stock modes cannot be set",
            asked=f"{wanted.id} {wanted.name}",
        )
    wrong = differences(tree, clocks, wanted, now)
    wrong += [str(change) for change in mask_changes(tree, config, wanted, clocks.present)]
    said = " ".join(text.split())[:200] or "nothing"
    if not wrong:
        troubled = status != 0 or _TROUBLE.search(text) is not None
        ended = f"nvpmodel ended with status {status} and printed {said!r}, although the files show the mode in force"
        return [ended] if troubled else []
    reboot = bool(re.search(r"reboot", text, re.I))
    advice = (
        f"it needs a reboot: when nothing else runs, do it yourself with: sudo nvpmodel -m {wanted.id}"
        if reboot
        else "inside a container or chroot nvpmodel changes nothing: run it on the host"
        if "chroot" in text
        else f"try it by hand with: sudo nvpmodel -m {wanted.id}"
    )
    raise ControlRefused(
        f"asked nvpmodel for mode {wanted.id} {wanted.name}; it ended with status {status} and printed {said!r}; "
        f"{'; '.join(wrong[:3])}; {advice}",
        asked=f"{wanted.id} {wanted.name}",
        found=f"{active_mode(tree)}",
        reboot=reboot,
    )


def differences(tree: Tree, clocks: Clocks, wanted: Caps, now: Mapping[str, int]) -> list[str]:
    """Return how cores and maximum clocks differ from a stock mode; what heat lowers is no difference."""
    wrong = []
    hot = bool(active_throttles(tree))
    for core in clocks.present:
        online = now.get(f"cpu{core}.online")
        if online is not None and bool(online) != (core in wanted.cores):
            wrong.append(f"core {core} is {'on' if online else 'off'}line")
    for cluster in clocks.clusters:
        if not set(cluster.cores) & set(wanted.cores):
            continue
        given = [hertz for first, hertz in wanted.cpu_hz.items() if first in cluster.cores]
        wrong += _apart(f"{cluster.name}.max_khz", min(given, default=None), cluster.table_hz, now, hot)
    if clocks.gpu_table_hz:
        wrong += _apart("gpu.max_hz", wanted.gpu_hz, clocks.gpu_table_hz, now, hot)
    if wanted.emc_hz is not None:
        for name in ("emc.iso_cap_hz", "emc.clk_cap_hz", "emc.max_hz"):
            wrong += _apart(name, wanted.emc_hz, clocks.emc_table_hz, now, hot)
    return wrong


def _apart(name: str, cap_hz: int | None, table: tuple[int, ...], now: Mapping[str, int], hot: bool) -> list[str]:
    """Return in which way a maximum is not the one that a cap amounts to.

    Older kernels show a cap that is no clock of the table as written (1200 MHz), newer ones the clock below (1190.4).
    """
    found = now.get(name)
    if found is None:
        return []
    unit = HZ_PER_KHZ if name.endswith("khz") else 1
    top_hz, found_hz = below(cap_hz, table), below(found * unit, table)
    if same(name, top_hz // unit, found) or found_hz == top_hz or (hot and found_hz < top_hz):
        return []
    return [f"{name} reads {found}, not {top_hz // unit}"]


def below(cap_hz: int | None, table: tuple[int, ...]) -> int:
    """Return the table's clock that a cap amounts to: the kernel rounds down; its highest where there is no cap."""
    if not table:
        return cap_hz or 0
    # Files write 1331 or 918 MHz for clocks that the tables list as 1331.2 and 921.6: half a per cent is one clock.
    return max((hertz for hertz in table if cap_hz is None or hertz <= 1.005 * cap_hz), default=table[0])
