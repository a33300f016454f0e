"""Changes a board's stock mode through nvpmodel, which may refuse, ask for a reboot, or do nothing and say nothing.

We never answer YES: nvpmodel's prompt means rebooting the machine. Standard input says `n`, the text is read, and
whatever it claims the board's files decide whether the mode is in force.
"""

from __future__ import annotations

import re

from edgetrain.device.jetson import nvpmodel
from edgetrain.device.jetson.clocks import CPU, Clocks, policy_folder
from edgetrain.device.jetson.nvpmodel import Caps, Config
from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused
from edgetrain.units import HZ_PER_KHZ

_TROUBLE = re.compile(r"NVPM ERROR|Reboot required|Golden image context", re.I)


def switch(tree: Tree, clocks: Clocks, config: Config, identity: int) -> None:
    """Put a stock mode in force and check that it is; ControlRefused where it is not."""
    stock = config.mode(str(identity))
    if stock is None:
        known = ", ".join(f"{mode.id} {mode.name}" for mode in config.modes)
        raise ControlRefused(f"the board has no stock mode {identity}; it has {known}", asked=identity, found=None)
    wanted = nvpmodel.caps(config, stock, clocks.present)
    answer = tree.run("nvpmodel", ["-m", str(identity)])
    if answer is None:
        raise ControlRefused(
            "nvpmodel is not installed here (in a container? it belongs on the host); stock modes cannot be set",
            asked=identity,
            found=None,
        )
    trouble = _TROUBLE.search(answer.text)
    wrong = differences(tree, clocks, wanted)
    if trouble or wrong or answer.status != 0:
        said = " ".join(answer.text.split())[:200] or "nothing"
        reboot = bool(re.search(r"reboot", answer.text, re.I))
        advice = (
            f"it wants a reboot: when nothing else runs, do it yourself with: sudo nvpmodel -m {identity}"
            if reboot
            else "try it by hand with: sudo nvpmodel -m " + str(identity)
        )
        raise ControlRefused(
            f"asked nvpmodel for mode {identity} {stock.name}, it ended with {answer.status} and said {said!r}; "
            f"{'; '.join(wrong[:3]) or 'the files show the mode in force'}; {advice}",
            asked=identity,
            found=nvpmodel.active_mode(tree),
            reboot=reboot,
        )


def differences(tree: Tree, clocks: Clocks, wanted: Caps) -> list[str]:
    """Return how the board differs from a stock mode, reading status, cores, CPU, GPU and memory caps."""
    wrong = []
    active = nvpmodel.active_mode(tree)
    if active is not None and active != wanted.id:
        wrong.append(f"nvpmodel's status says mode {active}, not {wanted.id}")
    for core in clocks.present:
        if core:
            online = tree.number(f"{CPU}/cpu{core}/online")
            if online is not None and bool(online) != (core in wanted.cores):
                wrong.append(f"core {core} is {'on' if online else 'off'}line")
    for core, cap_hz in wanted.cpu_hz.items():
        if core in wanted.cores:
            khz = tree.number(f"{policy_folder(tree, clocks, core)}/scaling_max_freq")
            if khz is not None and khz * HZ_PER_KHZ > cap_hz:
                wrong.append(f"CPU {core} may run at {khz / 1000:g} MHz, above its cap of {cap_hz / 1e6:g}")
    if clocks.gpu and wanted.gpu_hz is not None:
        top_hz = tree.number(f"{clocks.gpu}/max_freq")
        if top_hz is not None and top_hz > wanted.gpu_hz:
            wrong.append(f"the GPU may run at {top_hz / 1e6:g} MHz, above its cap of {wanted.gpu_hz / 1e6:g}")
    if clocks.emc.cap and wanted.emc_hz is not None:
        cap_hz_now = tree.number(clocks.emc.cap)
        if cap_hz_now is not None and (cap_hz_now == 0 or cap_hz_now > wanted.emc_hz):
            wrong.append(f"the memory cap reads {cap_hz_now}, not {wanted.emc_hz}")
    return wrong
