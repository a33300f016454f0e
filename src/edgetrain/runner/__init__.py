"""Carries out one experiment, or a plan of them: settle, train, record, restore.

`execute(experiment, device, store, progress)` makes one run and records how it ended, whatever happens.
`Progress` is called with (stage, done, total). These functions describe what can be trained, and on which dataset:
`find_workload`, `survey_dataset`, `generate_dataset`, `count_memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.runner.allowance import RAM_SHARE, Allowance, read_allowance
    from edgetrain.runner.baseload import measure_baseload, preview_baseload
    from edgetrain.runner.campaign import CampaignProgress, CampaignRunner, fresh_tag
    from edgetrain.runner.campaign_journal import CampaignEntry, CampaignJournal, MachineLock
    from edgetrain.runner.campaign_media import check_folders
    from edgetrain.runner.characterise import (
        CACHES,
        SUBJECTS,
        WORKERS,
        Subject,
        affordable,
        name_campaign,
        pace_s,
        plan_characterisation,
    )
    from edgetrain.runner.command_trainee import check_command, command_label
    from edgetrain.runner.executor import Executed, execute
    from edgetrain.runner.in_process import RecordedCall, record_call
    from edgetrain.runner.modes import SWITCH_S, WINDOW_S, visit_order
    from edgetrain.runner.plan import Placement, Plan, Planned, Settle
    from edgetrain.runner.plan_costs import cost_of
    from edgetrain.runner.plan_json_schema import plan_schema
    from edgetrain.runner.plan_reading import read_plan
    from edgetrain.runner.recording import Progress, signal_name
    from edgetrain.runner.settle import wait_until_quiet
    from edgetrain.runner.signals import Interrupted, Stopped
    from edgetrain.runner.simulated import simulate_run
    from edgetrain.runner.simulated_command import check_like
    from edgetrain.runner.simulated_measure import SimulatedMeasure
    from edgetrain.runner.trial_commands import writable_folders
    from edgetrain.runner.trial_guard import TrialGuard
    from edgetrain.runner.trial_watch import TrialPlace, TrialRule
    from edgetrain.runner.trials import LoaderChange, Trial, run_trial
    from edgetrain.runner.user import sudo_user, use_store_of
    from edgetrain.runner.workloads import count_memory, dataset_recipe, find_workload, generate_dataset, survey_dataset

__all__ = [
    "CACHES",
    "RAM_SHARE",
    "SUBJECTS",
    "SWITCH_S",
    "WINDOW_S",
    "WORKERS",
    "Allowance",
    "CampaignEntry",
    "CampaignJournal",
    "CampaignProgress",
    "CampaignRunner",
    "Executed",
    "Interrupted",
    "LoaderChange",
    "MachineLock",
    "Placement",
    "Plan",
    "Planned",
    "Progress",
    "RecordedCall",
    "Settle",
    "SimulatedMeasure",
    "Stopped",
    "Subject",
    "Trial",
    "TrialGuard",
    "TrialPlace",
    "TrialRule",
    "affordable",
    "check_command",
    "check_folders",
    "check_like",
    "command_label",
    "cost_of",
    "count_memory",
    "dataset_recipe",
    "execute",
    "find_workload",
    "fresh_tag",
    "generate_dataset",
    "measure_baseload",
    "name_campaign",
    "pace_s",
    "plan_characterisation",
    "plan_schema",
    "preview_baseload",
    "read_allowance",
    "read_plan",
    "record_call",
    "run_trial",
    "signal_name",
    "simulate_run",
    "sudo_user",
    "survey_dataset",
    "use_store_of",
    "visit_order",
    "wait_until_quiet",
    "writable_folders",
]

_MODULES = {
    "trial_commands": ("writable_folders",),
    "trial_guard": ("TrialGuard",),
    "trial_watch": ("TrialPlace", "TrialRule"),
    "trials": (
        "LoaderChange",
        "Trial",
        "run_trial",
    ),
    "allowance": (
        "RAM_SHARE",
        "Allowance",
        "read_allowance",
    ),
    "baseload": ("measure_baseload", "preview_baseload"),
    "campaign": (
        "CampaignRunner",
        "CampaignProgress",
        "fresh_tag",
    ),
    "campaign_journal": (
        "CampaignEntry",
        "CampaignJournal",
        "MachineLock",
    ),
    "campaign_media": ("check_folders",),
    "characterise": (
        "CACHES",
        "SUBJECTS",
        "WORKERS",
        "Subject",
        "affordable",
        "name_campaign",
        "pace_s",
        "plan_characterisation",
    ),
    "command_trainee": (
        "check_command",
        "command_label",
    ),
    "executor": (
        "Executed",
        "execute",
    ),
    "in_process": (
        "RecordedCall",
        "record_call",
    ),
    "modes": (
        "SWITCH_S",
        "WINDOW_S",
        "visit_order",
    ),
    "plan": (
        "Placement",
        "Plan",
        "Planned",
        "Settle",
    ),
    "plan_costs": ("cost_of",),
    "settle": ("wait_until_quiet",),
    "plan_reading": ("read_plan",),
    "plan_json_schema": ("plan_schema",),
    "simulated_command": ("check_like",),
    "recording": ("Progress", "signal_name"),
    "signals": (
        "Interrupted",
        "Stopped",
    ),
    "simulated": ("simulate_run",),
    "simulated_measure": ("SimulatedMeasure",),
    "user": ("sudo_user", "use_store_of"),
    "workloads": (
        "count_memory",
        "dataset_recipe",
        "find_workload",
        "generate_dataset",
        "survey_dataset",
    ),
}

if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
