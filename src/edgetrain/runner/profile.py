"""Runs somebody's command and records the training in it, unmodified: hook, telemetry, manifest, exit status kept.

The hook is a folder in front of PYTHONPATH whose sitecustomize waits for torch's loader. Where it cannot enter
(`python -I`, a container without the folder), the run still has telemetry, and says what is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import edgetrain.inside
from edgetrain import __version__
from edgetrain.device import Device, open_device
from edgetrain.errors import UsageError
from edgetrain.inside.stream import append_event, write_json
from edgetrain.runner import manifest as about
from edgetrain.runner.anchors import anchor, spell_wall
from edgetrain.runner.child import SamplerProcess
from edgetrain.schema import SCHEMA, Origin
from edgetrain.store import Store
from edgetrain.store.codec import read_events, read_json

HOOK = Path(edgetrain.inside.__file__).parent  # may be mounted into a container, at the same path
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT)
PYTHONS_THAT_IGNORE_US = ("-I", "-E", "-S")


@dataclass(frozen=True, slots=True)
class Profiled:
    """The record, and the status the command ended with, as a shell would give it."""

    run: str
    status: int


def profile(
    command: Sequence[str],
    store: Store,
    device_spec: str = "auto",
    dataset: str | None = None,
    timing: str = "async",
    stdout: int | None = None,
) -> Profiled:
    """Run the command to its end, recorded. `stdout` is the descriptor its output goes to; None: ours."""
    if not sys.platform.startswith("linux"):
        raise UsageError(f"training is measured on Linux, and this is {sys.platform}; records can be read here")
    if not command:
        raise UsageError("nothing to profile; write for example: edgetrain profile -- python train.py")
    if timing not in ("async", "sync"):
        raise UsageError(f"timing is async or sync, not {timing!r}")
    if shutil.which(command[0]) is None:
        raise UsageError(f"cannot find the command {command[0]!r}; write it after -- as you would in a shell")
    if dataset is not None and not Path(dataset).exists():
        raise UsageError(f"there is no dataset at {dataset}")
    device = open_device(device_spec)
    manifest = _first(command, device, dataset, timing)
    path = store.create(manifest)
    manifest = {**manifest, "run": path.name}
    status, signalled = _carry_out(list(command), path, device_spec, dataset, timing, stdout)
    _close(path, manifest, list(command), status, signalled)
    return Profiled(path.name, status if status >= 0 else 128 - status)


def environment(run: Path, timing: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the surroundings in which any Python from 3.8 on lets us in."""
    path = [str(HOOK / "site"), *filter(None, [base.get("PYTHONPATH")])]
    return {
        **base,
        "PYTHONPATH": os.pathsep.join(path),
        "EDGETRAIN_RUN": str(run.absolute()),
        "EDGETRAIN_TIMING": timing,
        "EDGETRAIN_HOOK": str(HOOK),
    }


