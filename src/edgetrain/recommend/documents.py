"""Answers as plain documents: what `--json` prints and what `report` draws. Units are in the names; unknown is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edgetrain.predict.base import Estimate
from edgetrain.recommend.choose import Choice, Pick
from edgetrain.recommend.confirm import Confirmed
from edgetrain.recommend.frontier import FrontierPoint, Loss
from edgetrain.recommend.goals import Goal
from edgetrain.recommend.hardware import Option
from edgetrain.recommend.outlook import Candidates
from edgetrain.recommend.phases import Advice
from edgetrain.recommend.training import Battery, Cycle, PayOff, Training
from edgetrain.schema import PowerMode
from edgetrain.units import J_PER_WH


def mode_document(mode: PowerMode) -> dict[str, Any]:
    """Return a mode as its four settings, and its stock name where it has one."""
    return {
        "cores": mode.cores,
        "cpu_hz": mode.cpu_hz,
        "gpu_hz": mode.gpu_hz,
        "emc_hz": mode.emc_hz,
        "name": mode.name,
    }


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """Return a value with its interval and origin."""
    return {
        "value": estimate.value,
        "lo": estimate.lo,
        "hi": estimate.hi,
        "level": estimate.level,
        "origin": estimate.origin.value,
    }


def pick_document(pick: Pick | None) -> dict[str, Any] | None:
    """Return a pick with its costs and the probability of each limit."""
    if pick is None:
        return None
    return {
        "mode": mode_document(pick.mode),
        "time_s": estimate_document(pick.time_s),
        "power_w": estimate_document(pick.power_w),
        "energy_j": estimate_document(pick.energy_j),
        "holds": dict(pick.holds),
        "stock_name": pick.stock_name,
        "extrapolated": pick.extrapolated,
    }


def goal_document(goal: Goal) -> dict[str, Any]:
    """Return what was asked."""
    return {
        "minimise": goal.minimise,
        "confidence": goal.confidence,
        "limits": asdict(goal.limits),
        "work": asdict(goal.work),
    }


def choice_document(choice: Choice) -> dict[str, Any]:
    """Return the whole answer to a goal."""
    nearest = choice.nearest
    return {
        "goal": goal_document(choice.goal),
        "best": pick_document(choice.best),
        "runner_up": pick_document(choice.runner_up),
        "relaxed": [
            {
                "limit": relaxed.limit,
                "from": relaxed.from_value,
                "to": relaxed.to_value,
                "gain_pct": relaxed.gain_pct,
                "pick": pick_document(relaxed.pick),
            }
            for relaxed in choice.relaxed
        ],
        "nearest": None
        if nearest is None
        else {
            "pick": pick_document(nearest.pick),
            "needs": dict(nearest.needs),
            "separately_possible": list(nearest.separately),
        },
        "considered": choice.considered,
        "feasible": choice.feasible,
        "notes": list(choice.notes),
    }


def confirmed_document(confirmed: Confirmed) -> dict[str, Any]:
    """Return the choice and the trail of confirmations to it."""
    trail = []
    for step in confirmed.trail:
        found = step.measurement
        trail.append(
            {
                "mode": mode_document(confirmed.candidates.modes.mode(step.row)),
                "expected_time_s": step.expected_time_s,
                "expected_power_w": step.expected_power_w,
                "time_s": None if found is None else found.time_mean_s or found.time_s,
                "power_w": None if found is None else found.power_w,
                "origin": None if found is None else found.origin.value,
                "within": step.within,
                "reason": step.reason,
            }
        )
    return {**choice_document(confirmed.choice), "confirmed": confirmed.confirmed, "trail": trail}


def frontier_document(points: Sequence[FrontierPoint], candidates: Candidates) -> list[dict[str, Any]]:
    """Return the frontier, fastest first, with intervals."""
    return [
        {
            "mode": mode_document(candidates.modes.mode(point.row)),
            "time_s": _three(point.time_s),
            "power_w": _three(point.power_w),
            "energy_j": _three(point.energy_j),
            "stays": point.stays,
            "knee": point.is_knee,
        }
        for point in points
    ]


def _three(values: tuple[float, float, float]) -> dict[str, float]:
    return {"lo": values[0], "value": values[1], "hi": values[2]}


def losses_document(losses: Sequence[Loss], candidates: Candidates, default: str | None) -> list[dict[str, Any]]:
    """Return what each stock mode gives up; None where it is not among the modes."""
    return [
        {
            "name": loss.name,
            "factory_default": loss.name == default,
            "mode": None if loss.row is None else mode_document(candidates.modes.mode(loss.row)),
            "slower_pct": loss.time_pct,
            "more_energy_pct": loss.energy_pct,
            "more_power_pct": loss.power_pct,
            "better": None if loss.better_row is None else mode_document(candidates.modes.mode(loss.better_row)),
        }
        for loss in losses
    ]


def training_document(
    training: Training, cycle: Cycle | None = None, battery: Battery | None = None, pay_off: PayOff | None = None
) -> dict[str, Any]:
    """Return a whole training, the wait between jobs, the battery and the pay-off of profiling."""
    return {
        "epochs": training.epochs,
        "time_s": estimate_document(training.time_s),
        "energy_j": estimate_document(training.energy_j),
        "energy_wh": training.energy_j.value / J_PER_WH,
        "cold_extra_s": training.cold_extra_s,
        "baseload_j": training.baseload_j,
        "between": None
        if cycle is None
        else {
            "state": cycle.between.state,
            "power_w": cycle.between.power_w,
            "origin": cycle.between.origin.value,
            "source": cycle.between.source,
            "period_s": cycle.period_s,
            "waiting_s": cycle.waiting_s,
            "waiting_j": cycle.waiting_j,
            "energy_j": estimate_document(cycle.energy_j),
            "mean_power_w": cycle.mean_power_w,
        },
        "battery": None if battery is None else asdict(battery),
        "pay_off": None if pay_off is None else asdict(pay_off),
        "notes": [*training.notes, *(battery.notes if battery else ()), *(pay_off.notes if pay_off else ())],
    }


def advice_document(advice: Advice, candidates: Candidates, names: Sequence[str]) -> dict[str, Any]:
    """Return what switching modes between phases would bring."""

    def plan(found: Any) -> dict[str, Any] | None:
        if found is None:
            return None
        modes = {name: mode_document(candidates.modes.mode(row)) for name, row in zip(names, found.rows, strict=True)}
        return {
            "modes": modes,
            "time_s": found.time_s,
            "energy_j": found.energy_j,
            "power_w": found.peak_power_w,
            "switches": found.switches,
        }

    return {
        "single": plan(advice.single),
        "switched": plan(advice.switched),
        "gain_pct": advice.gain_pct,
        "gain_lo_pct": advice.gain_lo_pct,
        "gain_hi_pct": advice.gain_hi_pct,
        "level": advice.level,
        "advised": advice.advised,
        "reason": advice.reason,
    }


def option_document(option: Option) -> dict[str, Any]:
    """Return one board with one medium and one RAM size, with what is known of it and what is not."""

    def estimate(found: Estimate | None) -> dict[str, Any] | None:
        return None if found is None else estimate_document(found)

    offer = option.offer
    return {
        "board": offer.board,
        "title": offer.title,
        "ram_bytes": offer.ram_bytes,
        "medium": option.medium,
        "price_usd": offer.price_usd,
        "verdict": option.verdict,
        "fits": None if offer.fit is None else offer.fit.verdict,
        "epoch_s": estimate(option.epoch_s),
        "cold_epoch_s": option.cold_epoch_s,
        "total_s": estimate(option.total_s),
        "epoch_energy_j": estimate(option.energy_j),
        "fetch_s": option.fetch_s,
        "fetch_hidden": option.hidden_warm,
        "fetch_hidden_cold": option.hidden_cold,
        "cached_share": option.cached_share,
        "just_enough": option.just_enough,
        "fails": list(option.fails),
        "unknown": list(option.unknown),
        "sources": list(option.sources),
    }


def with_schema(schema: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return one document with its schema first."""
    document: dict[str, Any] = {"schema": schema}
    for part in parts:
        document.update(part)
    return document
