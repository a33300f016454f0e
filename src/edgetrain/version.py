"""The version of edgetrain."""

__version__ = "0.1.0"
