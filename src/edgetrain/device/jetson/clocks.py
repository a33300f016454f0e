"""Where a Jetson's clocks are read and which values they can take: cores, CPU clusters, GPU, memory.

Paths differ between chips and releases, so each is looked for. What may be written is found by
`privileged.find_settings`; this module adds what is only read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.device.jetson.identity import expand
from edgetrain.device.privileged import BPMP, BWMGR, CPU, GPU_DEVICES, T210_EMC, find_gpu
from edgetrain.device.tree import Tree
from edgetrain.units import HZ_PER_KHZ

EMC_LOADS = (
    "/sys/kernel/debug/cactmon/mc_all",
    f"{BPMP}/actmon/mc_all_avg_activity",
    "/sys/kernel/actmon_avg_activity/mc_all",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share one clock."""

    cores: tuple[int, ...]
    table_hz: tuple[int, ...]
    policy: int  # the kernel's number of it, mostly that of its first core

    @property
    def name(self) -> str:
        """The prefix of its settings: `cpu4` in `cpu4.max_khz`."""
        return f"cpu{self.policy}"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where everything is. None: not on this board, or not visible to this user."""

    present: tuple[int, ...]
    clusters: tuple[Cluster, ...]
    gpu: str | None  # devfreq folder, links resolved
    gpu_table_hz: tuple[int, ...]
    gpu_load: str | None
    emc_rate: str | None  # the memory clock now
    emc_load: str | None
    emc_table_hz: tuple[int, ...]

    @property
    def cpu_table_hz(self) -> tuple[int, ...]:
        """The clocks that every cluster has: a power mode holds all cores at one of them."""
        tables = [set(cluster.table_hz) for cluster in self.clusters if cluster.table_hz]
        return tuple(sorted(set.intersection(*tables))) if tables else ()

    @property
    def gpu_device(self) -> str | None:
        """The GPU's device folder, where load and masks are."""
        if self.gpu_load is not None:
            return self.gpu_load.rsplit("/", 1)[0]
        return self.gpu.split("/devfreq")[0] if self.gpu else None

    def cluster_of(self, core: int) -> Cluster:
        """Return the cluster a core belongs to."""
        return next((cluster for cluster in self.clusters if core in cluster.cores), Cluster((core,), (), core))


def find_clocks(tree: Tree, known_emc_hz: Sequence[int] = ()) -> Clocks:
    """Look for every clock of the board.

    `known_emc_hz`: the catalogue's table of memory clocks, for boards and users that cannot read the board's own.
    """
    present = expand(tree.text(f"{CPU}/present") or "") or tuple(
        int(name.rsplit("cpu", 1)[1]) for name in tree.glob(f"{CPU}/cpu[0-9]*")
    )
    gpu = find_gpu(tree)
    return Clocks(
        present=present,
        clusters=_clusters(tree, present),
        gpu=gpu,
        gpu_table_hz=tree.numbers(f"{gpu}/available_frequencies") if gpu else (),
        gpu_load=_gpu_load(tree, gpu),
        emc_rate=_emc_rate(tree),
        emc_load=next((name for name in EMC_LOADS if tree.exists(name)), None),
        emc_table_hz=_emc_table(tree, tuple(known_emc_hz)),
    )


def _clusters(tree: Tree, present: Sequence[int]) -> tuple[Cluster, ...]:
    """Group the cores by shared clock; a cluster that is offline may hide its files, so it is inferred."""
    clusters: dict[tuple[int, ...], Cluster] = {}
    hidden = []
    for core in present:
        folder = f"{CPU}/cpu{core}/cpufreq"
        text = tree.text(f"{folder}/related_cpus")
        if text is None:
            hidden.append(core)
            continue
        related = expand(text.replace(" ", ",")) or (core,)
        table = tuple(hertz * HZ_PER_KHZ for hertz in tree.numbers(f"{folder}/scaling_available_frequencies"))
        policy = re.search(r"/policy(\d+)$", tree.real(folder) or "")
        clusters.setdefault(related, Cluster(related, table, int(policy[1]) if policy else related[0]))
    known = {core for cores in clusters for core in cores}
    size = max((len(cores) for cores in clusters), default=1)
    table = next((cluster.table_hz for cluster in clusters.values()), ())
    left = [core for core in hidden if core not in known]
    for start in range(0, len(left), size):
        cores = tuple(left[start : start + size])
        clusters[cores] = Cluster(cores, table, cores[0])
    return tuple(clusters[cores] for cores in sorted(clusters))


def _gpu_load(tree: Tree, gpu: str | None) -> str | None:
    nearby = [f"{gpu.split('/devfreq')[0]}/load"] if gpu else []
    # The devfreq folder appears only after the GPU was powered once; the load is there before that.
    elsewhere = [name for pattern in GPU_DEVICES for name in tree.glob(f"{pattern}/load")]
    return next((name for name in (*nearby, *elsewhere) if tree.exists(name)), None)


def _emc_rate(tree: Tree) -> str | None:
    names = (f"{BPMP}/clk/emc/rate", f"{T210_EMC}/clk_rate", f"{BWMGR}/cur_freq")
    return next((tree.real(name) for name in names if tree.number(name) is not None), None)


def _emc_table(tree: Tree, known: tuple[int, ...]) -> tuple[int, ...]:
    """Return the memory clocks the board lists, else the catalogue's up to the highest the board shows."""
    text = tree.text(f"{BPMP}/emc/possible_rates")  # `204000 665600 2133000 (kHz)`
    if text:
        rates = tuple(sorted({int(word) * HZ_PER_KHZ for word in text.split() if word.isdigit()}))
        if rates:
            return rates
    listed = tree.numbers(f"{BWMGR}/available_frequencies") or tree.numbers("/sys/kernel/debug/emc/available_rates")
    if listed:
        return listed
    # Thor lists voltage and frequency pairs; the second column is in Hz.
    pairs = re.findall(r"^\s*\S+\s+(\d{8,})", tree.text(f"{BPMP}/clk/emc/dvfs") or "", re.M)
    if pairs:
        return tuple(sorted({int(word) for word in pairs}))
    highest = tree.number(f"{BPMP}/clk/emc/max_rate")
    return tuple(hertz for hertz in known if not highest or hertz <= highest)
