"""Figures for papers: vector PDF and SVG, one column wide, each with a tidy CSV of exactly what is drawn.

`campaign_figures` and `mode_figures` return what to draw; `write_figures` draws it (matplotlib) and writes the files.
"""

from edgetrain.report.figures.campaign import SettingRun, campaign_figures
from edgetrain.report.figures.figure import FigureKind, FigureRow, PaperFigure, figure_csv
from edgetrain.report.figures.modes import mode_figures
from edgetrain.report.figures.write import write_figures

__all__ = [
    "FigureKind",
    "FigureRow",
    "PaperFigure",
    "SettingRun",
    "campaign_figures",
    "figure_csv",
    "mode_figures",
    "write_figures",
]
