"""What `tune` is asked for: its options, and the training that its trials run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.device import Device
from edgetrain.errors import UsageError
from edgetrain.runner import TrialRule, check_command, command_label
from edgetrain.schema import Experiment, PowerMode, Scalar, all_settings, build_experiment
from edgetrain.workload import CATALOG, is_own

TRIALS = 11  # a third of a small grid: 4 worker counts x 4 prefetch depths x persistent or not, and no workers
MIN_TRIALS = 6


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to tune."""

    minimize: str = "time"  # time | energy
    max_power_w: float | None = None
    max_ram: str | None = None
    trials: int = TRIALS
    trial_args: str = ""
    allow_writes: bool = False
    apply: bool = False
    dry_run: bool = False
    trial_limit: float | None = None  # seconds
    writable: tuple[str, ...] = ()  # folders in which trials may write

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.minimize not in ("time", "energy"):
            raise UsageError(f"--minimize is time or energy, not {self.minimize!r}")
        if self.trials < MIN_TRIALS:
            raise UsageError(
                f"--trials is {self.trials}; a search needs at least {MIN_TRIALS}: one of the start, one of another "
                "setting and four to repeat them"
            )
        if self.max_power_w is not None and not self.max_power_w > 0:
            raise UsageError(f"--max-power-w must be above zero, not {self.max_power_w:g}")
        if self.trial_limit is not None and not self.trial_limit > 0:
            raise UsageError(f"--trial-limit must be above zero, not {self.trial_limit:g}")
        if self.dry_run and not self.apply:
            raise UsageError("--dry-run shows what --apply would set; give both")

    def check_apply(self, device: Device, mode: PowerMode | None) -> None:
        """Refuse to apply a power mode where none will be found."""
        if not self.apply:
            return
        if mode is not None:
            raise UsageError("--apply sets the power mode that is found, and --power-mode gives one; leave one out")
        if device.modes() is None or device.control() is None:
            raise UsageError(
                f"--apply sets a power mode, and {device.spec.name} has none that can be set; leave it out, or run "
                "this on the board or with --device sim:orin-agx"
            )

    def rule(self, given: TrialRule | None) -> TrialRule:
        """Return the rule by which trials end."""
        rule = given or TrialRule()
        limit_s = self.trial_limit
        if limit_s is None:
            return rule
        startup_s, untrained_s = max(rule.startup_s, limit_s), max(rule.untrained_s, limit_s)
        return replace(rule, limit_s=limit_s, startup_s=startup_s, untrained_s=untrained_s)


def tuned_experiment(
    training: str | Sequence[str],
    options: TuneOptions,
    settings: dict[str, Scalar],
    mode: PowerMode | None,
    campaign: str,
) -> Experiment:
    """Return the training to tune, as its trials run it: a command with the arguments of trials, or a network."""
    words = (training,) if isinstance(training, str) else tuple(str(word) for word in training)
    if len(words) == 1 and (words[0] in CATALOG or is_own(words[0])):
        if options.trial_args:
            raise UsageError("--trial-args adds arguments to a command; a network has none")
        return build_experiment({"network": words[0], **settings}, mode, campaign=campaign)
    if len(words) > 1 and all(word in CATALOG for word in words):
        raise UsageError(f"tune takes one network, not {len(words)} ({', '.join(words)})")
    try:
        check_command(words)
    except UsageError as error:
        named = f"; or name a network: {', '.join(CATALOG)}" if len(words) == 1 else ""
        raise UsageError(f"{error}{named}") from None
    try:
        command = (*words, *shlex.split(options.trial_args))
    except ValueError as error:
        raise UsageError(f"cannot read --trial-args {options.trial_args!r} as arguments: {error}") from None
    _check_settings(settings)
    return build_experiment({"network": command_label(words), **settings}, mode, command, campaign=campaign)


def _check_settings(settings: dict[str, Scalar]) -> None:
    """Refuse settings that cannot be applied to a command from outside."""
    known = all_settings()
    without = [known[name].option for name in settings if name in known and not known[name].about.for_commands]
    if without:
        raise UsageError(
            f"{', '.join(without)} cannot be set for a command: tune begins with what the command itself asks for, so "
            "write it into the command, in the script's own words; to a command apply --dataset, --cache, --power-mode "
            "and lab limits (--storage, --page-cache, --cores, --cpu-share)"
        )
    cache = settings.get("cache", "keep")
    if cache != "keep" and settings.get("dataset") is None:
        raise UsageError(
            f"--cache {cache} needs to know which files the command reads: give their folder with --dataset PATH"
        )
