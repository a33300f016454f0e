"""Pages in a real browser: no errors, nothing fetched, zoom, pointing, keys, dark, phone, print, without scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain import api
from tests.report.test_modes_page import table

KINDS = ("run", "campaign", "comparison", "modes")


@pytest.fixture(scope="session")
def pages(store, tmp_path_factory) -> dict[str, Path]:
    """Return one written page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    names = [row.run for row in api.runs(store)]
    modes = folder / "modes.csv"
    rows = table(90)
    lines = ["cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw"]
    for place in range(len(rows)):
        cells = (rows.gpu_hz[place], rows.time_s[place] * 1e3, rows.power_w[place] * 1e3)
        lines.append(f"{4 + place % 3},1500000,{cells[0]:.0f},3199000000,{cells[1]:.4f},{cells[2]:.1f}")
    modes.write_text("\n".join(lines) + "\n")
    chosen = {"run": [names[0]], "campaign": ["grid"], "comparison": names[:4], "modes": [str(modes)]}
    for kind, wanted in chosen.items():
        limits = api.ModeLimits(max_power_w=30) if kind == "modes" else None
        written = api.write_report(wanted, folder / f"{kind}.html", store=store, limits=limits)
        assert written.kind == kind and written.size_bytes < 1_100_000
    return {kind: folder / f"{kind}.html" for kind in KINDS}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_no_errors_fetches_nothing_and_fits_its_window(visit, pages, kind: str, dark: bool) -> None:
    for width in (1180, 390):
        seen = visit(pages[kind].as_uri(), width=width, dark=dark)
        seen.page.wait_for_timeout(150)
        assert seen.errors == [] and seen.outside == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(16, 21, 23)") is dark


@pytest.mark.parametrize("kind", ["run", "campaign", "comparison"])
def test_all_bars_of_a_chart_and_their_axis_have_one_scale(visit, pages, kind: str) -> None:
    for width in (1180, 390):
        page = visit(pages[kind].as_uri(), width=width).page
        for chart in page.locator(".barchart").all():
            drawn = chart.evaluate(
                "one => [...one.querySelectorAll('svg.bar')].map(bar => bar.getBoundingClientRect()).map(box => "
                "`${Math.round(box.left)} ${Math.round(box.width)}`)"
            )
            assert len(set(drawn)) == 1, drawn


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_no_serious_violation_of_accessibility(visit, pages, kind: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for dark in (False, True):
        seen = visit(pages[kind].as_uri(), dark=dark)
        seen.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        found = axe.Axe().run(seen.page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [one["id"] + ": " + one["nodes"][0]["html"][:200] for one in serious] == []


def test_dragging_zooms_every_picture_of_the_timeline_and_a_double_click_shows_all(visit, pages) -> None:
    page = visit(pages["run"].as_uri()).page
    chart = page.locator("#plot-minibatches svg.chart")
    chart.scroll_into_view_if_needed()
    before = page.locator("#plot-power svg.chart").inner_html()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 80, steps=4)
    page.mouse.up()
    zoomed = page.locator("#plot-power svg.chart").inner_html()
    assert zoomed != before
    chart.dblclick()
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Show all").click()
    assert page.evaluate("window.edgetrain.groups.get('timeline').view") is None


def test_pointing_says_the_values_there_and_keys_do_the_same(visit, pages) -> None:
    page = visit(pages["run"].as_uri()).page
    chart = page.locator("#plot-power svg.chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "W" in page.locator(".tip").inner_text() and "epoch" in page.locator(".tip").inner_text()
    page.mouse.move(2, 2)
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    assert page.evaluate("window.edgetrain.groups.get('timeline').view") is not None
    page.keyboard.press("0")
    assert page.evaluate("window.edgetrain.groups.get('timeline').view") is None
    assert "total" in page.locator("#plot-power .quiet").inner_text()


def test_points_of_a_scatter_say_which_mode_they_are(visit, pages) -> None:
    page = visit(pages["modes"].as_uri()).page
    chart = page.locator("#plot-time-power svg.chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert "GPU clock" in page.locator(".tip").inner_text()


def test_a_legend_switches_a_series_off_and_the_theme_can_be_changed(visit, pages) -> None:
    page = visit(pages["run"].as_uri()).page
    button = page.locator("#plot-minibatches ul.legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 21, 23)"


@pytest.mark.parametrize("kind", KINDS)
def test_without_scripts_the_pictures_and_tables_are_there(visit, pages, kind: str) -> None:
    page = visit(pages[kind].as_uri(), script=False).page
    assert page.locator("table").count() >= 1
    assert page.locator("svg").count() >= 1 and page.locator(".needs-js >> visible=true").count() == 0


def test_a_page_prints_on_paper(visit, pages) -> None:
    page = visit(pages["run"].as_uri(), dark=True).page
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF") and 1 < printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") < 30


def test_a_hostile_name_stays_text(visit, store, tmp_path: Path) -> None:
    names = [row.run for row in api.runs(store) if "script" in (row.network or "")]
    api.write_report(names, tmp_path / "hostile.html", store=store)
    seen = visit((tmp_path / "hostile.html").as_uri())
    assert seen.errors == [] and "<script>alert(1)</script>" in seen.page.locator("h1").inner_text()
