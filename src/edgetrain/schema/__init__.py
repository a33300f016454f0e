"""The nouns everyone speaks: devices, power modes, workloads, experiments, minibatches, runs.

The half that touches hardware and the half that reasons meet only here and in the store.
"""

from edgetrain.schema.device import DeviceSpec, PowerMode
from edgetrain.schema.experiment import Experiment, Loading, Workload, read_experiment
from edgetrain.schema.measure import Measure, ModeMeasurement
from edgetrain.schema.origin import Origin, weakest
from edgetrain.schema.run import SCHEMA, Columns, Run

__all__ = [
    "SCHEMA",
    "Columns",
    "DeviceSpec",
    "Experiment",
    "Loading",
    "Measure",
    "ModeMeasurement",
    "Origin",
    "PowerMode",
    "Run",
    "Workload",
    "read_experiment",
    "weakest",
]
