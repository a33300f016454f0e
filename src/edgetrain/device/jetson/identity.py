"""What a Jetson is: module, chip, L4T and JetPack, RAM, serial. Unknown releases are named, never refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetrain.device.tree import Tree
from edgetrain.schema import DeviceSpec

# Chip → (family, compute capability of its GPU). Source: NVIDIA's L4T documentation.
CHIPS = {
    "tegra210": ("nano", "Maxwell, sm_53"),
    "tegra186": ("tx2", "Pascal, sm_62"),
    "tegra194": ("xavier", "Volta, sm_72"),
    "tegra234": ("orin", "Ampere, sm_87"),
    "tegra264": ("thor", "Blackwell, sm_110"),
}

# Module number (the longest prefix wins) → our short key and its usual name. Source: NVIDIA's flash configurations.
MODULES = {
    "p3448-0003": ("nano-2gb", "Jetson Nano 2 GB"),
    "p3448": ("nano", "Jetson Nano"),
    "p2180": ("tx1", "Jetson TX1"),
    "p2371-2180": ("tx1", "Jetson TX1"),  # the kit's number ends in the module's
    "p3310": ("tx2", "Jetson TX2"),
    "p3489": ("tx2", "Jetson TX2i / 4 GB"),
    "p3636": ("tx2-nx", "Jetson TX2 NX"),
    "p2888": ("xavier-agx", "Jetson AGX Xavier"),
    "p2972-0006": ("xavier-agx", "Jetson AGX Xavier 8 GB"),
    "p3668": ("xavier-nx", "Jetson Xavier NX"),
    "p3701-0004": ("orin-agx-32gb", "Jetson AGX Orin 32 GB"),
    "p3701-0005": ("orin-agx-64gb", "Jetson AGX Orin 64 GB"),
    "p3701-0008": ("orin-agx-industrial", "Jetson AGX Orin Industrial"),
    "p3701": ("orin-agx", "Jetson AGX Orin"),
    "p3767-0000": ("orin-nx", "Jetson Orin NX 16 GB"),
    "p3767-0001": ("orin-nx-8gb", "Jetson Orin NX 8 GB"),
    "p3767-0002": ("orin-nx", "Jetson Orin NX 16 GB"),
    "p3767-0004": ("orin-nano-4gb", "Jetson Orin Nano 4 GB"),
    "p3767": ("orin-nano", "Jetson Orin Nano 8 GB"),
    "p3834-0000": ("thor-t4000", "Jetson T4000"),
    "p3834": ("thor", "Jetson AGX Thor (T5000)"),
}
# Numbers of kits whose device trees name no module (those of the mainline kernel): read where no module is found.
KITS = {"p3450": "nano", "p3541": "nano-2gb", "p3542": "nano-2gb", "p2771": "tx2", "p2972": "xavier-agx"}
# Keys of modules that a later release gave faster clocks; the device tree then ends in `-super`.
SUPER = {"orin-nano": "orin-nano-super", "orin-nx": "orin-nx-super"}

# L4T major → JetPack major; 39.2 brings JetPack 7.2 to Orin. Minors are not mapped: every release would need an edit.
JETPACKS = {28: "3", 31: "4", 32: "4", 34: "5", 35: "5", 36: "6", 38: "7", 39: "7"}

# The key by chip, for a carrier whose device tree does not name the module.
CHIP_KEYS = {
    "tegra210": "nano",
    "tegra186": "tx2",
    "tegra194": "xavier-agx",
    "tegra234": "orin-agx",
    "tegra264": "thor",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What the board says of itself; None where it says nothing."""

    key: str  # our short name: orin-agx, nano, …; `jetson` where the module is not known
    model: str | None
    module: str | None  # p3701-0005
    chip: str | None  # tegra234
    l4t: str | None  # 36.4.4
    jetpack: str | None  # 6
    serial: str | None
    known: bool  # module and release are in our tables

    @property
    def family(self) -> str | None:
        """Return nano, tx2, xavier, orin or thor."""
        return CHIPS[self.chip][0] if self.chip in CHIPS else None


def identify(tree: Tree) -> Identity | None:
    """Read what the board is; None where the tree is not a Jetson's."""
    compatible = _first(tree, "compatible")
    chip = next((word.split(",")[1] for word in compatible if re.fullmatch(r"nvidia,tegra\d+\w*", word)), None)
    release = tree.text("/etc/nv_tegra_release")
    if chip is None and release is None:
        return None
    module = _module(tree, compatible)
    keys = {**KITS, **{name: key for name, (key, _) in MODULES.items()}}
    key = next((keys[name] for name in sorted(keys, key=len, reverse=True) if (module or "").startswith(name)), None)
    if key in SUPER and any("-super" in word for word in compatible):
        key = SUPER[key]
    l4t = read_l4t(release)
    jetpack = JETPACKS.get(int(l4t.split(".")[0])) if l4t else None
    model = next(iter(_first(tree, "model")), None)
    serial = next(iter(_first(tree, "serial-number")), None)
    return Identity(
        key=key or CHIP_KEYS.get(chip or "", "jetson"),
        model=model,
        module=module,
        chip=chip,
        l4t=l4t,
        jetpack=jetpack,
        serial=serial,
        known=key is not None and (l4t is None or jetpack is not None),
    )


def read_l4t(release: str | None) -> str | None:
    """Read `# R36 (release), REVISION: 4.4, …` as 36.4.4; None where it does not look like that."""
    match = re.search(r"R(\d+)\b.*?REVISION:\s*([0-9.]+)", release or "", re.S)
    return f"{match[1]}.{match[2].strip('.')}" if match else None


def _module(tree: Tree, compatible: list[str]) -> str | None:
    # Carrier and module may be in one word (p3449-0000+p3448-0000): a number we know wins over one we do not.
    words = [*compatible, *_first(tree, "nvidia,dtsfilename"), *_first(tree, "model")]
    numbers = [found for word in words for found in re.findall(r"p\d{4}(?:-\d{4})?", word)]
    for known in (MODULES, KITS):
        for number in numbers:
            if any(number.startswith(name) for name in known):
                return str(number)
    return str(numbers[0]) if numbers else None


def _first(tree: Tree, name: str) -> list[str]:
    for folder in ("/proc/device-tree", "/sys/firmware/devicetree/base"):
        found = tree.strings(f"{folder}/{name}")
        if found:
            return found
    return []


def describe(tree: Tree, identity: Identity, kind: str = "jetson") -> DeviceSpec:
    """Return the board as the record keeps it."""
    memory = re.search(r"MemTotal:\s*(\d+) kB", tree.text("/proc/meminfo") or "")
    present = expand(tree.text("/sys/devices/system/cpu/present") or "")
    kernel = (tree.text("/proc/sys/kernel/osrelease") or "").split()
    return DeviceSpec(
        name=identity.key,
        kind=kind,
        model=identity.model,
        module=identity.module,
        chip=identity.chip,
        l4t=identity.l4t,
        jetpack=identity.jetpack,
        serial=identity.serial,
        host=(tree.text("/proc/sys/kernel/hostname") or "").strip() or None,
        cores=len(present) or None,
        ram_bytes=int(memory[1]) * 1024 if memory else None,
        gpu=CHIPS[identity.chip][1] if identity.chip in CHIPS else None,
        kernel=kernel[0] if kernel else None,
        architecture="aarch64",
        extra=(("known_board", identity.known),),
    )


def expand(ranges: str) -> tuple[int, ...]:
    """Read a kernel list such as `0-3,6` as (0, 1, 2, 3, 6)."""
    found: set[int] = set()
    for part in ranges.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if match:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))
