"""Profiled modes are found by path, by the name of a campaign, by its id and by the start of one."""

from __future__ import annotations

import pytest

from edgetrain.api.boards import power_range
from edgetrain.api.profiled import find_campaign, read_profiled
from edgetrain.errors import BadTable, UsageError
from edgetrain.importers import ANY_BOARD, import_path
from edgetrain.record import FolderStore
from edgetrain.schema import Origin

IDS = ["modes-of-train-0a1b2c3d", "modes-of-train-py-11111111", "modes", "orin_agx-12ab", "sweep-22222222-2"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("modes of train", "modes-of-train-0a1b2c3d"),
        ("modes-of-train", "modes-of-train-0a1b2c3d"),
        ("modes of train py", "modes-of-train-py-11111111"),
        ("modes", "modes"),
        ("modes-of-train-0a", "modes-of-train-0a1b2c3d"),
        ("orin_agx", "orin_agx-12ab"),
        ("sweep", "sweep-22222222-2"),
        ("sweep-22222222-2", "sweep-22222222-2"),
    ],
)
def test_a_campaign_is_found_by_name_by_id_and_by_the_start_of_one(name, found):
    assert find_campaign(name, IDS, "here") == found


def test_a_name_that_fits_several_campaigns_or_none_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match=r"fits 2 campaigns .*sweep-22222222-2"):
        find_campaign("sweep", [*IDS, "sweep-33333333"], "here")
    with pytest.raises(UsageError, match=r"neither a CSV file nor a campaign .* campaigns there: modes-of"):
        find_campaign("nothing", IDS, "here")
    with pytest.raises(UsageError, match="none yet"):
        find_campaign("nothing", [], "here")


def test_an_imported_table_is_read_by_its_name(files, tmp_path):
    store = tmp_path / "store"
    (imported,) = import_path(files.truth, FolderStore(store))
    for name in ("truth", imported.id, str(imported.path)):
        found = read_profiled(name, store)
        assert len(found.table) == 96 and found.measurements[0].origin is Origin.REPLAYED


def scaled(files, factor):
    """Rewrite the profiled table with every power multiplied by a factor, the header unchanged."""
    header, *lines = files.profiled.read_text().splitlines()
    rows = [line.rpartition(",") for line in lines]
    files.profiled.write_text("\n".join([header, *(f"{row},{float(power) * factor:.3f}" for row, _, power in rows)]))
    return files.profiled


def test_watts_in_a_column_of_milliwatts_are_converted_with_a_warning(files, caplog):
    assert read_profiled(scaled(files, 1e-3), board="orin-agx").table.power_w.min() > 4
    assert "column power_mw holds w, not mw" in caplog.text


def test_powers_that_the_board_cannot_draw_in_any_unit_are_refused(files):
    with pytest.raises(BadTable, match=r"not a power of Jetson AGX Orin"):
        read_profiled(scaled(files, 30), board="orin-agx")
    assert read_profiled(files.profiled).table.power_w.max() > 120  # without a board they are possible


def test_the_range_of_powers_is_the_boards():
    assert power_range(None) == ANY_BOARD == power_range("host-that-nobody-knows")
    assert power_range("orin-agx") == power_range("sim:orin-agx")
    assert 50 < power_range("orin-agx").most_w < 200
