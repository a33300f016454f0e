"""docs/environment.md lists every variable of edgetrain that the source reads or sets."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "environment.md"


def test_the_page_lists_every_variable_of_the_source_and_no_other() -> None:
    names = {
        name
        for path in (ROOT / "src" / "edgetrain").rglob("*.py")
        for name in re.findall(r"\bEDGETRAIN_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"`(EDGETRAIN_[A-Z_]+)`", PAGE.read_text())) == names
