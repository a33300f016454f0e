"""When a trial is ended from outside: limits of time, files about to be changed, a recorder that is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgetrain.inside import stream
from edgetrain.record import FolderStore
from edgetrain.runner import TrialPlace, TrialRule
from edgetrain.runner.trial_watch import ENTERED_WITHIN_S, EventTail, TrialWatch


def watch_of(folder: Path, now: list[float], **place) -> TrialWatch:
    watch = TrialWatch(folder, TrialPlace(FolderStore(folder / "store"), **place), now_s=lambda: now[0])
    watch.begin(os.getpid(), hooked=True)
    return watch


def say(folder: Path, kind: str, end: str = "\n") -> None:
    with (folder / "events-inside.jsonl").open("a") as file:
        file.write(f'{{"kind": "{kind}", "file": "/home/me/weights.pt"}}{end}')


def test_a_command_into_which_the_recorder_was_not_loaded_is_ended(tmp_path: Path) -> None:
    now = [0.0]
    watch = watch_of(tmp_path, now)
    now[0] = ENTERED_WITHIN_S - 1
    assert not watch.over()
    now[0] = ENTERED_WITHIN_S + 1
    assert watch.over() and watch.ended == "not entered"


def write_minibatches(folder: Path, count: int, phase: int = 1) -> None:
    writer = stream.StreamWriter(str(folder / "minibatches-7.ets"), "minibatches", stream.MINIBATCHES, {"pid": 7})
    names = [name for name, _ in stream.MINIBATCHES]
    for number in range(count):
        known = {"loader": 0, "generation": 0, "batch": number, "phase": phase, "asked_us": number, "ready_us": number}
        writer.add([known.get(name) for name in names])
    writer.close()


def test_the_time_limit_of_a_trial_begins_with_its_first_minibatch(tmp_path: Path) -> None:
    now = [0.0]
    watch = watch_of(tmp_path, now, rule=TrialRule(limit_s=60.0, startup_s=200.0))
    say(tmp_path, "entered")
    now[0] = 150.0
    assert not watch.over()
    write_minibatches(tmp_path, 3)
    now[0] = 151.0
    assert not watch.over()
    now[0] = 210.0
    assert not watch.over()
    now[0] = 212.0
    assert watch.over() and watch.ended == "limit"


def test_a_command_that_never_trains_is_ended_when_its_time_to_start_is_over(tmp_path: Path) -> None:
    now = [0.0]
    watch = watch_of(tmp_path, now, rule=TrialRule(limit_s=60.0, startup_s=200.0))
    say(tmp_path, "entered")
    now[0] = 199.0
    assert not watch.over()
    now[0] = 201.0
    assert watch.over() and watch.ended == "limit"


def test_a_command_that_loads_minibatches_and_never_trains_is_ended_soon(tmp_path: Path) -> None:
    now = [0.0]
    watch = watch_of(tmp_path, now, rule=TrialRule(startup_s=200.0, untrained_s=60.0))
    say(tmp_path, "entered")
    write_minibatches(tmp_path, 3, phase=0)
    now[0] = 20.0
    assert not watch.over()
    now[0] = 79.0
    assert not watch.over()
    now[0] = 81.0
    assert watch.over() and watch.ended == "no steps"


def test_a_command_that_is_about_to_change_a_file_is_ended_unless_that_is_allowed(tmp_path: Path) -> None:
    now = [0.0]
    strict, allowing = watch_of(tmp_path, now), watch_of(tmp_path, now, allow_writes=True)
    say(tmp_path, "entered")
    now[0] = ENTERED_WITHIN_S + 1
    assert not strict.over() and not allowing.over()
    say(tmp_path, "write")
    assert strict.over() and strict.ended == "writes"
    assert not allowing.over()


@pytest.mark.parametrize(("allow_writes", "ended", "status"), [(False, "writes", None), (True, "by itself", -9)])
def test_a_command_that_the_hook_killed_was_ended_because_it_writes(tmp_path, allow_writes, ended, status) -> None:
    watch = watch_of(tmp_path, [0.0], allow_writes=allow_writes)
    say(tmp_path, "write")
    watch.command_ended(-9)
    assert (watch.ended, watch.status) == (ended, status)


def test_events_are_read_once_and_only_whole_lines(tmp_path: Path) -> None:
    tail = EventTail(tmp_path / "events-inside.jsonl")
    assert tail.read() == []
    say(tmp_path, "entered")
    say(tmp_path, "write", end="")
    assert [event["kind"] for event in tail.read()] == ["entered"]
    say(tmp_path, "", end="\n")
    (tmp_path / "events-inside.jsonl").open("a").write('broken\n{"kind": "write"}\n')
    assert [event["kind"] for event in tail.read()] == ["write"]
