"""Where a Jetson's clocks are set and read: cores, CPU, GPU, memory, idle states; found, never assumed.

Paths differ between chips and releases, so each is looked for. What may be written is resolved through sysfs's own
links once, here; that list is all that control will ever touch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.device.jetson.identity import expand
from edgetrain.device.tree import Tree
from edgetrain.units import HZ_PER_KHZ

GPU_NODES = re.compile(r"gpu|gp10b|gv11b|ga10b|gb10b")
CPU = "/sys/devices/system/cpu"
BPMP_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc"  # tegra186, 194, 234
T210_EMC = "/sys/kernel/debug/clk/override.emc"
# Caps that nvpmodel writes; 0 means none. JetPack 4 and 5, then 6.
EMC_CAPS = ("/sys/kernel/nvpmodel_emc_cap/emc_iso_cap", "/sys/kernel/nvpmodel_clk_cap/emc")
THOR_EMC = "/sys/class/devfreq/bwmgr"
GPU_FOLDERS = (
    "/sys/devices/gpu.0/devfreq/57000000.gpu",
    "/sys/devices/17000000.gp10b/devfreq/17000000.gp10b",
    "/sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
    "/sys/devices/platform/17000000.gv11b/devfreq/17000000.gv11b",
    "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
    "/sys/devices/platform/17000000.ga10b/devfreq_dev",
    "/sys/devices/platform/17000000.gpu/devfreq_dev",
)
GPU_LOADS = (
    "/sys/devices/gpu.0/load",
    "/sys/devices/platform/gpu.0/load",
    "/sys/devices/platform/bus@0/17000000.gpu/load",
    "/sys/devices/platform/17000000.gpu/load",
)
EMC_LOADS = (
    "/sys/kernel/debug/cactmon/mc_all",
    "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
    "/sys/kernel/actmon_avg_activity/mc_all",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share one clock."""

    cores: tuple[int, ...]
    table_hz: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Emc:
    """The memory clock: where it is read, held and capped."""

    rate: str | None = None
    lock: str | None = None  # 1: hold the rate
    set: str | None = None  # where the held rate is written
    cap: str | None = None  # nvpmodel's cap; 0: none
    min: str | None = None  # Thor: a devfreq device instead of lock and rate
    max: str | None = None
    load: str | None = None
    table_hz: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where everything is. None: not on this board, or not visible to this user."""

    present: tuple[int, ...]
    clusters: tuple[Cluster, ...]
    gpu: str | None  # devfreq folder, resolved
    gpu_table_hz: tuple[int, ...]
    gpu_load: str | None
    gpu_railgate: str | None
    emc: Emc
    idle_states: tuple[str, ...]  # `disable` files
    fan: str | None = None

    @property
    def cpu_table_hz(self) -> tuple[int, ...]:
        """Return the clocks that every cluster has: a power mode holds all cores at one of them."""
        tables = [set(cluster.table_hz) for cluster in self.clusters if cluster.table_hz]
        return tuple(sorted(set.intersection(*tables))) if tables else ()

    def writable_names(self) -> list[str]:
        """Return every file that control may ever write on this board, links resolved."""
        names = [f"{CPU}/cpu{core}/online" for core in self.present if core]
        for core in self.present:
            # Kernels show a core's clock in its own folder or as a link into the policy's.
            for folder in (f"{CPU}/cpu{core}/cpufreq", f"{CPU}/cpufreq/policy{core}"):
                names += [f"{folder}/scaling_max_freq", f"{folder}/scaling_min_freq"]
        if self.gpu:
            names += [f"{self.gpu}/max_freq", f"{self.gpu}/min_freq"]
        emc = self.emc
        names += [name for name in (self.gpu_railgate, emc.cap, emc.lock, emc.set, emc.min, emc.max) if name]
        return [*names, *self.idle_states]

    def cluster_of(self, core: int) -> Cluster:
        """Return the cluster a core belongs to."""
        return next((cluster for cluster in self.clusters if core in cluster.cores), Cluster((core,), ()))


def policy_folder(tree: Tree, clocks: Clocks, core: int) -> str:
    """Return the folder in which a core's clock is set, links resolved, also while the core is offline."""
    real = tree.real(f"{CPU}/cpu{core}/cpufreq")
    if real is not None:
        return real
    first = tree.real(f"{CPU}/cpu0/cpufreq") or ""
    if "/cpufreq/policy" in first:
        return f"{CPU}/cpufreq/policy{clocks.cluster_of(core).cores[0]}"
    return f"{CPU}/cpu{core}/cpufreq"


