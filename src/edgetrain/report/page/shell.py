"""The frame of every page: one file with its style, its script and its data in it, which fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from edgetrain.report.page.bars import legend
from edgetrain.report.page.packed import plots_json
from edgetrain.report.page.plot import Plot
from edgetrain.report.page.static import draw
from edgetrain.units import MS_PER_S, spell, spell_bytes, spell_seconds
from edgetrain.version import __version__


@cache
def _file(name: str) -> str:
    return (resources.files("edgetrain.report") / "page" / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("edgetrain.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "seconds": spell_seconds,
        "bytes": spell_bytes,
        "share": spell_share,
        "number": spell,
        "ms": lambda value: spell_seconds(None if value is None else value / MS_PER_S),
    }
    environment.filters |= filters
    environment.globals |= {"figure": figure, "tools": tools}
    return environment


def spell_share(share: float | None) -> str:
    """Spell a share as a percentage."""
    return "–" if share is None else f"{share:.0%}"


def figure(plot: Plot) -> Markup:
    """Return a picture with its title, its note and its legend."""
    names = [(series.colour + (" dashed" if series.dashed else ""), series.name) for series in plot.series]
    shown = legend(names) if plot.legend and len(names) > 1 else ""
    note = f'<span class="note">{html.escape(plot.note)}</span>' if plot.note else ""
    return Markup(
        f'<figure class="plot" id="plot-{html.escape(plot.id)}">'
        f"<figcaption>{html.escape(plot.title)}{note}</figcaption>"
        f"{shown}{draw(plot)}</figure>"
    )


def tools(group: str) -> Markup:
    """Return the buttons that zoom a group of pictures; they are there where the script runs."""
    buttons = (("in", "Zoom in"), ("out", "Zoom out"), ("left", "Earlier"), ("right", "Later"), ("all", "Show all"))
    made = "".join(f'<button type="button" data-do="{do}">{name}</button>' for do, name in buttons)
    return Markup(
        f'<div class="needs-js"><div class="tools" data-group="{group}">{made}'
        "<span>drag over a part to zoom, double-click to show all</span></div></div>"
    )


def source_of(script: str) -> str:
    """Return the source expression that allows exactly this inline script."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii") + "'"


def render(
    template: str, title: str, plots: Sequence[Plot], scripts: Sequence[str] = (), live: bool = False, **content: Any
) -> str:
    """Return a page; `scripts` are files of this package that run after the pictures are drawn.

    A live page may talk to the server that it came from, and to nothing else.
    """
    own = "'self'" if live else "'none'"
    code = [_file(name) for name in ("page.js", *scripts)]
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action {own}; connect-src {own}; "
        f"script-src {' '.join(source_of(text) for text in code)}"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            version=__version__,
            made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            style=Markup(_file("page.css")),
            scripts=[Markup(text) for text in code],
            policy=policy,
            live=live,
            plots=Markup(plots_json(list(plots))),
            **content,
        )
    )


def standalone_svg(plot: Plot) -> str:
    """Return a picture as an SVG file of its own, with the style of the pages in it."""
    opening = '<svg class="chart" '
    drawn = draw(plot)
    assert drawn.startswith(opening)
    head, _, rest = drawn.partition(">")
    named = head.replace(opening, f'{opening}xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{named}><style>{_file('page.css')}</style>{rest}\n"


def render_part(template: str, **content: Any) -> str:
    """Return a part of a page, for a page that is open."""
    return _environment().get_template(template).render(**content)
