"""Text, pages, pictures and exports: turns records and answers into what a person or a program reads.

Functions from records; nothing here measures or decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.report.boards import show_baseload, show_baseload_preview, show_change, show_modes, show_restore
    from edgetrain.report.campaigns import factor_table, show_campaign, show_campaign_preview
    from edgetrain.report.characterisation import show_characterisation, spell_median
    from edgetrain.report.choice import show_applied, show_choice
    from edgetrain.report.comparison import show_comparison
    from edgetrain.report.datasets import dataset_preview_text, dataset_table
    from edgetrain.report.devices import show_board, show_catalogue, show_fits
    from edgetrain.report.devices_ranked import show_options
    from edgetrain.report.diagnosis import show_diagnosis, spell_gain
    from edgetrain.report.doctor import show_doctor
    from edgetrain.report.document import emit
    from edgetrain.report.export.fleet_trace import FleetTraceRow, fleet_trace_csv
    from edgetrain.report.export.prometheus import CONTENT_TYPE, prometheus_text
    from edgetrain.report.export.tables import minibatch_table, sample_table, write_csv, write_parquet
    from edgetrain.report.export.trace import write_trace
    from edgetrain.report.figures import SettingRun, campaign_figures, mode_figures, write_figures
    from edgetrain.report.findings import findings_markdown, show_findings
    from edgetrain.report.fleet import (
        fleet_line,
        show_fleet,
        show_fleet_doctor,
        show_fleet_preview,
        show_fleet_progress,
    )
    from edgetrain.report.imports import show_imports
    from edgetrain.report.lab import lab_down_text, lab_measured_table, lab_preview_text, lab_status_text, lab_up_text
    from edgetrain.report.page.axes import spell_value
    from edgetrain.report.page.campaign_page import CampaignContent, campaign_page
    from edgetrain.report.page.comparison_page import comparison_page, setting_of
    from edgetrain.report.page.live_page import (
        SLIDERS,
        LiveCampaign,
        LiveDocument,
        LiveOptions,
        LiveRun,
        LiveView,
        live_document,
        live_event,
        live_page,
        live_plots,
    )
    from edgetrain.report.page.mode_plots import HeldOut, ModeCloud
    from edgetrain.report.page.modes_page import ModesContent, modes_page
    from edgetrain.report.page.plot import Plot
    from edgetrain.report.page.round_page import round_page, round_svg
    from edgetrain.report.page.run_page import run_page
    from edgetrain.report.page.verdict import PageRemedy, PageVerdict, page_sentence
    from edgetrain.report.prediction import show_evaluation, show_plan, show_priors, show_profiling, show_table
    from edgetrain.report.round import show_round
    from edgetrain.report.sensitivity import show_sensitivity
    from edgetrain.report.studies import costs_text, findings_text, study_markdown
    from edgetrain.report.sweep import write_sweep
    from edgetrain.report.terminal import plain_table
    from edgetrain.report.text import BROAD, console, list_runs, printable, show_run, spell_workers
    from edgetrain.report.tuning import show_trial, show_tuned
    from edgetrain.report.variability import show_variability, variability_figures
    from edgetrain.report.whatif import show_whatif

__all__ = [
    "BROAD",
    "CONTENT_TYPE",
    "SLIDERS",
    "CampaignContent",
    "FleetTraceRow",
    "HeldOut",
    "LiveCampaign",
    "LiveDocument",
    "LiveOptions",
    "LiveRun",
    "LiveView",
    "ModeCloud",
    "ModesContent",
    "PageRemedy",
    "PageVerdict",
    "Plot",
    "SettingRun",
    "campaign_figures",
    "campaign_page",
    "comparison_page",
    "console",
    "costs_text",
    "dataset_preview_text",
    "dataset_table",
    "emit",
    "factor_table",
    "findings_markdown",
    "findings_text",
    "fleet_line",
    "fleet_trace_csv",
    "lab_down_text",
    "lab_measured_table",
    "lab_preview_text",
    "lab_status_text",
    "lab_up_text",
    "list_runs",
    "live_document",
    "live_event",
    "live_page",
    "live_plots",
    "minibatch_table",
    "mode_figures",
    "modes_page",
    "page_sentence",
    "plain_table",
    "printable",
    "prometheus_text",
    "round_page",
    "round_svg",
    "run_page",
    "sample_table",
    "setting_of",
    "show_applied",
    "show_baseload",
    "show_baseload_preview",
    "show_board",
    "show_campaign",
    "show_campaign_preview",
    "show_catalogue",
    "show_change",
    "show_characterisation",
    "show_choice",
    "show_comparison",
    "show_diagnosis",
    "show_doctor",
    "show_evaluation",
    "show_findings",
    "show_fits",
    "show_fleet",
    "show_fleet_doctor",
    "show_fleet_preview",
    "show_fleet_progress",
    "show_imports",
    "show_modes",
    "show_options",
    "show_plan",
    "show_priors",
    "show_profiling",
    "show_restore",
    "show_round",
    "show_run",
    "show_sensitivity",
    "show_table",
    "show_trial",
    "show_tuned",
    "show_variability",
    "show_whatif",
    "spell_gain",
    "spell_median",
    "spell_value",
    "spell_workers",
    "study_markdown",
    "variability_figures",
    "write_csv",
    "write_figures",
    "write_parquet",
    "write_sweep",
    "write_trace",
]

_MODULES = {
    "boards": (
        "show_baseload",
        "show_baseload_preview",
        "show_change",
        "show_modes",
        "show_restore",
    ),
    "campaigns": (
        "factor_table",
        "show_campaign",
        "show_campaign_preview",
    ),
    "characterisation": (
        "show_characterisation",
        "spell_median",
    ),
    "choice": (
        "show_applied",
        "show_choice",
    ),
    "comparison": ("show_comparison",),
    "datasets": (
        "dataset_preview_text",
        "dataset_table",
    ),
    "devices": (
        "show_board",
        "show_catalogue",
        "show_fits",
    ),
    "devices_ranked": ("show_options",),
    "diagnosis": ("show_diagnosis", "spell_gain"),
    "doctor": ("show_doctor",),
    "document": ("emit",),
    "export.tables": (
        "minibatch_table",
        "sample_table",
        "write_csv",
        "write_parquet",
    ),
    "export.fleet_trace": ("FleetTraceRow", "fleet_trace_csv"),
    "export.prometheus": ("CONTENT_TYPE", "prometheus_text"),
    "export.trace": ("write_trace",),
    "findings": (
        "findings_markdown",
        "show_findings",
    ),
    "figures": (
        "SettingRun",
        "campaign_figures",
        "mode_figures",
        "write_figures",
    ),
    "fleet": ("fleet_line", "show_fleet", "show_fleet_doctor", "show_fleet_preview", "show_fleet_progress"),
    "imports": ("show_imports",),
    "lab": (
        "lab_down_text",
        "lab_measured_table",
        "lab_preview_text",
        "lab_status_text",
        "lab_up_text",
    ),
    "page": (
        "CampaignContent",
        "HeldOut",
        "ModeCloud",
        "ModesContent",
        "PageRemedy",
        "PageVerdict",
        "campaign_page",
        "comparison_page",
        "modes_page",
        "page_sentence",
        "round_page",
        "round_svg",
        "run_page",
        "setting_of",
    ),
    "page.axes": ("spell_value",),
    "page.live_page": (
        "SLIDERS",
        "LiveCampaign",
        "LiveDocument",
        "LiveOptions",
        "LiveRun",
        "LiveView",
        "live_document",
        "live_event",
        "live_page",
        "live_plots",
    ),
    "page.plot": ("Plot",),
    "prediction": (
        "show_evaluation",
        "show_plan",
        "show_priors",
        "show_profiling",
        "show_table",
    ),
    "round": ("show_round",),
    "sensitivity": ("show_sensitivity",),
    "studies": (
        "costs_text",
        "findings_text",
        "study_markdown",
    ),
    "terminal": ("plain_table",),
    "text": (
        "BROAD",
        "console",
        "list_runs",
        "printable",
        "show_run",
        "spell_workers",
    ),
    "variability": (
        "show_variability",
        "variability_figures",
    ),
    "whatif": ("show_whatif",),
    "sweep": ("write_sweep",),
    "tuning": (
        "show_trial",
        "show_tuned",
    ),
}

if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
