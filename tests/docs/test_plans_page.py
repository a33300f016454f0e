"""docs/plans.md lists every key of a plan with its default."""

from __future__ import annotations

import re
from pathlib import Path

from edgetrain.runner import plan_schema
from edgetrain.runner.plan import PLACE_SETTINGS, PLAN_SETTINGS, SETTLE_SETTINGS
from edgetrain.schema import all_settings

PAGE = Path(__file__).parents[2] / "docs" / "plans.md"
ROWS = {
    key: (star == " *", default)
    for key, star, default in re.findall(r"^\| `([\w.]+)`( \*)? \| .+ \| (.+) \|$", PAGE.read_text(), re.M)
}


def test_the_page_lists_every_key_of_a_plan_and_no_other() -> None:
    properties = plan_schema()["properties"]
    keys = set(properties)
    for section in ("settle", "place"):
        keys |= {f"{section}.{name}" for name in properties[section]["properties"]}
    assert set(ROWS) == keys


def test_the_page_shows_the_default_of_every_key_that_has_one() -> None:
    declared = {**all_settings(), **PLAN_SETTINGS}
    declared |= {f"settle.{name}": one for name, one in SETTLE_SETTINGS.items()}
    declared |= {f"place.{name}": one for name, one in PLACE_SETTINGS.items()}
    for name, one in declared.items():
        if one.default is None:
            continue
        if isinstance(one.default, bool):
            shown = f"`{str(one.default).lower()}`"
        elif isinstance(one.default, (int, float)):
            shown = f"{one.default:g}"
        else:
            shown = f"`{one.default}`"
        assert ROWS[name][1] == shown, name


def test_the_page_marks_the_settings_that_apply_to_a_command() -> None:
    assert {name for name, (star, _) in ROWS.items() if star} == {
        name for name, one in all_settings().items() if one.about.for_commands
    }
