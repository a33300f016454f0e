"""Every setting a plan may hold or vary: its kind, its limits, what it means; and the JSON Schema made of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetrain.errors import UsageError
from edgetrain.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing an experiment can be told."""

    about: str
    kind: str  # integer | number | text | size | flag | any
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None

    def read(self, value: Any) -> Any:
        """Return the value as this setting takes it; UsageError says what is wrong with it."""
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise UsageError(f"is {value!r}; write true or false")
            return value
        if self.kind in ("integer", "number"):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UsageError(f"is {value!r}; write a number")
            if self.kind == "integer" and value != int(value):
                raise UsageError(f"is {value!r}; write a whole number")
            if self.least is not None and value < self.least:
                raise UsageError(f"is {value}; the least is {self.least:g}")
            if self.above is not None and value <= self.above:
                raise UsageError(f"is {value}; it must be above {self.above:g}")
            return int(value) if self.kind == "integer" else float(value)
        if self.kind == "size":
            parse_bytes(str(value))
            return str(value)
        if self.kind == "text":
            if isinstance(value, (dict, list, bool)) or value is None:
                raise UsageError(f"is {value!r}; write a word")
            if self.choices and str(value) not in self.choices:
                raise UsageError(f"is {value!r}; it is one of {', '.join(self.choices)}")
            return str(value)
        return value

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        kinds = {"flag": "boolean", "text": "string", "integer": "integer", "number": "number"}
        document: dict[str, Any] = {"description": self.about}
        if self.kind == "size":
            document["type"] = ["string", "integer"]
        elif self.kind in kinds:
            document["type"] = kinds[self.kind]
        if self.choices:
            document["enum"] = list(self.choices)
        if self.least is not None:
            document["minimum"] = self.least
        if self.above is not None:
            document["exclusiveMinimum"] = self.above
        return document


SETTINGS: dict[str, Setting] = {
    "network": Setting("What to train: a catalogued name, or module:function.", "text"),
    "dataset": Setting("Folder of the dataset; left out, one of the right shape is generated.", "text"),
    "dataset_scale": Setting("Size of the generated dataset; 1 is the papers'.", "number", above=0),
    "batch_size": Setting("Samples in a minibatch.", "integer", least=1),
    "learning_rate": Setting("Step size of the optimiser.", "number", above=0),
    "optimizer": Setting("Optimiser.", "text", ("sgd", "adam", "adamw")),
    "workers": Setting("Loader workers; 0 fetches in the loop.", "integer", least=0),
    "prefetch": Setting("Minibatches each worker keeps ahead.", "integer", least=1),
    "pin_memory": Setting("Page-locked minibatches.", "flag"),
    "persistent": Setting("Workers live across epochs.", "flag"),
    "start_method": Setting("How workers are started.", "text", ("fork", "spawn", "forkserver")),
    "cache": Setting("Page cache at the start of a run.", "text", ("cold", "warm", "keep")),
    "epochs": Setting("Epochs of a run.", "integer", least=1),
    "minibatches": Setting("Most minibatches of an epoch.", "integer", least=1),
    "timing": Setting("Whether each step is waited for.", "text", ("async", "sync")),
    "compute": Setting("What computes the step.", "text", ("auto", "cuda", "cpu", "paced")),
    "compute_ms": Setting("Time of a paced step.", "number", above=0),
    "storage": Setting("Storage medium: of the lab, or a name in the plan's `folders`.", "text"),
    "ram": Setting("RAM of the machine stood for; what training needs is taken off it.", "size"),
    "page_cache": Setting("Page cache left, said directly.", "size"),
    "cores": Setting("Cores to use.", "integer", least=1),
    "cpu_share": Setting("Speed of a core, in cores of this machine.", "number", above=0),
    "speed": Setting("Every emulated time divided by this.", "number", above=0),
    "picture": Setting("Size of pictures that stand for the papers' 800x600 at a speed, such as 400x300.", "text"),
    "preset": Setting("Board to stand for.", "text"),
    "shrink": Setting("Dataset, page cache and epoch time divided by this.", "number", above=0),
    "power_mode": Setting("Power mode to hold: a stock mode's name or id, or cores/CPU/GPU/memory in MHz.", "any"),
    "seed": Setting("Seed of shuffling and initial weights.", "integer", least=0),
    "baseload_s": Setting("Idle time measured before training.", "number", least=0),
}
LIMITS = ("storage", "ram", "page_cache", "cores", "cpu_share", "speed", "picture")

PLAN = {
    "name": Setting("Name of the campaign.", "text"),
    "repeats": Setting("How often each experiment is run.", "integer", least=1),
    "order": Setting("Order of the runs.", "text", ("random", "listed")),
    "order_seed": Setting("Seed of the random order.", "integer", least=0),
    "cool_down_s": Setting("Pause between runs.", "number", least=0),
    "retries": Setting("How often a failed run is tried again, at the end.", "integer", least=0),
}
SETTLE = {
    "busy": Setting("Largest share of the CPUs that others may use before a run starts.", "number", above=0),
    "temp_c": Setting("Highest temperature before a run starts.", "number", above=0),
    "wait_s": Setting("Longest wait for that; the run then starts with a doubt.", "number", least=0),
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan, for editors."""
    settings = {name: setting.schema() for name, setting in SETTINGS.items()}
    # A factor may be anything a setting can be, several times.
    factors = {
        name: {"type": "array", "minItems": 1, "items": schema, "description": schema["description"]}
        for name, schema in settings.items()
    }
    properties: dict[str, Any] = {name: setting.schema() for name, setting in PLAN.items()}
    properties.update(settings)
    properties["factors"] = {
        "type": "object", "additionalProperties": False, "properties": factors,
        "description": "What is varied: every combination of the values is run.",
    }  # fmt: skip
    properties["points"] = {
        "type": "array",
        "items": {"type": "object", "additionalProperties": False, "properties": settings},
        "description": "Experiments listed one by one, beside or instead of the grid.",
    }
    properties["folders"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "On a board: where the dataset lies on each real medium, by name.",
    }
    properties["settle"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: setting.schema() for name, setting in SETTLE.items()},
        "description": "What must be quiet before a run starts.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edgetrain campaign plan",
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "network"],
        "properties": properties,
    }
