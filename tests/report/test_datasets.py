"""Datasets as text."""

from edgetrain.report.datasets import dataset_preview_text, dataset_table
from edgetrain.report.text import console
from edgetrain.schema import DatasetFacts, DatasetPreview


def text(renderable) -> str:
    screen = console()
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=True)
    return captured.get()


def test_a_dataset_is_shown_with_counts_and_file_sizes():
    facts = DatasetFacts("/d", "gld", 60, 203, 60, 7_200_000, {"0.05": 64_000, "0.5": 120_000, "0.95": 207_000}, ())
    shown = text(dataset_table(facts))
    assert all(word in shown for word in ("gld", "60", "203", "7.2 MB", "120 kB", "64 kB to 207 kB"))


def test_a_preview_says_whether_anything_has_to_be_made():
    assert "would generate 60 samples, about 7 MB, in /d" in text(
        dataset_preview_text(DatasetPreview("/d", 60, 7_000_000, False))
    )
    assert "nothing to do: 60 samples are in /d" in text(
        dataset_preview_text(DatasetPreview("/d", 60, 7_000_000, True))
    )
