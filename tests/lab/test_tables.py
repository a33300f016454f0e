"""Media, boards and step times are read with their sources, and mistakes in a file of one's own are named."""

import pytest

from edgetrain.errors import BadTable, UsageError
from edgetrain.lab import media, medium, preset, presets, step


def test_everything_the_lab_knows_has_a_source():
    assert all(medium.source for medium in media().values())
    for board in presets().values():
        assert {"cores", "ram_gb", "taken_gb", "storage"} <= set(board.sources)
        assert board.cache_bytes > 0


def test_your_own_medium_wins(tmp_path):
    own = tmp_path / "media.yaml"
    own.write_text("media:\n  sd: {read_ms: 1, mb_per_s: 10}\n  nas: {read_ms: 30, mb_per_s: 60, at_once: 4}\n")
    known = media(own)
    assert known["sd"].read_s == pytest.approx(0.001)
    assert known["nas"].at_once == 4
    assert "hdd" in known


@pytest.mark.parametrize(
    "text",
    [
        "media: [1, 2]",
        "media:\n  x: {read_ms: 1}",
        "media:\n  x: {read_ms: -1, mb_per_s: 5}",
        "media:\n  x: {read_ms: 1, mb_per_s: 0}",
        "media:\n  x: {read_ms: fast, mb_per_s: 5}",
        "media:\n  x: {read_ms: 1, mb_per_s: 5, gain: {0: 2}}",
        "media: {x: [",
        "nothing",
    ],
)
def test_a_wrong_media_file_is_named_not_traced(tmp_path, text):
    own = tmp_path / "mine.yaml"
    own.write_text(text)
    with pytest.raises(BadTable, match=r"mine\.yaml"):
        media(own)


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(UsageError, match="ssd"):
        medium("floppy")
    with pytest.raises(UsageError, match="xavier-nx"):
        preset("raspberry")
    with pytest.raises(UsageError, match="compute-ms"):
        step("nano", "vgg11")


def test_a_step_takes_the_published_time_and_scales_from_the_nearest_batch():
    assert step("xavier-agx", "mobilenet_v3").seconds == pytest.approx(281.4 / 1443, rel=0.01)
    assert step("xavier-nx", "mobilenet_v3", 32).seconds == pytest.approx(0.78)
    assert "scaled" in step("xavier-nx", "mobilenet_v3", 32).source
