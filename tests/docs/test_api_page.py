"""docs/api.md names every public function; its walk is run by tests/packaging/test_wheel.py."""

import inspect
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_tables_list_every_public_function():
    import edgetrain
    from edgetrain import api

    tables = PAGE.read_text().partition("## A walk")[0]
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    for name in {*edgetrain.__all__, *functions} - {"__version__"}:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", tables), f"{name} is missing"
