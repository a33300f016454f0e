"""Exports a run: CSV, Parquet, or a trace for Perfetto and Chrome."""
