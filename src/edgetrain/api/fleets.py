"""Many boards at once: a campaign on a fleet, and the fleet's processes.

fleet_doctor("fleet.yaml").healthy                whether every board is fit for a campaign
campaign_on("plan.yaml", "fleet.yaml").complete   carry a plan out on the boards
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.analysis import CampaignResult, campaign_result
from edgetrain.api.measure import read_power_mode
from edgetrain.api.records import StoreLike, open_store, summarize
from edgetrain.errors import EdgetrainError, FleetError, UsageError
from edgetrain.fleet import Fleet, FleetBoard, FleetCampaign, FleetInventory, check_fleet, read_inventory
from edgetrain.fleet import fleet_status as status_of
from edgetrain.runner import Plan, fresh_tag, read_plan
from edgetrain.schema import CampaignPreview, FleetDoctor, FleetPreview, FleetProgress, FleetRow, FleetStatus, PowerMode

InventoryLike = FleetInventory | Path | str


def open_fleet(fleet: InventoryLike, home: Path | None = None) -> Fleet:
    """Return a fleet by its inventory: a FleetInventory, the path of a YAML file, or `local`."""
    return Fleet(fleet if isinstance(fleet, FleetInventory) else read_inventory(fleet), home)


def open_fleet_campaign(
    plan: Plan | Path | str,
    fleet: InventoryLike = "local",
    store: StoreLike = None,
    fresh: bool = False,
    home: Path | None = None,
) -> FleetCampaign:
    """Return a plan to be carried out on the boards of a fleet; nothing is started."""
    place, known = open_store(store), plan if isinstance(plan, Plan) else read_plan(plan)
    boards = open_fleet(fleet, home)
    read_mode = _mode_reader(boards, boards.inventory.fitting(known.place)) if known.varies_modes else None
    return FleetCampaign(known, boards, place, read_mode, fresh_tag(known, place) if fresh else "")


def campaign_on(
    plan: Plan | Path | str,
    fleet: InventoryLike = "local",
    store: StoreLike = None,
    announce: Callable[[FleetProgress], None] = lambda progress: None,
    home: Path | None = None,
    fresh: bool = False,
) -> CampaignResult:
    """Carry a plan out on the boards of a fleet; started again, it resumes.

    FleetError where a board's power mode could not be put back.
    """
    campaign = open_fleet_campaign(plan, fleet, store, fresh, home)
    ended = campaign.carry_out(announce)
    if ended.not_restored:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(ended.not_restored.items()))
        raise FleetError(
            f"{len(ended.done)} of {ended.planned} runs are done, but power modes were not put back: {reasons}; run "
            "`sudo edgetrain modes restore` there"
        )
    summaries = [summarize(run, campaign.store) for run in ended.done.values()]
    return campaign_result(ended.campaign, ended.planned, ended.done, ended.failed, summaries)


def campaign_on_preview(
    plan: Plan | Path | str,
    fleet: InventoryLike = "local",
    store: StoreLike = None,
    fresh: bool = False,
    home: Path | None = None,
) -> CampaignPreview:
    """Return the runs of a plan on a fleet and what they will take; changes nothing."""
    return open_fleet_campaign(plan, fleet, store, fresh, home).preview()


def _mode_reader(fleet: Fleet, boards: Sequence[FleetBoard]) -> Callable[[str], PowerMode]:
    kinds = sorted({one.board for one in boards})
    if len(kinds) > 1:
        raise UsageError(
            f"the plan holds power modes and would run on {', '.join(kinds)}; choose one: `place: {{board: …}}`"
        )
    device = fleet.device_of(boards[0])

    def read(text: str) -> PowerMode:
        mode = read_power_mode(text, device)
        if mode is None:
            raise UsageError(f"the plan holds power modes, and {boards[0].name} has none that can be set")
        return mode

    return read


def fleet_doctor(fleet: InventoryLike = "local", home: Path | None = None) -> FleetDoctor:
    """Return what was found on every board: versions, clock, space, permissions, and what is wrong; changes nothing."""
    return check_fleet(open_fleet(fleet, home))


def fleet_up(fleet: InventoryLike = "local", home: Path | None = None) -> FleetStatus:
    """Start the fleet's scheduler and one worker per board; they stay until `fleet_down`."""
    boards = open_fleet(fleet, home)
    problems = boards.up(keep=True)
    others = len(boards.inventory.boards) - len(problems)
    _raise_problems(problems, "started", f"; the other {others} are up until `fleet down`" if others else "")
    return status_of(boards)


def fleet_preview(fleet: InventoryLike = "local", home: Path | None = None) -> FleetPreview:
    """Return what `fleet_up` would start, and where; changes nothing."""
    boards = open_fleet(fleet, home)
    return FleetPreview(boards.inventory.name, tuple(boards.commands()))


def fleet_down(fleet: InventoryLike = "local", home: Path | None = None) -> FleetStatus:
    """Stop the fleet's workers, then its scheduler; refused while a campaign uses them."""
    boards = open_fleet(fleet, home)
    if boards.used():
        raise EdgetrainError(f"a campaign uses the fleet {boards.inventory.name}; stop it first, then: fleet down")
    _raise_problems(boards.down(), "stopped")
    return status_of(boards)


def fleet_down_preview(fleet: InventoryLike = "local", home: Path | None = None) -> FleetPreview:
    """Return what `fleet_down` would stop, and where; changes nothing."""
    status = status_of(open_fleet(fleet, home))
    scheduler, *workers = status.rows
    lines = [_stop_line(row, f"the worker of {row.name}") for row in workers]
    lines.append(_stop_line(scheduler, "the scheduler"))
    if status.used:
        lines.insert(0, f"refused at present: a campaign uses the fleet {status.fleet}")
    return FleetPreview(status.fleet, tuple(line for line in lines if line is not None))


def _stop_line(row: FleetRow, what: str) -> str | None:
    """Return what would happen to one process; None where it does not run."""
    where = row.address or "here"
    if row.running is None:
        return f"{where}: whether {what} runs is not known: {row.problem}"
    if not row.running:
        return None
    return f"{where}: stop {what} ({'being started' if row.pid is None else f'process {row.pid}'})"


def fleet_status(fleet: InventoryLike = "local", home: Path | None = None) -> FleetStatus:
    """Return which processes of a fleet run; changes nothing."""
    return status_of(open_fleet(fleet, home))


def _raise_problems(problems: dict[str, str], what: str, rest: str = "") -> None:
    if problems:
        count = "1 board" if len(problems) == 1 else f"{len(problems)} boards"
        reasons = "; ".join(problems[name] for name in sorted(problems))
        raise FleetError(f"{count} could not be {what}: {reasons}{rest}")
