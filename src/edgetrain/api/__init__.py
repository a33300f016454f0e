"""The public functions: whatever a command can do, a program can do.

Each command of the CLI calls one of them. `import edgetrain as et` offers those that notebooks use most as
`et.open_run`, `et.profile`, ...; the others are imported from here: `from edgetrain.api import doctor`.
"""

from edgetrain.api.campaigns import Campaign
from edgetrain.api.data import dataset_facts, dataset_preview, make_dataset
from edgetrain.api.devices import (
    baseload,
    baseload_preview,
    doctor,
    install_control,
    list_modes,
    published_board,
    published_boards,
    published_sources,
    restore_at_boot,
    restore_mode,
    set_mode,
)
from edgetrain.api.diagnosing import diagnose
from edgetrain.api.drawing import FiguresWritten, figures
from edgetrain.api.evaluation import evaluate
from edgetrain.api.files import write_text
from edgetrain.api.fitting import FitReport, fits
from edgetrain.api.fleet_traces import export_fleet_trace
from edgetrain.api.fleets import (
    campaign_on,
    campaign_on_preview,
    fleet_doctor,
    fleet_down,
    fleet_down_preview,
    fleet_preview,
    fleet_status,
    fleet_up,
)
from edgetrain.api.hardware import choose_device
from edgetrain.api.lab import lab_down, lab_limits, lab_measure, lab_measure_medium, lab_preview, lab_status, lab_up
from edgetrain.api.measure import ProfiledRun, execute, profile, read_power_mode
from edgetrain.api.mode_plans import campaign_yaml, modes_csv
from edgetrain.api.paper_findings import findings
from edgetrain.api.prediction import plan_modes, predict, predict_unit, profile_until
from edgetrain.api.priors import add_to_prior, list_priors
from edgetrain.api.profiled import read_profiled
from edgetrain.api.quickstart import Characterisation, characterise
from edgetrain.api.recommendation import MeasuringOptions, TrainingOptions, apply_mode, recommend, undo_command
from edgetrain.api.records import (
    Exported,
    ImportResult,
    Pruned,
    RunList,
    campaign_ids,
    compare,
    export_run,
    import_logs,
    open_run,
    open_store,
    prune,
    remove_run,
    runs,
    summarize,
)
from edgetrain.api.reports import ModeLimits, PageWritten, ReportPage, report_page, write_report, write_study_page
from edgetrain.api.reproducing import cache_curves, reproduce, reproduce_preview
from edgetrain.api.rounds import plan_round, write_round_page
from edgetrain.api.schemas import (
    CommandHelp,
    CommandList,
    CommandOption,
    SchemaList,
    StudyCosts,
    document_names,
    document_schema,
)
from edgetrain.api.sensitivities import sensitivity
from edgetrain.api.serving import Address, serve, top
from edgetrain.api.tuning import tune
from edgetrain.api.variabilities import draw_variability, variability
from edgetrain.api.what_if import whatif

__all__ = [
    "Address",
    "Campaign",
    "Characterisation",
    "CommandHelp",
    "CommandList",
    "CommandOption",
    "Exported",
    "FiguresWritten",
    "FitReport",
    "ImportResult",
    "MeasuringOptions",
    "ModeLimits",
    "PageWritten",
    "ProfiledRun",
    "Pruned",
    "ReportPage",
    "RunList",
    "SchemaList",
    "StudyCosts",
    "TrainingOptions",
    "add_to_prior",
    "apply_mode",
    "baseload",
    "baseload_preview",
    "cache_curves",
    "campaign_ids",
    "campaign_on",
    "campaign_on_preview",
    "campaign_yaml",
    "characterise",
    "choose_device",
    "compare",
    "dataset_facts",
    "dataset_preview",
    "diagnose",
    "doctor",
    "document_names",
    "document_schema",
    "draw_variability",
    "evaluate",
    "execute",
    "export_fleet_trace",
    "export_run",
    "figures",
    "findings",
    "fits",
    "fleet_doctor",
    "fleet_down",
    "fleet_down_preview",
    "fleet_preview",
    "fleet_status",
    "fleet_up",
    "import_logs",
    "install_control",
    "lab_down",
    "lab_limits",
    "lab_measure",
    "lab_measure_medium",
    "lab_preview",
    "lab_status",
    "lab_up",
    "list_modes",
    "list_priors",
    "make_dataset",
    "modes_csv",
    "open_run",
    "open_store",
    "plan_modes",
    "plan_round",
    "predict",
    "predict_unit",
    "profile",
    "profile_until",
    "prune",
    "published_board",
    "published_boards",
    "published_sources",
    "read_power_mode",
    "read_profiled",
    "recommend",
    "remove_run",
    "report_page",
    "reproduce",
    "reproduce_preview",
    "restore_at_boot",
    "restore_mode",
    "runs",
    "sensitivity",
    "serve",
    "set_mode",
    "summarize",
    "top",
    "tune",
    "undo_command",
    "variability",
    "whatif",
    "write_report",
    "write_round_page",
    "write_study_page",
    "write_text",
]
