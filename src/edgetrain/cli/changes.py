"""Reads changes of settings off the command line: `workers=2`, and sweeps of one: `workers=0..8`."""

from __future__ import annotations

from collections.abc import Sequence

from edgetrain.errors import UsageError
from edgetrain.schema import Scalar

RANGE = ".."


def parse_changes(words: Sequence[str]) -> dict[str, Scalar]:
    """Read `NAME=VALUE` words; values stay text, their settings know how to read them."""
    found: dict[str, Scalar] = {}
    for word in words:
        name, value = _split(word)
        if name in found and found[name] != value:
            raise UsageError(f"{name} is given twice, as {found[name]} and as {value}")
        found[name] = value
    return found


def split_run(run: str, more: Sequence[str]) -> tuple[str, list[str]]:
    """Return the run and the further changes: `whatif --set workers=2 storage=hdd` names no run, so it is the last."""
    name, equals, _ = run.partition("=")
    is_change = bool(equals) and "/" not in name  # a value can hold one: power_mode=12/2201/1300/3199
    return ("last", [run, *more]) if is_change else (run, list(more))


def only_one(sweeps: Sequence[str] | None) -> str | None:
    """Return the sweep that was asked for; UsageError where there are several."""
    if sweeps and len(sweeps) > 1:
        raise UsageError(
            f"only one setting can be swept, not {' and '.join(sweeps)}; keep one --sweep and change the other with "
            "--set"
        )
    return sweeps[0] if sweeps else None


def parse_sweep(text: str | None) -> tuple[str, list[Scalar]] | None:
    """Read `workers=0..8` or `storage=ssd,sd,hdd`; a range counts in steps of one."""
    if text is None:
        return None
    name, values = _split(text)
    if RANGE not in values:
        return name, [value.strip() for value in values.split(",")]
    first, _, last = values.partition(RANGE)
    try:
        low, high = int(first), int(last)
    except ValueError:
        raise UsageError(f"cannot read {values!r} as a range; write for example {name}=0..8") from None
    if high < low:
        raise UsageError(f"the range {values} of {name} ends before it begins")
    if high - low > 10_000:
        raise UsageError(f"the range {values} of {name} has {high - low + 1} values; that is too many")
    return name, list(range(low, high + 1))


def _split(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    if not equals or not name or not value.strip():
        raise UsageError(f"cannot read {word!r} as a change; write NAME=VALUE, for example workers=2")
    return name, value.strip()
