"""Takes a run out of our format: CSV, Parquet, or a trace for Perfetto and Chrome."""