def _carry_out(
    command: list[str], path: Path, device_spec: str, dataset: str | None, timing: str, stdout: int | None
) -> tuple[int, int | None]:
    """Run the command with the sampler beside it; return its status and the signal we were sent, if any."""
    sampler: SamplerProcess | None = None
    with _forwarding() as forward:
        try:
            child = subprocess.Popen(command, env=environment(path, timing, os.environ), stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from error
        forward.child = child
        try:
            with contextlib.suppress(OSError):
                sampler = SamplerProcess(path, device_spec, dataset, child.pid, 0)
            return child.wait(), forward.seen
        finally:
            if sampler is not None:
                sampler.stop()


class _Forward:
    """Hands signals on to the command."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.seen: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.seen = number
        if number in (signal.SIGINT, signal.SIGQUIT) and _at_a_terminal():
            return  # Ctrl-C reached the command as well: twice would cut short what it does about it
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)


def _at_a_terminal() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _forwarding() -> Iterator[_Forward]:
    forward = _Forward()
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: whoever called us handles signals
        before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield forward
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first(command: Sequence[str], device: Device, dataset: str | None, timing: str) -> dict[str, Any]:
    began = anchor()
    power = device.total_power()
    scripts = [word for word in command if word.endswith(".py")]
    label = Path(scripts[0]).stem if scripts else Path(command[0]).name
    return {
        "schema": SCHEMA,
        "state": "running",
        "origin": str(Origin.MEASURED),
        "started_wall": spell_wall(began["wall_s"]),
        "clock": {"start": began, "end": None},
        "command": list(command),
        "profiled": True,
        "version": __version__,
        "workload": {"network": label, "dataset": dataset},
        "loading": None,
        "timing": timing,
        "compute": None,
        "device": about.describe_device(device),
        "power": None if power is None else power.document(),
        "power_reason": None if power else "this device has no power sensor that can be read; see edgetrain doctor",
        "baseload": None,
        "cache": {"asked": "keep"},
        "limits": None,
        "power_mode": None,
        "doubts": [],
        "losses": [],
    }


def _close(path: Path, manifest: dict[str, Any], command: list[str], status: int, signalled: int | None) -> None:
    """Write the last manifest: how it ended, what was found inside, what is missing."""
    state, reason = "finished", None
    if status < 0 or (status and signalled is not None):
        number = -status if status < 0 else signalled
        name = signal.Signals(number or 0).name
        state, reason = "interrupted", f"the command was ended by {name}"
        append_event(str(path / "events-runner.jsonl"), "signal", reason)
    elif status:
        state, reason = "failed", f"the command ended with status {status}; its own output says why"
    inside = read_json(path / "inside.json") or {}
    manifest = {
        **manifest,
        **_found(inside, manifest),
        "state": state,
        "reason": reason,
        "exit_status": status,
        "clock": {**manifest["clock"], "end": anchor()},
        "doubts": _missing(path, inside, command),
    }
    write_json(str(path / "manifest.json"), manifest)


def _found(inside: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the training process told about itself, of the loader it trained with."""
    if not inside:
        return {}
    trained: dict[int, int] = {}
    for one in inside.get("epochs") or ():
        trained[one["loader"]] = trained.get(one["loader"], 0) + (one.get("trained") or 0)
    main = max(trained, key=lambda loader: trained[loader]) if trained else None
    loader: Mapping[str, Any] = next((one for one in inside.get("loaders") or () if one["loader"] == main), {})
    workers = loader.get("workers")
    facts = {
        "batch_size": loader.get("batch_size"),
        "samples": loader.get("samples"),
        "minibatches_per_epoch": loader.get("length"),
        "parameters": inside.get("parameters"),
    }
    return {
        "workload": {**manifest["workload"], **facts},
        "loading": {
            "workers": workers,
            "prefetch": loader.get("prefetch_factor"),
            "pin_memory": loader.get("pin_memory"),
            "persistent": loader.get("persistent_workers"),
            "start_method": loader.get("start_method"),
            "cache": "keep",
        },
        "compute": {"kind": "cuda" if inside.get("gpu") else "cpu", "name": inside.get("gpu"), "ms": None},
        "device": {
            **manifest["device"],
            **{name: inside.get(name) for name in ("python", "torch", "cuda", "threads")},
        },
    }


def _missing(path: Path, inside: Mapping[str, Any], command: list[str]) -> list[dict[str, str]]:
    """Return what was not seen, and why."""
    if any(one.get("trained") for one in inside.get("epochs") or ()):
        return []
    if inside.get("epochs"):
        text = (
            "loaders were iterated but no backward pass or optimiser step was seen: waiting is told from the rest, "
            "training is not told from evaluation; edgetrain.watch(loader) says it outright"
        )
        return [{"kind": "no_steps_seen", "text": text}]
    entered = False
    if (path / "events-inside.jsonl").exists():
        entered = any(event.get("kind") == "entered" for event in read_events(path / "events-inside.jsonl")[0])
    if entered:
        text = "no torch DataLoader was iterated: there is telemetry, but no minibatch to tell about"
    elif any(word in PYTHONS_THAT_IGNORE_US for word in command):
        text = (
            "the command's Python was told to ignore PYTHONPATH, so the recorder could not enter: there is telemetry "
            "only; leave out -I, -E and -S"
        )
    else:
        text = (
            "the recorder could not enter the command: no Python from 3.8 on started with our PYTHONPATH. There is "
            "telemetry only; for a container, mount $EDGETRAIN_HOOK and $EDGETRAIN_RUN and pass PYTHONPATH and "
            "EDGETRAIN_RUN on (see docs/profile.md)"
        )
    return [{"kind": "not_entered" if not entered else "no_loader", "text": text}]
