"""A medium measured from its reads, kept in a file that predictions take."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.errors import LabError, UsageError
from edgetrain.lab import MediumModel, add_medium, measure_medium, media
from edgetrain.lab.own_medium import medium_from_reads
from edgetrain.lab.readers import TimedReads
from edgetrain.lab.tables import IMAGE_BYTES


def reads(medium: MediumModel, readers: int, count: int = 100) -> TimedReads:
    took_s = count / medium.reads_per_s(IMAGE_BYTES, readers)
    return TimedReads([took_s * readers / count] * count, count * IMAGE_BYTES, took_s)


@pytest.mark.parametrize("name", ["sd", "hdd", "emmc"])
def test_reads_of_a_known_medium_give_its_numbers_back(name: str) -> None:
    known = media()[name]
    large = TimedReads([1.0], int(known.bytes_per_s), 1.0)
    found = medium_from_reads(name, reads(known, 1), reads(known, 4), large)
    assert found.read_s == pytest.approx(known.read_s, rel=0.01)
    assert found.bytes_per_s == pytest.approx(known.bytes_per_s, rel=0.01)
    for readers in (1, 4):
        assert found.reads_per_s(IMAGE_BYTES, readers) == pytest.approx(
            known.reads_per_s(IMAGE_BYTES, readers), rel=0.1
        )


def test_a_measured_medium_is_added_to_a_file_of_media(tmp_path: Path) -> None:
    path = tmp_path / "media.yaml"
    add_medium(MediumModel("card", 0.004, 40e6, 1, ((4, 1.2),), "measured"), path)
    add_medium(MediumModel("stick", 0.001, 90e6, 4), path)
    known = media(path)
    assert known["card"] == MediumModel("card", 0.004, 40e6, 1, ((4, 1.2),), "measured")
    assert known["stick"].at_once == 4 and "sd" in known
    path.write_text("other: 1\n")
    with pytest.raises(UsageError, match="no mapping 'media'"):
        add_medium(known["card"], path)


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        measure_medium("card", tmp_path / "nowhere")
    with pytest.raises(UsageError, match="cannot name a medium"):
        measure_medium("my card", tmp_path)
    shared = Path("/dev/shm")
    if shared.is_dir():
        with pytest.raises(LabError, match="stay in memory"):
            measure_medium("ram", shared, files=2, large_bytes=1 << 20)
        assert not list(shared.glob("edgetrain-measure-*"))
