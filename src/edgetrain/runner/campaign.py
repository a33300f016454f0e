"""A plan being carried out: costed, resumable, one at a time on a machine.

The truth is the journal in the store (`campaigns/ID/journal.jsonl`): a run is `begun`, then `done` with its record or
`failed` with the reason. A kill can fall between a run's end and its entry, so on a start the store is asked for
finished runs of this campaign that the journal does not know; they are entered, never run again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.inside.stream import append_event
from edgetrain.runner.campaign_journal import Journal, OneAtATime
from edgetrain.runner.plan import Plan, Planned, ReadMode
from edgetrain.runner.plan_costs import Cost, cost_of
from edgetrain.runner.settle import wait_until_quiet
from edgetrain.schema import Experiment
from edgetrain.store import Store

RunOne = Callable[[Experiment], str]
Tell = Callable[["Standing"], None]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a campaign is."""

    id: str
    planned: int
    done: Mapping[str, str]  # key: run
    failed: Mapping[str, str]  # key: last reason, not (yet) made good
    now: Planned | None
    cost: Cost  # of what is left
    took_s: float = 0.0  # of what was done, over all starts

    @property
    def complete(self) -> bool:
        """Return whether every planned run has its record."""
        return len(self.done) == self.planned


@dataclass
class _Memory:
    """The journal, summed up."""

    done: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    used_j: dict[str, float] = field(default_factory=dict)


class Campaign:
    """Carries a plan out; `run` makes one run of one experiment and returns its id."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        run: RunOne,
        device: str | None = None,
        tag: str = "",
        read_mode: ReadMode | None = None,
        energy_of: Callable[[str], float | None] = lambda run: None,
    ) -> None:
        self.plan = plan
        self.store = store
        self.id = plan.id + tag
        self.runs = plan.runs(self.id, read_mode)
        self.journal = Journal(store.campaigns / self.id / "journal.jsonl")
        self._run = run
        self._device = device
        self._energy_of = energy_of
        self._memory = _Memory()

    def recall(self) -> Standing:
        """Read the journal and adopt what the store has beside it; changes nothing but our memory."""
        memory = self._memory = _Memory()
        keys = {planned.key for planned in self.runs}
        for entry in self.journal.read():
            key = entry.get("key")
            if key not in keys:
                continue
            if entry.get("kind") == "begun":
                memory.attempts[key] = memory.attempts.get(key, 0) + 1
            elif entry.get("kind") == "done":
                memory.done[key] = str(entry["run"])
                memory.failed.pop(key, None)
                if entry.get("took_s") is not None:
                    memory.took_s[key] = float(entry["took_s"])
                if entry.get("energy_j") is not None:
                    memory.used_j[key] = float(entry["energy_j"])
            elif entry.get("kind") == "failed":
                memory.failed[key] = str(entry.get("reason"))
        return self.standing(None)

    def standing(self, now: Planned | None) -> Standing:
        """Return where we are."""
        memory = self._memory
        left = [planned for planned in self.runs if planned.key not in memory.done]
        cost = cost_of(left, memory.took_s, memory.used_j, self.runs, self.plan.cool_down_s, self._device)
        took_s = sum(memory.took_s.values())
        return Standing(self.id, len(self.runs), dict(memory.done), dict(memory.failed), now, cost, took_s)

    def carry_out(self, tell: Tell = lambda standing: None, sleep: Callable[[float], None] = time.sleep) -> Standing:
        """Make every run that is missing; failures are tried again at the end. Resumes where it was."""
        with OneAtATime():
            self.recall()
            self._adopt()
            self.journal.append({"kind": "start", "at": time.time(), "planned": len(self.runs), "plan": self._facts()})
            rounds = self.plan.retries + 1
            for turn in range(rounds):
                for planned in self.runs:
                    if planned.key in self._memory.done:
                        continue
                    # The first round leaves alone what failed before: it comes again at the end.
                    if turn == 0 and planned.key in self._memory.failed and rounds > 1:
                        continue
                    self._one(planned, tell, sleep)
            self.journal.append({"kind": "end", "at": time.time(), "done": len(self._memory.done)})
            return self.standing(None)

    def _one(self, planned: Planned, tell: Tell, sleep: Callable[[float], None]) -> None:
        memory, settle = self._memory, self.plan.settle
        tell(self.standing(planned))
        quiet = wait_until_quiet(settle.busy, settle.temp_c, settle.wait_s, sleep=sleep)
        attempt = memory.attempts.get(planned.key, 0) + 1
        memory.attempts[planned.key] = attempt
        self.journal.append({"kind": "begun", "key": planned.key, "attempt": attempt, "at": time.time()})
        start_s = time.monotonic()
        try:
            run = self._run(planned.experiment)
        except UsageError as error:
            # The plan itself is wrong: every other run of its kind would fail the same way.
            self.journal.append({"kind": "failed", "key": planned.key, "reason": str(error), "at": time.time()})
            memory.failed[planned.key] = str(error)
            return
        except EdgetrainError as error:
            run_id = error.facts.get("run")
            entry = {"kind": "failed", "key": planned.key, "run": run_id, "reason": str(error), "at": time.time()}
            self.journal.append(entry)
            memory.failed[planned.key] = str(error)
            return
        took_s = time.monotonic() - start_s
        if quiet.doubt:
            append_event(str(self.store.runs / run / "events-runner.jsonl"), "doubt", quiet.doubt)
        self._enter_done(planned.key, run, took_s)
        tell(self.standing(None))
        if self.plan.cool_down_s:
            sleep(self.plan.cool_down_s)

    def _enter_done(self, key: str, run: str, took_s: float | None) -> None:
        # What it cost is known only to whoever can read records; the next estimate is made from it.
        energy_j = self._energy_of(run)
        entry = {"kind": "done", "key": key, "run": run, "took_s": took_s, "energy_j": energy_j, "at": time.time()}
        self.journal.append(entry)
        self._memory.done[key] = run
        if energy_j is not None:
            self._memory.used_j[key] = energy_j
        self._memory.failed.pop(key, None)
        if took_s is not None:
            self._memory.took_s[key] = took_s

    def _adopt(self) -> None:
        """Enter finished runs of this campaign that were killed before they could be entered."""
        known = set(self._memory.done.values())
        by_place = {(planned.position, planned.repeat): planned for planned in self.runs}
        for row in self.store.list():
            if row.get("campaign") != self.id or row["run"] in known or row.get("state") != "finished":
                continue
            with contextlib.suppress(OSError, ValueError):
                manifest = json.loads((self.store.runs / row["run"] / "manifest.json").read_text())
                planned = by_place.get((manifest.get("position"), manifest.get("repeat")))
                if planned is not None and planned.key not in self._memory.done:
                    self._enter_done(planned.key, row["run"], None)

    def _facts(self) -> dict[str, Any]:
        plan = self.plan
        return {"name": plan.name, "base": dict(plan.base), "factors": dict(plan.factors), "repeats": plan.repeats}


def fresh_tag(plan: Plan, store: Store) -> str:
    """Return a tag under which this plan has not been carried out yet."""
    number = 1
    while (store.campaigns / f"{plan.id}{'' if number == 1 else f'-{number}'}" / "journal.jsonl").exists():
        number += 1
    return "" if number == 1 else f"-{number}"
