"""The run on disk and in memory: typed manifest and facts, stream decoder, `Run`, and the stores that keep runs.

A run is a directory with a manifest and append-only streams; no server is needed. `FolderStore` and `MemoryStore` are
the stores; both keep the interface `Store`.
"""

from edgetrain.record.facts import (
    AcceleratorAnchor,
    EpochFacts,
    Event,
    LoaderFacts,
    LoaderPlace,
    ProbeReport,
    ProcessFacts,
    SamplerReport,
    ThreadCost,
)
from edgetrain.record.index import RunRow
from edgetrain.record.manifest import (
    STATES,
    BaseloadWindow,
    BatchSizeFacts,
    CacheCheck,
    CacheState,
    Clock,
    ClockAnchor,
    ComputeFacts,
    DeviceFacts,
    HandOverFacts,
    ImportFacts,
    LimitsRecord,
    LoadingFacts,
    Manifest,
    PowerModeRecord,
    RunnerFacts,
    SettledFacts,
    SteadyWindow,
    WorkloadFacts,
)
from edgetrain.record.memory import MemoryStore
from edgetrain.record.mode_tables import MODE_COLUMNS, CampaignTable, TableFacts, read_table, tables, write_table
from edgetrain.record.reader import read_run
from edgetrain.record.run import Process, Run
from edgetrain.record.store import FolderStore, FolderWriter, RowWriter, RunWriter, Store, default_store, live_runner
from edgetrain.record.table import NULL, ArrayTable, Column, Condensed, Table, Windows, frame_of, import_pandas

__all__ = [
    "MODE_COLUMNS",
    "NULL",
    "STATES",
    "AcceleratorAnchor",
    "ArrayTable",
    "BaseloadWindow",
    "BatchSizeFacts",
    "CacheCheck",
    "CacheState",
    "CampaignTable",
    "Clock",
    "ClockAnchor",
    "Column",
    "ComputeFacts",
    "Condensed",
    "DeviceFacts",
    "EpochFacts",
    "Event",
    "FolderStore",
    "FolderWriter",
    "HandOverFacts",
    "ImportFacts",
    "LimitsRecord",
    "LoaderFacts",
    "LoaderPlace",
    "LoadingFacts",
    "Manifest",
    "MemoryStore",
    "PowerModeRecord",
    "ProbeReport",
    "Process",
    "ProcessFacts",
    "RowWriter",
    "Run",
    "RunRow",
    "RunWriter",
    "RunnerFacts",
    "SamplerReport",
    "SettledFacts",
    "SteadyWindow",
    "Store",
    "Table",
    "TableFacts",
    "ThreadCost",
    "Windows",
    "WorkloadFacts",
    "default_store",
    "frame_of",
    "import_pandas",
    "live_runner",
    "read_run",
    "read_table",
    "tables",
    "write_table",
]
