"""Reads a simulated board's probes in virtual time and writes the streams that a sampler would have written."""

from __future__ import annotations

from edgetrain.device import EventSource, Probe, SimulatedDevice
from edgetrain.record import RowWriter, RunWriter
from edgetrain.units import NS_PER_S, US_PER_S

RECORDED = ("rails", "gpu", "emc", "thermal", "alarms", "fan", "cpu")  # what lives on a simulated board


class VirtualSampler:
    """Reads the board's probes on their schedule in virtual time and writes their streams."""

    def __init__(self, device: SimulatedDevice, writer: RunWriter) -> None:
        self._world, self._writer = device.world, writer
        self._probes: list[Probe] = [probe for probe in device.probes() if probe.name in RECORDED]
        start_us = self._world.now_ns() // 1000
        self._due = dict.fromkeys(range(len(self._probes)), start_us)
        self._writers: list[RowWriter] = []
        for probe in self._probes:
            columns = [("at_us", "delta"), *((column, "f4") for column in probe.columns)]
            self._writers.append(writer.stream(f"samples-{probe.name}", "samples", columns))

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
            if isinstance(probe, EventSource):
                for event in probe.pop_events():
                    self._writer.event(event.kind, event.text, at_us)
            self._due[index] = max(due_us + round(probe.period_s * US_PER_S), at_us + 1000)
        world.sleep(max(0, until_ns - world.now_ns()) / NS_PER_S)
        for writer in self._writers:
            writer.flush()

    def close(self) -> None:
        for writer, probe in zip(self._writers, self._probes, strict=True):
            writer.close()
            probe.close()
