"""The answer of `tune` for the terminal: what to set, the measured gain, and the trials."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.recommendation import PowerLimit, TunedSetting, TuneResult, TuneTrial
from edgetrain.report.choice import show_applied
from edgetrain.report.text import plain_table
from edgetrain.units import spell, spell_bytes, spell_seconds

MAX_FILES = 5


def spell_setting(setting: TunedSetting) -> str:
    """Spell loader arguments and power mode."""
    words = [f"{setting.workers} worker{'' if setting.workers == 1 else 's'}"]
    if setting.workers:
        words += [f"prefetch {setting.prefetch}"] + (["persistent"] if setting.persistent else [])
    words += (["pinned"] if setting.pin_memory else []) + ([setting.power_mode] if setting.power_mode else [])
    return ", ".join(words)


def show_trial(trial: TuneTrial) -> RenderableType:
    """Return one trial in one line, while tuning goes on."""
    if trial.state != "measured":
        return Text(f"trial {trial.number}: {spell_setting(trial.setting)}: {trial.state}: {trial.reason or ''}")
    power = f", {spell(trial.power_w, 'W')}" if trial.power_w is not None else ""
    time = spell_seconds(trial.e2e_s_per_minibatch)
    return Text(f"trial {trial.number}: {spell_setting(trial.setting)}: {time} per minibatch{power} ({trial.role})")


def show_tuned(result: TuneResult) -> RenderableType:
    """Return the answer for the terminal."""
    before, after = spell_seconds(result.baseline.e2e_s_per_minibatch), spell_seconds(result.e2e_s_per_minibatch)
    gain = result.gain_pct
    parts: list[RenderableType] = []
    if result.changes:
        parts.append(Text(f"DataLoader({result.dataloader})", style="bold green"))
        if result.best.power_mode is not None:
            parts.append(Text(f"power mode {result.best.power_mode}", style="bold green"))
        what, sign = (f"less {result.minimize}", 1) if gain.value >= 0 else (f"more {result.minimize}", -1)
        lo, hi = sorted((sign * gain.lo, sign * gain.hi))
        parts.append(
            Text(
                f"{abs(gain.value):.1f} % {what} per minibatch, 90 % interval {lo:.1f} to {hi:.1f} %: "
                f"{before} before, {after} after, {result.origin}"
            )
        )
    elif result.power_limit is not None and not result.power_limit.kept:
        parts += [*_over_power(result.power_limit), Text(f"as it is: {before} per minibatch")]
    else:
        parts.append(Text("change nothing", style="bold green"))
        others = any(trial.state == "measured" and trial.setting != result.baseline.setting for trial in result.trials)
        why = "no other setting was better" if others else "no other setting could be measured"
        parts.append(Text(f"{spell_setting(result.baseline.setting)}: {before} per minibatch; {why}"))
    parts += [Text(""), _trials(result.trials)]
    if result.applied is not None:
        parts += [Text(""), show_applied(result.applied)]
    if result.files_written:
        more = len(result.files_written) - MAX_FILES
        named = ", ".join(result.files_written[:MAX_FILES]) + (f" and {more} more" if more > 0 else "")
        parts.append(Text(f"note: files that the trials wrote: {named}", style="yellow"))
    parts += [Text(f"note: {note}", style="yellow") for note in result.notes]
    return Group(*parts)


def _over_power(limit: PowerLimit) -> list[RenderableType]:
    head = f"no setting could be confirmed that keeps the limit of {spell(limit.max_power_w, 'W')}"
    parts: list[RenderableType] = [Text(head, style="bold red")]
    if limit.lowest is not None:
        parts.append(
            Text(
                f"the training as it is draws {spell(limit.draws_w, 'W')}; the lowest power measured is "
                f"{spell(limit.lowest_w, 'W')}, with {spell_setting(limit.lowest)}"
            )
        )
    return parts


def _trials(trials: tuple[TuneTrial, ...]) -> RenderableType:
    table = plain_table("trial", "", "per minibatch", "stall", "power", "RAM", "outcome")
    table.columns[0].no_wrap = True
    table.columns[-1].no_wrap, table.columns[-1].justify = False, "left"  # a reason may be long
    for trial in trials:
        stall = "–" if trial.stall_share is None else f"{100 * trial.stall_share:.0f} %"
        table.add_row(
            f"{trial.number}: {spell_setting(trial.setting)}",
            trial.role,
            spell_seconds(trial.e2e_s_per_minibatch),
            stall,
            spell(trial.power_w, "W"),
            spell_bytes(trial.ram_bytes),
            trial.state if trial.reason is None else f"{trial.state}: {trial.reason}",
        )
    return table
