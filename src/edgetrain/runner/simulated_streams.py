"""Reads a simulated board's probes in virtual time and writes the streams that a sampler would have written."""

from __future__ import annotations

import json
from pathlib import Path

from edgetrain.device import Probe, Telling
from edgetrain.device.simulated import SimulatedDevice
from edgetrain.inside.stream import StreamWriter
from edgetrain.units import NS_PER_S, US_PER_S

RECORDED = ("rails", "gpu", "emc", "thermal", "alarms", "cpu")  # what lives on a simulated board


class Recorder:
    """Reads the board's probes on their timetable in virtual time and writes their streams."""

    def __init__(self, device: SimulatedDevice, path: Path) -> None:
        self._world, self._path = device.world, path
        self._probes: list[Probe] = [probe for probe in device.probes() if probe.name in RECORDED]
        start_us = self._world.now_ns() // 1000
        self._due = dict.fromkeys(range(len(self._probes)), start_us)
        self._writers = []
        for probe in self._probes:
            columns = [("at_us", "delta"), *((column, "f4") for column in probe.columns)]
            meta = {"probe": probe.name, "period_s": probe.period_s, "simulated": True}
            self._writers.append(StreamWriter(str(path / f"samples-{probe.name}.ets"), "samples", columns, meta))

    def follow(self, until_ns: int) -> None:
        """Read every probe whenever it is due, up to an instant."""
        world = self._world
        until_us = until_ns // 1000
        while True:
            index = min(self._due, key=lambda each: self._due[each])
            due_us = self._due[index]
            if due_us > until_us:
                break
            world.sleep(max(0, due_us * 1000 - world.now_ns()) / NS_PER_S)
            probe = self._probes[index]
            row = probe.read()
            at_us = world.now_ns() // 1000
            self._writers[index].add((at_us, *row))
            if isinstance(probe, Telling):
                for kind, text in probe.told():
                    self.event(at_us * 1000, kind, text)
            self._due[index] = max(due_us + round(probe.period_s * US_PER_S), at_us + 1000)
        world.sleep(max(0, until_ns - world.now_ns()) / NS_PER_S)
        for writer in self._writers:
            writer.flush()

    def event(self, at_ns: int, kind: str, text: str) -> None:
        """Append one event at its virtual instant."""
        with (self._path / "events-sim.jsonl").open("a") as file:
            file.write(json.dumps({"at_us": at_ns // 1000, "kind": kind, "text": text}) + "\n")

    def close(self) -> None:
        for writer, probe in zip(self._writers, self._probes, strict=True):
            writer.close()
            probe.close()
