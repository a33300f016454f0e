"""The space of power modes, and modes as people write them."""

from __future__ import annotations

import pytest

from edgetrain.errors import UsageError
from edgetrain.schema import ModeSpace, PowerMode, StockMode

SPACE = ModeSpace(
    cores=tuple(range(1, 13)),
    cpu_hz=(422_400_000, 1_728_000_000, 2_201_600_000),
    gpu_hz=(114_750_000, 624_750_000, 1_300_500_000),
    emc_hz=(665_600_000, 3_199_000_000),
    stock=(
        StockMode(0, "MAXN", PowerMode(12, 2_201_600_000, 1_300_500_000, 3_199_000_000)),
        StockMode(3, "50W", PowerMode(12, 1)),
    ),
)
WANTED = PowerMode(8, 1_728_000_000, 624_750_000, 3_199_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "8/1728/624.75/3199",
        "8/1728/625/3199",
        " 8 / 1728 / 624.75 / 3199 ",
        "8,1728,624.75,3199",
        "8/1728000/624750000/3199000000",
        "8/1728000/624750/3199000",
    ],
)
def test_a_mode_may_be_written_in_mhz_khz_or_hz(text: str) -> None:
    assert SPACE.find(text) == WANTED


def test_clocks_may_be_left_as_they_are() -> None:
    assert SPACE.find("8/1728") == PowerMode(8, 1_728_000_000)
    assert SPACE.find("8/1728/-/3199") == PowerMode(8, 1_728_000_000, None, 3_199_000_000)


@pytest.mark.parametrize("text", ["0", "maxn", " MAXN "])
def test_stock_modes_go_by_id_or_name(text: str) -> None:
    assert SPACE.find(text) == SPACE.stock[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8",
        "8/-/624.75/3199",
        "8/1728/1/2/3",
        "many/1728",
        "8/1700/624.75/3199",
        "13/1728",
        "inf/1728",
        "8/inf",
        "8/1e400",
        "nan/1728",
        "8.5/1728",
    ],
)
def test_what_is_no_mode_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        SPACE.find(text)


def test_every_mode_is_in_the_space_once() -> None:
    modes = list(SPACE)
    assert len(modes) == len(SPACE) == len(set(modes)) == 12 * 3 * 3 * 2
    assert all(mode in SPACE for mode in modes)
    assert PowerMode(8, 1) not in SPACE and "8/1728" not in SPACE


def test_a_board_without_a_clock_has_modes_without_it() -> None:
    plain = ModeSpace((1, 2), (100, 200), (), ())
    assert len(list(plain)) == len(plain) == 4
    assert PowerMode(1, 100) in plain
    with pytest.raises(UsageError, match="cannot be set here"):
        plain.check(PowerMode(1, 100, 500))
