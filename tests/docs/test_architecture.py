"""docs/architecture.md names every package, and every interface it names is there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import edgetrain

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
ROWS = dict(re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", PAGE.read_text(), re.M))
NAMES = [
    (package, name) for package, text in ROWS.items() for name in re.findall(r"`([a-z_.A-Z]+)(?:\(.*?\))?[^`]*`", text)
]


def test_every_package_is_in_the_table() -> None:
    assert set(ROWS) == {found.name for found in pkgutil.iter_modules(edgetrain.__path__) if found.ispkg}


def test_every_module_beside_the_packages_is_explained() -> None:
    modules = {found.name for found in pkgutil.iter_modules(edgetrain.__path__) if not found.ispkg}
    unexplained = {name for name in modules if f"`{name}.py`" not in PAGE.read_text()}
    assert unexplained <= {"__main__", "version"}


@pytest.mark.parametrize(("package", "name"), NAMES, ids=lambda value: str(value))
def test_every_interface_is_there(package: str, name: str) -> None:
    if name == "python":  # a program: python -m edgetrain.sampling
        assert importlib.util.find_spec(f"edgetrain.{package}.__main__") is not None
        return
    found = importlib.import_module(f"edgetrain.{package}")
    *modules, last = name.split(".")
    for each in modules:
        found = importlib.import_module(f"{found.__name__}.{each}")
    if package == "federated":
        pytest.importorskip("flwr")
    assert hasattr(found, last)
