"""What can be set on a Jetson: its power modes, and what control needs to know of the board."""

from __future__ import annotations

import functools

from edgetrain.device.control import Control, Setting
from edgetrain.device.jetson import nvpmodel, stock
from edgetrain.device.jetson.clocks import BPMP_EMC, Clocks, find_clocks, policy_folder
from edgetrain.device.jetson.identity import Identity
from edgetrain.device.jetson.rails import SAMPLES, Rails, find_rails
from edgetrain.device.jetson.state import desired, freed, read_state, writes
from edgetrain.device.modespace import ModeSpace, Stock
from edgetrain.device.tree import Tree
from edgetrain.device.writes import State, Write, write_all
from edgetrain.errors import DeviceError, UsageError
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ


class JetsonControls:
    """The settable side of a board; a `control.Board`."""

    def __init__(self, tree: Tree, identity: Identity) -> None:
        self.tree = tree
        self.identity = identity

    @functools.cached_property
    def rails(self) -> Rails:
        """The power monitors found."""
        return find_rails(self.tree)

    @functools.cached_property
    def clocks(self) -> Clocks:
        """Where the clocks are; the memory clock's table is the catalogue's, capped at what the board shows."""
        # Imported late: the sampler beside training reads probes alone, and pays for no YAML parser.
        from edgetrain.device import catalog

        boards = catalog.load()
        known = boards.find(self.identity.module or "") or boards.find(self.identity.key)
        table = set(known.emc.values_hz if known and known.emc else ())
        highest = self.tree.number(f"{BPMP_EMC}/max_rate")
        if highest and highest > max(table, default=0):
            # A later release unlocked faster memory (Orin Nano "super"): the steps of its chip up to what it shows.
            alike = [board.emc.values_hz for board in boards if board.chip == self.identity.chip and board.emc]
            table = {highest, *table, *(hertz for values in alike for hertz in values)}
        return find_clocks(self.tree, sorted(table))

    def modes(self) -> ModeSpace | None:
        """Return the board's stock modes and the tables that span the custom ones."""
        clocks = self.clocks
        if not clocks.present or not clocks.cpu_table_hz:
            return None
        config = nvpmodel.read_config(self.tree)
        problems: tuple[str, ...] = () if config else ("the board has no nvpmodel configuration: no stock modes",)
        modes: list[Stock] = []
        if config is not None:
            problems = config.problems
            active = self.active_stock()
            for each in config.modes:
                caps = nvpmodel.caps(config, each, clocks.present)
                modes.append(
                    Stock(
                        each.id, each.name, self._held(caps), tuple(sorted(caps.masks.items())),
                        self.reboot_reason(each.id), each.id == config.default, each.id == active,
                    )
                )  # fmt: skip
        emc = clocks.emc.table_hz if (clocks.emc.cap or clocks.emc.lock or clocks.emc.max) else ()
        cores = tuple(range(1, len(clocks.present) + 1))
        return ModeSpace(cores, clocks.cpu_table_hz, clocks.gpu_table_hz, emc, tuple(modes), problems)

    def _held(self, caps: nvpmodel.Caps) -> PowerMode:
        """Return the mode that a stock mode's caps come to: the kernel rounds a cap down to its table."""
        clocks = self.clocks
        gpu = _below(caps.gpu_hz, clocks.gpu_table_hz) if clocks.gpu_table_hz else None
        emc = _below(caps.emc_hz, clocks.emc.table_hz) if clocks.emc.table_hz else None
        return PowerMode(len(caps.cores), max(self._core_clocks(caps).values(), default=0), gpu, emc, caps.name)

    def _core_clocks(self, caps: nvpmodel.Caps) -> dict[int, int]:
        """Return the clock of every core that a stock mode leaves on, cluster by cluster."""
        found = {}
        for core in caps.cores:
            cluster = self.clocks.cluster_of(core)
            given = [hertz for first, hertz in caps.cpu_hz.items() if first in cluster.cores]
            if cluster.table_hz:
                found[core] = _below(min(given, default=None), cluster.table_hz)
        return found

    def control(self) -> Control | None:
        """Return the journaled control, or None where nothing can be set."""
        return Control(self) if self.clocks.present and self.clocks.cpu_table_hz else None

    # What control needs of a board.

    def key(self) -> str:
        """Return module and serial."""
        return f"{self.identity.module or self.identity.key}/{self.identity.serial or 'no serial'}"

    def boot(self) -> str:
        """Return the boot id."""
        return self.tree.text("/proc/sys/kernel/random/boot_id") or "unknown"

    def allowed(self) -> frozenset[str]:
        """Return every path that may be written."""
        return frozenset([*self.clocks.writable_names(), *self.sample_files()])

    def sample_files(self) -> list[str]:
        """Return the files that set how many conversions the power monitors average, links resolved."""
        return [real for name in self.rails.samples_files if (real := self.tree.real(name)) is not None]

    def state(self) -> dict[str, str]:
        """Read every settable value."""
        depths = {name: self.tree.text(name) for name in self.sample_files()}
        return {**read_state(self.tree, self.clocks), **{name: text for name, text in depths.items() if text}}

    def desired(self, setting: Setting) -> dict[str, str]:
        """Return the values that mean a setting."""
        space = self.modes()
        if space is None:
            raise DeviceError("this board has no clock that could be set")
        idle = setting.dvfs if setting.idle_states is None else setting.idle_states
        if setting.samples is not None and setting.samples not in SAMPLES:
            raise UsageError(
                f"power monitors average {', '.join(map(str, SAMPLES))} conversions, not {setting.samples}"
            )
        depths = {} if setting.samples is None else dict.fromkeys(self.sample_files(), str(setting.samples))
        mode = setting.mode
        cluster_hz: dict[int, int] | None = None
        if mode is None and setting.stock is not None:
            known = {each.id: each.mode for each in space.stock}
            config = nvpmodel.read_config(self.tree)
            if setting.stock not in known or config is None:
                names = ", ".join(f"{each.id} {each.name}" for each in space.stock) or "none"
                raise UsageError(f"this board has no stock mode {setting.stock}; it has {names}")
            mode = known[setting.stock]
            written = config.mode(str(setting.stock))
            if written is not None:
                cluster_hz = self._core_clocks(nvpmodel.caps(config, written, self.clocks.present))
        if mode is None:
            mode = self.current_mode()
        space.check(mode)
        wanted = desired(self.tree, self.clocks, mode, setting.dvfs, idle, self.state(), cluster_hz)
        if setting.stock is not None and setting.dvfs:
            # nvpmodel sets the caps itself; only what it leaves alone is ours.
            wanted = {name: value for name, value in wanted.items() if name in self.clocks.idle_states}
        return {**wanted, **depths}

    def current_mode(self) -> PowerMode:
        """Return the mode that the caps now in force come to."""
        clocks, now = self.clocks, self.state()
        online = [
            core for core in clocks.present if not core or now.get(f"/sys/devices/system/cpu/cpu{core}/online") != "0"
        ]
        # Only of cores that are on: some kernels go on showing the folder of a cluster that is off.
        files = [f"{policy_folder(self.tree, clocks, core)}/scaling_max_freq" for core in online]
        tops = [int(now[file]) * HZ_PER_KHZ for file in files if file in now]
        gpu = now.get(f"{clocks.gpu}/max_freq")
        cap = int(now.get(clocks.emc.set or "", "0") or 0) or int(now.get(clocks.emc.cap or "", "0") or 0) or None
        if clocks.emc.max in now:
            cap = int(now[clocks.emc.max])
        return PowerMode(
            len(online),
            _below(max(tops, default=None), clocks.cpu_table_hz),
            _below(int(gpu) if gpu else None, clocks.gpu_table_hz) if clocks.gpu_table_hz else None,
            _below(cap, clocks.emc.table_hz) if clocks.emc.table_hz else None,
        )

    def order(self, wanted: State, now: State) -> list[Write]:
        """Return the writes from one state to another."""
        depths = [Write(name, wanted[name], now.get(name)) for name in self.sample_files() if name in wanted]
        return [*depths, *writes(self.clocks, wanted, now)]

    def active_stock(self) -> int | None:
        """Return the stock mode nvpmodel has in force."""
        return nvpmodel.active_mode(self.tree)

    def switch_stock(self, identity: int) -> None:
        """Put a stock mode in force through nvpmodel."""
        config = nvpmodel.read_config(self.tree)
        if config is None:
            raise DeviceError("this board has no nvpmodel configuration; set cores and clocks instead of a stock mode")
        write_all(self, freed(self.clocks, self.state()))
        stock.switch(self.tree, self.clocks, config, identity)

    def reboot_reason(self, identity: int) -> str | None:
        """Return why changing to a stock mode needs a reboot, or None."""
        config = nvpmodel.read_config(self.tree)
        target = config.mode(str(identity)) if config else None
        if config is None or target is None:
            return None
        active = self.active_stock()
        now = config.mode(str(active)) if active is not None else None
        if now is not None and now.id == target.id:
            return None
        before = nvpmodel.caps(config, now, self.clocks.present) if now else None
        return nvpmodel.needs_reboot(before, nvpmodel.caps(config, target, self.clocks.present), self.identity.module)


def _below(cap_hz: int | None, table: tuple[int, ...]) -> int:
    """Return the table's clock that a cap comes to; its highest where there is no cap."""
    if not table:
        return cap_hz or 0
    # Files write 1331 or 918 MHz for clocks that the tables list as 1331.2 and 921.6: half a per cent is one clock.
    return max((hertz for hertz in table if cap_hz is None or hertz <= 1.005 * cap_hz), default=table[0])
