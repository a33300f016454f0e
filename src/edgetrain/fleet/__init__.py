"""Campaigns over many boards: the inventory, the processes of a fleet, and a campaign that survives their loss.

`read_inventory(path)` reads fleet.yaml, `Fleet` starts and stops its processes here and on other hosts, `check_fleet`
returns what is wrong with them, `FleetCampaign` carries out a plan. Dask distributed sends the experiments to the
boards; the campaign's own journal is authoritative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.fleet.campaign import FleetCampaign
    from edgetrain.fleet.doctor import check_fleet, fleet_status
    from edgetrain.fleet.inventory import LOCAL, FleetBoard, FleetInventory, local_inventory, read_inventory
    from edgetrain.fleet.processes import SCHEDULER, Fleet, fleet_home

__all__ = [
    "LOCAL",
    "SCHEDULER",
    "Fleet",
    "FleetBoard",
    "FleetCampaign",
    "FleetInventory",
    "check_fleet",
    "fleet_home",
    "fleet_status",
    "local_inventory",
    "read_inventory",
]

_MODULES = {
    "campaign": ("FleetCampaign",),
    "doctor": ("check_fleet", "fleet_status"),
    "inventory": ("LOCAL", "FleetBoard", "FleetInventory", "local_inventory", "read_inventory"),
    "processes": ("SCHEDULER", "Fleet", "fleet_home"),
}


if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
