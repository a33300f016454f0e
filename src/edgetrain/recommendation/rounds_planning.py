"""Plans a round: per device the power mode in which all finish by the deadline with the least energy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import DeadlineError, UsageError
from edgetrain.prediction import Array
from edgetrain.recommendation.rounds import (
    ALL_DEFAULT,
    ALL_MAXN,
    LITTLE_MARGIN,
    PLAN,
    RACE_TO_IDLE,
    SITS_OUT,
    TRAINS,
    RoundAssignment,
    RoundDevice,
    RoundPlan,
    RoundRules,
)
from edgetrain.recommendation.rounds_costs import RoundPolicy, evaluate_policy, make_policy, round_energies
from edgetrain.recommendation.rounds_spread import FEW_RECORDED, Margins
from edgetrain.schema import Doubt, weakest
from edgetrain.units import spell, spell_seconds

MAX_NAMED = 5  # devices in a sentence
MAX_STRAGGLERS = 10
MIN_CHANCE = 0.05  # of finishing in time, below which a device counts as unable to
PACE = 0.95  # share of the round from which a device that runs at its fastest sets the pace


@dataclass(frozen=True, slots=True, eq=False)
class _Menu:
    """The allowed modes of devices that are alike, fastest first by their time with the margin."""

    rows: NDArray[np.intp]
    safe_s: Array  # per minibatch, margins included, ascending
    best: NDArray[np.intp]  # place in `rows` of the mode of least energy that is at most this slow
    energy_known: bool

    def within(self, seconds: float) -> int | None:
        """Return the row of the mode of least energy among those that take at most this long per minibatch."""
        last = int(np.searchsorted(self.safe_s, seconds, side="right")) - 1
        return None if last < 0 else int(self.rows[self.best[last] if self.energy_known else 0])

    @property
    def fastest(self) -> int:
        """The row of the fastest mode."""
        return int(self.rows[0])


def plan_round(devices: Sequence[RoundDevice], rules: RoundRules, seed: int = 1) -> RoundPlan:
    """Choose each device's mode so that it finishes by the deadline, as often as the rules ask, with the least energy.

    UsageError where a device cannot meet the deadline and no remedy is allowed; it says how long each needs.
    """
    _check(devices)
    margins = Margins(rules, len(devices), seed)
    planner = _Planner(rules, margins, {})
    active = [device for device in devices if device.takes_part and device.answers > 0]
    if not active:
        raise UsageError("no device takes part in the round; every one is marked as not available or never answers")
    needs = {device.name: planner.needs_s(device) for device in active}
    deadline_s = _deadline(rules, needs)
    assignments = tuple(planner.assign(device, deadline_s, needs.get(device.name)) for device in devices)
    refused = [(one, device) for one, device in zip(assignments, devices, strict=True) if one.status == "cannot"]
    if refused and not rules.sit_out:
        raise _refusal(refused, deadline_s, rules, len(active))
    assignments = tuple(_sitting_out(one) if one.status == "cannot" else one for one in assignments)
    if all(one.status == SITS_OUT for one in assignments):
        raise _refusal(refused, deadline_s, rules, len(active))
    policies = round_policies(devices, assignments)
    energies = round_energies(
        [one.name for one in policies], [evaluate_policy(one, deadline_s) for one in policies], deadline_s
    )
    joules = evaluate_policy(policies[0], deadline_s).energy_j[0]
    assignments = tuple(_with_energy(one, float(each)) for one, each in zip(assignments, joules, strict=True))
    return RoundPlan(
        deadline_s,
        rules.deadline_s is not None,
        rules.late,
        assignments,
        energies,
        _stragglers(assignments, deadline_s),
        weakest(device.modes.origin for device in devices),
        tuple(_doubts(devices, assignments, rules)),
    )


def round_policies(devices: Sequence[RoundDevice], assignments: Sequence[RoundAssignment]) -> tuple[RoundPolicy, ...]:
    """Return the plan and the policies that it is compared with: the same devices and epochs in other modes.

    All MAXN: the highest clocks, held from the start to the deadline. Race to idle: the fastest allowed mode, then low
    clocks. All default: the factory default, held throughout.
    """
    epochs = [one.epochs for one in assignments]
    out = [one.row is None for one in assignments]
    rest = [device.modes.rest_w for device in devices]

    def rows(found: Sequence[int | None]) -> list[int | None]:
        return [None if sits_out else row for row, sits_out in zip(found, out, strict=True)]

    default = [device.modes.default for device in devices]
    default_idle = [
        device.modes.default_idle_w if row is not None else None for device, row in zip(devices, default, strict=True)
    ]
    return (
        make_policy(PLAN, devices, [one.row for one in assignments], epochs, rest),
        make_policy(
            ALL_MAXN, devices, rows([d.modes.top for d in devices]), epochs, [d.modes.top_idle_w for d in devices]
        ),
        make_policy(RACE_TO_IDLE, devices, rows([_fastest_row(device) for device in devices]), epochs, rest),
        make_policy(ALL_DEFAULT, devices, rows(default), epochs, default_idle),
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    rules: RoundRules
    margins: Margins
    menus: dict[tuple[int, float | None, float, float, bool], _Menu]

    def menu(self, device: RoundDevice) -> _Menu:
        unit_sd = 0.0 if device.time_factor is not None else device.spread.unit_time
        grouped = device.group is not None and self.rules.shared is not None
        key = (id(device.modes), device.max_power_w, unit_sd, device.spread.run_time, grouped)
        if key not in self.menus:
            per_round = self.margins.per_round(device.spread.run_time, grouped)
            self.menus[key] = _menu(device, unit_sd, per_round, self.margins)
        return self.menus[key]

    def needs_s(self, device: RoundDevice, epochs: int | None = None) -> float:
        """Return when a device has finished in its fastest mode, margins included."""
        per_minibatch = float(self.menu(device).safe_s[0]) * (device.time_factor or 1.0)
        return self._transfers_s(device) + device.minibatches(epochs or self.rules.epochs) * per_minibatch

    def _transfers_s(self, device: RoundDevice) -> float:
        return device.available_s + (device.download_s + device.upload_s) * self.margins.transfer()

    def assign(self, device: RoundDevice, deadline_s: float, needs_s: float | None) -> RoundAssignment:
        """Return what a device does; its status is `cannot` where it cannot meet the deadline."""
        if needs_s is None:
            reason = "not available" if not device.takes_part else "never answers"
            return self._assignment(device, SITS_OUT, None, 0, deadline_s, None, reason)
        menu, factor = self.menu(device), device.time_factor or 1.0
        free_s = deadline_s - self._transfers_s(device)
        # A deadline that was derived from this very device's need must not fail by rounding.
        free_s += 1e-9 * deadline_s
        least = self.rules.least_epochs or self.rules.epochs
        epochs = self.rules.epochs
        possible = math.floor(free_s / (device.minibatches(1) * factor * float(menu.safe_s[0])))
        if possible < epochs and possible >= least:
            epochs = possible
        row = menu.within(free_s / (device.minibatches(epochs) * factor)) if free_s > 0 else None
        if row is not None:
            less = f"{epochs} of {self.rules.epochs} epochs" if epochs < self.rules.epochs else ""
            return self._assignment(device, TRAINS, row, epochs, deadline_s, needs_s, less)
        chance = self._on_time(device, menu.fastest, least, free_s)
        status = LITTLE_MARGIN if chance >= MIN_CHANCE else "cannot"
        reason = f"in time in {chance:.0%} of rounds"
        return self._assignment(device, status, menu.fastest, least, deadline_s, needs_s, reason)

    def _on_time(self, device: RoundDevice, row: int, epochs: int, free_s: float) -> float:
        """Return the chance that a device finishes in time in a mode."""
        expected_s = device.minibatches(epochs) * float(device.modes.time_s[row]) * (device.time_factor or 1.0)
        unit_sd = 0.0 if device.time_factor is not None else device.spread.unit_time
        error_sd = float(device.modes.error_sd()[row])
        grouped = device.group is not None and self.rules.shared is not None
        return self.margins.on_time(unit_sd, error_sd, device.spread.run_time, grouped, free_s / expected_s)

    def _assignment(
        self,
        device: RoundDevice,
        status: str,
        row: int | None,
        epochs: int,
        deadline_s: float,
        needs_s: float | None,
        reason: str,
    ) -> RoundAssignment:
        modes, begin_s = device.modes, device.available_s + device.download_s
        if row is None:
            return _idle(device, status, begin_s, needs_s, reason)
        train_s = device.minibatches(epochs) * float(modes.time_s[row]) * (device.time_factor or 1.0)
        menu = self.menu(device)
        safe = float(menu.safe_s[int(np.flatnonzero(menu.rows == row)[0])]) / float(modes.time_s[row])
        finish_s = begin_s + train_s + device.upload_s
        return RoundAssignment(
            device.name,
            device.board,
            status,
            modes.modes.mode(row),
            row,
            epochs,
            device.available_s,
            begin_s,
            train_s,
            finish_s,
            self._transfers_s(device) + train_s * safe,
            deadline_s - finish_s,
            needs_s,
            None if modes.power_w is None else float(modes.power_w[row]),
            None,
            modes.origin,
            reason,
        )


def _idle(device: RoundDevice, status: str, begin_s: float, needs_s: float | None, reason: str) -> RoundAssignment:
    times = (device.available_s, begin_s, None, None, None, None, needs_s)
    return RoundAssignment(
        device.name, device.board, status, None, None, 0, *times, None, None, device.modes.origin, reason
    )


def _menu(device: RoundDevice, unit_sd: float, per_round: float, margins: Margins) -> _Menu:
    modes = device.modes
    allowed = np.arange(len(modes.modes))
    if device.max_power_w is not None and modes.power_w is not None:
        allowed = allowed[modes.power_w <= device.max_power_w]
        if not len(allowed):
            least = float(modes.power_w.min())
            raise UsageError(
                f"{device.name} has no mode of at most {spell(device.max_power_w, 'W')}: {modes.name} draws at least "
                f"{spell(least, 'W')}; raise its max_power or leave it out"
            )
    sds = modes.error_sd()[allowed]
    levels, place = np.unique(np.round(sds, 3), return_inverse=True)
    lasting = np.array([margins.lasting(unit_sd, float(level)) for level in levels])[place.reshape(-1)]
    safe_s = modes.time_s[allowed] * lasting * per_round
    order = np.argsort(safe_s, kind="stable")
    rows, safe_s = allowed[order], safe_s[order]
    if modes.power_w is None:
        return _Menu(rows, safe_s, np.zeros(len(rows), dtype=np.intp), False)
    # Waiting costs the same per second in every mode, so that only what training adds to it counts.
    added_j = modes.time_s[rows] * (modes.power_w[rows] - (modes.rest_w or 0.0))
    least_j = np.minimum.accumulate(added_j)
    fresh = np.concatenate(([True], added_j[1:] < least_j[:-1]))
    best = np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), 0))
    return _Menu(rows, safe_s, best.astype(np.intp), True)


def _fastest_row(device: RoundDevice) -> int:
    modes = device.modes
    time_s = modes.time_s
    if device.max_power_w is not None and modes.power_w is not None:
        time_s = np.where(modes.power_w <= device.max_power_w, time_s, np.inf)
    return int(np.argmin(time_s))


def _check(devices: Sequence[RoundDevice]) -> None:
    if not devices:
        raise UsageError("a round needs at least one device")
    twice = [name for name, count in Counter(device.name for device in devices).items() if count > 1]
    if twice:
        raise UsageError(f"a second device is named {twice[0]!r}; names must differ")
    for device in devices:
        if device.max_power_w is not None and device.modes.power_w is None:
            raise UsageError(
                f"{device.name} has a limit of {spell(device.max_power_w, 'W')}, but the power of {device.modes.name} "
                "is not known; give a table with power_mw, or remove the limit"
            )


def _deadline(rules: RoundRules, needs: dict[str, float]) -> float:
    if rules.deadline_s is not None:
        return rules.deadline_s
    ordered = sorted(needs.values())
    if rules.sit_out and rules.least_devices is not None:
        return ordered[min(rules.least_devices, len(ordered)) - 1]
    return ordered[-1]


def _refusal(
    refused: Sequence[tuple[RoundAssignment, RoundDevice]], deadline_s: float, rules: RoundRules, active: int
) -> DeadlineError:
    """Return the error that says who cannot meet the deadline, and how long each needs."""
    slowest = sorted(refused, key=lambda pair: -(pair[0].needs_s or 0.0))
    named = ", ".join(f"{one.device} needs {spell_seconds(one.needs_s)}" for one, _ in slowest[:MAX_NAMED])
    more = f" and {len(slowest) - MAX_NAMED} more" if len(slowest) > MAX_NAMED else ""
    who = "no device" if len(refused) == active else f"{len(refused)} of {active} devices"
    cannot = "can" if len(refused) == active else "cannot"
    help_ = [f"a deadline of {spell_seconds(slowest[0][0].needs_s)}"]
    help_ += ["fewer local epochs (epochs: {least: 1})"] if (rules.least_epochs or rules.epochs) > 1 else []
    help_ += [] if rules.sit_out or len(refused) == active else ["sit_out: true"]
    return DeadlineError(
        f"{who} {cannot} finish within {spell_seconds(deadline_s)}: {named}{more} (fastest mode, margin included); "
        f"allow {' or '.join(help_)}",
        devices=tuple(one.device for one, _ in slowest),
        needs_s=tuple(one.needs_s or 0.0 for one, _ in slowest),
    )


def _sitting_out(one: RoundAssignment) -> RoundAssignment:
    return replace(
        one, status=SITS_OUT, mode=None, row=None, epochs=0, train_s=None, finish_s=None, latest_s=None, slack_s=None,
        power_w=None, reason=f"needs {spell_seconds(one.needs_s)}",
    )  # fmt: skip


def _with_energy(one: RoundAssignment, joules: float) -> RoundAssignment:
    return replace(one, energy_j=joules if math.isfinite(joules) else None)


def _stragglers(assignments: Sequence[RoundAssignment], deadline_s: float) -> tuple[str, ...]:
    """Return the devices that set the pace: those that even in their fastest mode need almost all of the time."""
    late = [one for one in assignments if one.row is not None and (one.needs_s or 0.0) > PACE * deadline_s]
    return tuple(one.device for one in sorted(late, key=lambda one: -(one.needs_s or 0.0))[:MAX_STRAGGLERS])


def _doubts(devices: Sequence[RoundDevice], assignments: Sequence[RoundAssignment], rules: RoundRules) -> list[Doubt]:
    found = []

    def doubt(kind: str, names: Sequence[str], text: str) -> None:
        if names:
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            found.append(Doubt(kind, f"{', '.join(names[:MAX_NAMED])}{more}: {text}"))

    no_power = [d.name for d in devices if d.modes.power_w is None]
    doubt("power_unknown", no_power, "power is not known; the fastest mode is used and energy is null")
    doubt(
        "idle_unknown",
        [d.name for d in devices if d.modes.power_w is not None and d.modes.rest_w is None],
        "idle power is not known (idle_w); the mode of least training energy is used, the energy of the round is null",
    )
    doubt(
        "default_unknown",
        [d.name for d in devices if d.modes.default is None],
        "the default power mode is not among the known modes; the baseline 'all default' is null",
    )
    doubt(
        "little_margin",
        [one.device for one in assignments if one.status == LITTLE_MARGIN],
        f"no mode leaves the margin that keeps lateness below {rules.late:.0%}; the fastest is used",
    )
    doubt(
        "sits_out", [one.device for one in assignments if one.status == SITS_OUT], "not in this round (see its reason)"
    )
    if rules.recorded is not None:
        count = int(np.isfinite(rules.recorded.ratios).sum())
        if count < FEW_RECORDED:
            found.append(Doubt("few_recorded", f"only {count} recorded times: margins are close to the longest"))
    return found
