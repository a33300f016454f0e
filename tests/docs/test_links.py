"""Every link between the pages of docs/ leads to a file of the site, and the site's navigation has every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"reference/commands.md", "reference/python.md", "reference/schemas.md"}  # scripts/reference.py writes them
PAGES = sorted(path for path in DOCS.rglob("*.md") if str(path.relative_to(DOCS)) not in GENERATED)
OUTSIDE = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]


def links(text: str) -> list[str]:
    """Return the targets of links and pictures that are not on the web."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    targets = re.findall(r"\]\(([^()\s]+)\)", text)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if page not in OUTSIDE:
            assert target.is_file() and target.is_relative_to(DOCS), f"{link} is not a page of the site"
        if anchor:
            assert anchor in anchors(target), link


def test_the_navigation_has_every_page_and_the_site_leaves_none_out() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": ([\w/.-]+\.md)$", text, re.M)
    assert set(listed) == {str(path.relative_to(DOCS)) for path in PAGES} | GENERATED
    assert len(listed) == len(set(listed)) and "exclude_docs" not in text


def test_the_table_of_results_has_every_results_page() -> None:
    table = (DOCS / "results" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[^]]+\]\(([\w.]+)\) \|", table, re.M)
    assert sorted(listed) == sorted(path.name for path in (DOCS / "results").glob("*.md") if path.name != "README.md")
