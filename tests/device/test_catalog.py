"""The catalogue of boards says nothing without a source and agrees with what was published."""

from __future__ import annotations

import copy
from importlib import resources

import pytest
import yaml

from edgetrain.device import catalog
from edgetrain.errors import UsageError


def document():
    return yaml.safe_load(resources.files("edgetrain.device").joinpath("catalog.yaml").read_text())


@pytest.mark.parametrize("board", list(catalog.load()), ids=lambda board: board.key)
def test_every_clock_table_is_ascending_and_in_hertz(board):
    for table in (board.cpu, board.gpu, board.emc):
        if table is not None:
            assert list(table.values_hz) == sorted(set(table.values_hz))
            assert 10e6 <= table.lowest_hz < table.highest_hz <= 5e9


@pytest.mark.parametrize("board", list(catalog.load()), ids=lambda board: board.key)
def test_every_fact_that_is_there_has_a_source(board):
    for name in ("cores", "price_usd", "peak_power_w", "cuda_cores", "usable_bytes", "published_mode_count"):
        if getattr(board, name) is not None:
            key = "mode_count" if name == "published_mode_count" else name
            assert board.sources[key] in catalog.load().sources


@pytest.mark.parametrize("board", list(catalog.load()), ids=lambda board: board.key)
def test_the_mode_count_is_the_product_of_the_tables(board):
    assert board.mode_count == (sum(1 for _ in board.modes()) or None)


@pytest.mark.parametrize("board", list(catalog.load()), ids=lambda board: board.key)
def test_no_stock_mode_asks_for_more_than_the_board_has(board):
    ids = [mode.id for mode in board.stock_modes]
    assert len(ids) == len(set(ids))
    if board.stock_modes:
        assert board.stock_default in ids
    for mode in board.stock_modes:
        held = mode.held_on(board)
        assert held is not None and 1 <= held.cores <= board.cores
        assert held.cpu_hz <= board.cpu.highest_hz
        assert held.gpu_hz <= board.gpu.highest_hz


def test_published_counts_of_modes_are_met():
    counts = {key: catalog.load().get(key).mode_count for key in ("orin-agx", "xavier-agx", "orin-nano")}
    assert counts == {"orin-agx": 18_096, "xavier-agx": 29_232, "orin-nano": 1_800}


def test_every_key_alias_and_module_finds_its_own_board():
    found: dict[str, str] = {}
    for board in catalog.load():
        for name in (board.key, *board.aliases, *board.modules, *board.variants_ram_bytes):
            assert catalog.load().get(name).key == board.key
            assert found.setdefault(name, board.key) == board.key


def test_a_module_with_other_ram_is_the_same_board_with_that_ram():
    assert catalog.load().get("p3668-0003").ram_bytes == 2 * catalog.load().get("xavier-nx").ram_bytes


def test_an_unknown_device_is_refused_with_the_known_names():
    with pytest.raises(UsageError, match="orin-agx"):
        catalog.load().get("toaster")


@pytest.mark.parametrize("path", [("cores",), ("price_usd",), ("peak_power_w",)])
def test_a_fact_with_an_unknown_source_is_refused(path):
    broken = copy.deepcopy(document())
    broken["devices"]["nano"][path[0]][1] = "hearsay"
    with pytest.raises(ValueError, match="hearsay"):
        catalog.parse(broken)


def test_a_table_out_of_order_is_refused():
    broken = document()
    broken["devices"]["nano"]["clocks"]["emc"]["values"].reverse()
    with pytest.raises(ValueError, match="ascending"):
        catalog.parse(broken)


def test_ram_that_linux_sees_is_less_than_ram_on_the_module():
    for board in catalog.load():
        usable_bytes, basis = board.expected_usable_bytes()
        assert 0.8 * board.ram_bytes < usable_bytes < board.ram_bytes
        assert basis.startswith(("logged", "assumed"))
