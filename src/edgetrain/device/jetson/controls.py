"""What can be set on a Jetson: its power modes, and what control needs to know about the board."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from edgetrain.device.control import Control, ModeRequest
from edgetrain.device.jetson import nvpmodel, stock
from edgetrain.device.jetson.clocks import Clocks, find_clocks
from edgetrain.device.jetson.identity import Identity
from edgetrain.device.jetson.rails import Rails, find_rails
from edgetrain.device.jetson.state import TargetMode, desired, freed
from edgetrain.device.jetson.stock import below
from edgetrain.device.privileged import BPMP, BWMGR, CLK_CAP, SAMPLES, BoardSettings, active_throttles
from edgetrain.device.sessions import sudo_session
from edgetrain.device.tree import Tree
from edgetrain.errors import DeviceError, UsageError
from edgetrain.schema import ModeSpace, PowerMode, StockMode
from edgetrain.units import HZ_PER_KHZ

# Files that show the highest memory clock, or a cap on it; every user may read the last two.
EMC_LIMITS = (
    f"{BPMP}/clk/emc/max_rate",
    "/sys/kernel/debug/tegra_bwmgr/emc_max_rate",
    f"{BWMGR}/max_freq",
    CLK_CAP,
)


class JetsonControls:
    """The settable side of a board; a `control.ControlledBoard`."""

    def __init__(self, tree: Tree, identity: Identity) -> None:
        self.tree = tree
        self.identity = identity

    @functools.cached_property
    def _settings(self) -> BoardSettings:
        """The board's settings, for reading."""
        return BoardSettings(self.tree)

    @functools.cached_property
    def rails(self) -> Rails:
        """The power monitors found."""
        return find_rails(self.tree, self.identity.chip)

    @functools.cached_property
    def clocks(self) -> Clocks:
        """Where the clocks are. The catalogue's memory clocks are used where the board's own cannot be read."""
        # Imported late: the sampler beside training reads probes alone and needs no YAML parser.
        from edgetrain.device.catalog import load_catalogue

        boards = load_catalogue()
        known = boards.find(self.identity.key) or boards.find(self.identity.module or "")
        table = set(known.emc.values_hz if known and known.emc else ())
        shown = [self.tree.number(name) or 0 for name in EMC_LIMITS]
        highest = max(hertz for hertz in (0, *shown) if hertz not in nvpmodel.NO_LIMIT)
        if highest > max(table, default=0):
            # A later release unlocked faster memory (Orin Nano "super"): the steps of its chip up to what it shows.
            alike = [board.emc.values_hz for board in boards if board.chip == self.identity.chip and board.emc]
            table |= {highest, *(hertz for values in alike for hertz in values if hertz <= highest)}
        return find_clocks(self.tree, sorted(table))

    @functools.cached_property
    def config(self) -> nvpmodel.NvpmodelConfig | None:
        """The board's stock modes, or None where it has no such file."""
        return nvpmodel.read_config(self.tree)

    def modes(self) -> ModeSpace | None:
        """Return the board's stock modes and the tables that span the custom ones."""
        clocks = self.clocks
        if not clocks.present or not clocks.cpu_table_hz:
            return None
        config = self.config
        problems: tuple[str, ...] = () if config else ("the board has no nvpmodel configuration: no stock modes",)
        modes: list[StockMode] = []
        if config is not None:
            problems = config.problems
            active = self.active_stock()
            every = [nvpmodel.caps(config, each, clocks.present) for each in config.modes]
            gating = stock.gating_modes(every)
            for caps in every:
                modes.append(
                    StockMode(
                        caps.id, caps.name, self._held(caps), tuple(sorted(caps.masks.items())),
                        self.reboot_reason(caps.id, undo=False), caps.id == config.default, caps.id == active,
                        caps.id in gating,
                    )
                )  # fmt: skip
        emc = clocks.emc_table_hz if any(name.startswith("emc.") for name in self.settings()) else ()
        cores = tuple(range(1, len(clocks.present) + 1))
        return ModeSpace(cores, clocks.cpu_table_hz, clocks.gpu_table_hz, emc, tuple(modes), problems)

    def _held(self, caps: nvpmodel.Caps) -> PowerMode:
        """Return the mode that a stock mode's caps amount to."""
        clocks = self.clocks
        gpu = below(caps.gpu_hz, clocks.gpu_table_hz) if clocks.gpu_table_hz else None
        emc = below(caps.emc_hz, clocks.emc_table_hz) if clocks.emc_table_hz else None
        return PowerMode(len(caps.cores), min(self._core_clocks(caps).values(), default=0), gpu, emc, caps.name)

    def _core_clocks(self, caps: nvpmodel.Caps) -> dict[int, int]:
        """Return the clock of every core that a stock mode leaves on, cluster by cluster."""
        found = {}
        for core in caps.cores:
            cluster = self.clocks.cluster_of(core)
            given = [hertz for first, hertz in caps.cpu_hz.items() if first in cluster.cores]
            if cluster.table_hz:
                found[core] = below(min(given, default=None), cluster.table_hz)
        return found

    def control(self) -> Control | None:
        """Return the journaled control, or None where nothing can be set."""
        if not self.clocks.present or not self.clocks.cpu_table_hz:
            return None
        # sudo acts on this machine: a folder that serves as a board is written by its owner only.
        return Control(self, sudo_session) if self.tree.base == "/" else Control(self)

    # What control needs of a board.

    def settings(self) -> Mapping[str, str]:
        """Return every setting by name with its file."""
        return self._settings.paths

    def state(self) -> dict[str, int]:
        """Read every setting that this user can read."""
        return self._settings.read()

    def active_stock(self) -> int | None:
        """Return the stock mode nvpmodel set last."""
        return nvpmodel.active_mode(self.tree)

    def _caps(self, number: int) -> nvpmodel.Caps:
        entry = self.config.mode(number) if self.config else None
        if self.config is None or entry is None:
            names = ", ".join(f"{mode.id} {mode.name}" for mode in self.config.modes) if self.config else "none"
            raise UsageError(f"this board has no stock mode {number}; it has {names}")
        return nvpmodel.caps(self.config, entry, self.clocks.present)

    def resolve(self, request: ModeRequest) -> tuple[ModeRequest, list[str]]:
        """Return a request for a stock mode's clocks as a request for that stock mode, through nvpmodel, and doubts.

        nvpmodel also switches parts of the GPU off. Where it cannot be used, the clocks are set all the same and a
        doubt says what differs.
        """
        doubts = self._sample_doubts(request)
        name = request.mode.name if request.mode is not None else None
        space = self.modes()
        entry = space.stock_called(name) if space is not None and name else None
        if entry is None or request.mode != entry.mode:
            return request, doubts
        reason = self.reboot_reason(entry.id, undo=True)
        if reason is None and self.tree.program("nvpmodel") is not None:
            return replace(request, mode=None, stock=entry.id), doubts
        if self._mask_changes(entry.id):
            why = f"that needs a reboot ({reason})" if reason else "nvpmodel is not installed here"
            doubts.append(f"only the clocks of stock mode {entry.name} are set, its GPU masks are not: {why}")
        return request, doubts

    def _sample_doubts(self, request: ModeRequest) -> list[str]:
        if request.samples is None:
            return []
        now = [value for name, value in self.state().items() if name.endswith(".samples")]
        if request.samples >= max(now, default=0):
            return []
        return [
            f"the power monitors average {request.samples} conversions instead of {max(now)}: over-current warnings "
            "and throttling follow the same average, so they react faster too"
        ]

    def desired(self, request: ModeRequest, now: Mapping[str, int]) -> dict[str, int]:
        """Return the values that a request means."""
        space = self.modes()
        if space is None:
            raise DeviceError("this board has no clock that could be set")
        if request.samples is not None and request.samples not in SAMPLES:
            raise UsageError(
                f"power monitors average {', '.join(map(str, SAMPLES))} conversions, not {request.samples}"
            )
        names = {*self.settings(), *now}
        values = {name: request.samples for name in names if name.endswith(".samples") and request.samples is not None}
        target = self._target(request, space)
        idle = request.dvfs if request.idle_states is None else request.idle_states
        wanted = desired(self.clocks, names, target, request.dvfs, idle, now)
        if request.stock is not None and request.dvfs:
            # nvpmodel sets caps and floors itself; only what it leaves alone is set here.
            wanted = {name: value for name, value in wanted.items() if ".idle" in name}
        return {**wanted, **values}

    def _target(self, request: ModeRequest, space: ModeSpace) -> TargetMode:
        if request.stock is not None:
            caps = self._caps(request.stock)
            held = self._held(caps)
            return self._with_floors(TargetMode(self._core_clocks(caps), held.gpu_hz, held.emc_hz), caps)
        mode = request.mode or replace(self.current_mode(), name=None)
        target = TargetMode.of(space.check(mode), self.clocks)
        active = self.config.mode(self.active_stock() or 0) if self.config else None
        if self.config is None or active is None:
            return target
        # Governors keep the floors of the stock mode underneath.
        return self._with_floors(target, nvpmodel.caps(self.config, active, self.clocks.present))

    def _with_floors(self, target: TargetMode, caps: nvpmodel.Caps) -> TargetMode:
        cpu = {core: below(hertz, self.clocks.cluster_of(core).table_hz) for core, hertz in caps.cpu_floor_hz.items()}
        gpu = below(caps.gpu_floor_hz, self.clocks.gpu_table_hz) if caps.gpu_floor_hz else None
        return replace(target, cpu_floor_hz=cpu, gpu_floor_hz=gpu)

    def freed(self, now: Mapping[str, int]) -> dict[str, int]:
        """Return the values with nothing held from below."""
        return freed(self.clocks, now)

    def uncapped(self, now: Mapping[str, int]) -> dict[str, int]:
        """Return maximum clocks as they would be if the board were not hot, where heat lowers them now."""
        hot = active_throttles(self.tree)
        number = self.active_stock()
        entry = self.config.mode(number) if self.config and number is not None else None
        caps = nvpmodel.caps(self.config, entry, self.clocks.present) if self.config and entry else None
        found: dict[str, int] = {}
        if any("cpufreq" in kind for kind in hot):
            for cluster in self.clocks.clusters:
                given = [hertz for first, hertz in (caps.cpu_hz if caps else {}).items() if first in cluster.cores]
                found[f"{cluster.name}.max_khz"] = below(min(given, default=None), cluster.table_hz) // HZ_PER_KHZ
        if any("devfreq" in kind for kind in hot) and self.clocks.gpu_table_hz:
            found["gpu.max_hz"] = below(caps.gpu_hz if caps else None, self.clocks.gpu_table_hz)
        return {name: value for name, value in found.items() if now.get(name, value) < value}

    def current_mode(self) -> PowerMode:
        """Return the mode that the caps now in force amount to; of clusters that differ the lowest clock counts."""
        clocks, now = self.clocks, self.state()
        online = [core for core in clocks.present if now.get(f"cpu{core}.online", 1)]
        tops = [
            now[f"{cluster.name}.max_khz"] * HZ_PER_KHZ
            for cluster in clocks.clusters
            if set(cluster.cores) & set(online) and f"{cluster.name}.max_khz" in now
        ]
        gpu = now.get("gpu.max_hz")
        return PowerMode(
            len(online),
            below(min(tops, default=None), clocks.cpu_table_hz),
            below(gpu, clocks.gpu_table_hz) if clocks.gpu_table_hz else None,
            self._memory_hz(now),
        )

    def _memory_hz(self, now: Mapping[str, int]) -> int | None:
        """Return the memory clock in force: the held rate, else the cap; None where this user can read neither."""
        table = self.clocks.emc_table_hz
        names = ("emc.rate_hz", "emc.clk_cap_hz", "emc.max_hz", "emc.iso_cap_hz")
        caps = [now[name] for name in names if name in now]
        # JetPack 4 and 5 show what was written: 0 or one of nvpmodel's largest integers for no cap.
        caps = [max(table, default=0) if hertz == 0 or hertz in nvpmodel.NO_LIMIT else hertz for hertz in caps]
        return below(min(caps), table) if caps and table else None

    def check_stock(self, number: int, status: int, text: str, now: Mapping[str, int]) -> list[str]:
        """Raise ControlRefused where nvpmodel did not put the mode in force; return doubts where it did."""
        caps = self._caps(number)
        assert self.config is not None
        return stock.check(self.tree, self.clocks, self.config, caps, (status, text), now)

    def reboot_reason(self, number: int, undo: bool) -> str | None:
        """Return why changing to a stock mode needs a reboot, or None."""
        if self.config is None or self.config.mode(number) is None:
            return None
        return stock.reboot_reason(self.tree, self.clocks, self._mask_changes(number), undo)

    def _mask_changes(self, number: int) -> list[stock.MaskChange]:
        """Return the masks that a stock mode would change."""
        assert self.config is not None
        return stock.mask_changes(self.tree, self.config, self._caps(number), self.clocks.present)