def find_clocks(tree: Tree, emc_table_hz: Sequence[int] = ()) -> Clocks:
    """Look for every clock of the board.

    The rates a BPMP accepts are listed nowhere on the board: they come in from the catalogue.
    """
    present = expand(tree.text(f"{CPU}/present") or "") or tuple(
        int(name.rsplit("cpu", 1)[1]) for name in tree.glob(f"{CPU}/cpu[0-9]*")
    )
    gpu = _gpu(tree)
    table = tree.numbers(f"{gpu}/available_frequencies") if gpu else ()
    railgate = None
    if gpu:
        for folder in (gpu.split("/devfreq")[0], "/sys/devices/gpu.0"):
            if tree.exists(f"{folder}/railgate_enable"):
                railgate = tree.real(f"{folder}/railgate_enable")
                break
    idle = [
        name
        for name in tree.glob(f"{CPU}/cpu[0-9]*/cpuidle/state[0-9]*/disable")
        # State 0 is plain waiting: it cannot be switched off usefully and jetson_clocks leaves it.
        if "/state0/" not in name
    ]
    return Clocks(
        present=present,
        clusters=_clusters(tree, present),
        gpu=gpu,
        gpu_table_hz=table,
        gpu_load=_gpu_load(tree, gpu),
        gpu_railgate=railgate,
        emc=_emc(tree, tuple(emc_table_hz)),
        idle_states=tuple(idle),
        fan=next((name for name in ("/sys/devices/pwm-fan/target_pwm",) if tree.exists(name)), None),
    )


def _clusters(tree: Tree, present: Sequence[int]) -> tuple[Cluster, ...]:
    """Group the cores by shared clock; an offline core shows no cpufreq folder, so its cluster is inferred."""
    clusters: dict[tuple[int, ...], tuple[int, ...]] = {}
    hidden = []
    for core in present:
        folder = f"{CPU}/cpu{core}/cpufreq"
        text = tree.text(f"{folder}/related_cpus")
        if text is None:
            hidden.append(core)
            continue
        related = expand(text.replace(" ", ",")) or (core,)
        table = tuple(hertz * HZ_PER_KHZ for hertz in tree.numbers(f"{folder}/scaling_available_frequencies"))
        clusters.setdefault(related, table)
    known = {core for cores in clusters for core in cores}
    size = max((len(cores) for cores in clusters), default=1)
    shape = next(iter(clusters.values()), ())
    left = [core for core in hidden if core not in known]
    for start in range(0, len(left), size):
        clusters[tuple(left[start : start + size])] = shape
    return tuple(Cluster(cores, table) for cores, table in sorted(clusters.items()))


def _gpu(tree: Tree) -> str | None:
    for folder in tree.glob("/sys/class/devfreq/*"):
        node = tree.text(f"{folder}/device/of_node/name") or ""
        name = folder.rsplit("/", 1)[1]
        fits = GPU_NODES.fullmatch(node) or name == "gpu-gpc-0" or name.split(".")[-1] in GPU_NODES.pattern.split("|")
        if fits and tree.exists(f"{folder}/max_freq"):
            return tree.real(folder)
    for folder in GPU_FOLDERS:
        if tree.exists(f"{folder}/max_freq"):
            return tree.real(folder)
    return None


def _gpu_load(tree: Tree, gpu: str | None) -> str | None:
    nearby = [f"{gpu.split('/devfreq')[0]}/load"] if gpu else []
    return next((name for name in (*nearby, *GPU_LOADS) if tree.exists(name)), None)


def _emc(tree: Tree, table: tuple[int, ...]) -> Emc:
    cap = next((tree.real(name) for name in EMC_CAPS if tree.exists(name)), None)
    load = next((name for name in EMC_LOADS if tree.exists(name)), None)
    if tree.exists(f"{BPMP_EMC}/rate"):
        top = tree.number(f"{BPMP_EMC}/max_rate")
        table = tuple(hertz for hertz in table if not top or hertz <= top)
        rate = f"{BPMP_EMC}/rate"
        return Emc(rate, f"{BPMP_EMC}/mrq_rate_locked", rate, cap, load=load, table_hz=table)
    if tree.exists(f"{T210_EMC}/clk_rate"):
        return Emc(
            f"{T210_EMC}/clk_rate", f"{T210_EMC}/clk_state", f"{T210_EMC}/clk_update_rate", cap,
            load=load, table_hz=table,
        )  # fmt: skip
    if tree.exists(f"{THOR_EMC}/cur_freq"):
        real = tree.real(THOR_EMC)
        table = tree.numbers(f"{real}/available_frequencies") or table
        return Emc(f"{real}/cur_freq", None, None, cap, f"{real}/min_freq", f"{real}/max_freq", load, table)
    # Without root debugfs is hidden: the cap is all that can be seen, and the table cannot be relied on.
    return Emc(cap=cap, load=load, table_hz=table if cap else ())
