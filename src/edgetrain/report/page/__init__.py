"""The report: one self-contained HTML page, tables and inline SVG, nothing fetched from anywhere."""

from edgetrain.report.page.build import build_page, write_page

__all__ = ["build_page", "write_page"]
