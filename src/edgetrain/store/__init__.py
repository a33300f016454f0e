"""Run directories, an index over them, and importers: the record, readable whatever happened to it.

A run is a directory with a manifest and append-only streams; nothing needs a server. `Store` makes and opens them.
"""

from edgetrain.store.directory import Store, default_store

__all__ = ["Store", "default_store"]
