"""Pages for people: one self-contained file per run, comparison, campaign or table of power modes.

Each page holds its style, its data and a small script that draws the pictures live; without JavaScript the same
pictures are there as drawn by the report, with tables below them. Nothing is fetched from anywhere.
"""

from edgetrain.report.page.campaign_page import CampaignContent, campaign_page
from edgetrain.report.page.comparison_page import comparison_page, setting_of
from edgetrain.report.page.mode_plots import HeldOut, ModeCloud
from edgetrain.report.page.modes_page import ModesContent, modes_page
from edgetrain.report.page.round_page import round_page, round_svg
from edgetrain.report.page.run_page import run_page
from edgetrain.report.page.verdict import PageRemedy, PageVerdict, page_sentence

__all__ = [
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
]
