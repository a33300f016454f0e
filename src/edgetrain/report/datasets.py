"""Datasets for a person in a terminal."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.schema import DatasetFacts, DatasetPreview
from edgetrain.units import spell_bytes


def dataset_table(facts: DatasetFacts) -> RenderableType:
    """Return what a dataset holds."""
    table = plain_table("dataset", "kind", "samples", "classes", "files", "size", "median file", "5 % to 95 %")
    quantiles = facts.size_quantiles
    spread = f"{spell_bytes(quantiles.get('0.05'))} to {spell_bytes(quantiles.get('0.95'))}"
    counts = (str(facts.samples), str(facts.classes), str(facts.files))
    table.add_row(
        facts.dataset, facts.kind, *counts, spell_bytes(facts.bytes), spell_bytes(quantiles.get("0.5")), spread
    )
    return table


def dataset_preview_text(preview: DatasetPreview) -> RenderableType:
    """Return what would be generated."""
    if preview.ready:
        return Text(f"nothing to do: {preview.samples} samples are in {preview.dataset}")
    size = spell_bytes(preview.bytes)
    return Text(f"would generate {preview.samples} samples, about {size}, in {preview.dataset}")
