"""The web application: the live page, its events, reports of recorded runs, what-if, metrics, and control."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from edgetrain.documents import to_document
from edgetrain.errors import EdgetrainError
from edgetrain.live.broadcast import MAX_READERS, Broadcaster
from edgetrain.live.guard import AccessGuard, AccessRules
from edgetrain.live.watching import Watcher
from edgetrain.report import (
    CONTENT_TYPE,
    SLIDERS,
    LiveOptions,
    live_document,
    live_event,
    live_page,
)
from edgetrain.schema import SCHEMA

INTERVAL_S = 2.0
MAX_COMPARED = 20
WHATIF_OWN = ("run", "token", "interval")  # parameters of a what-if question that are no settings


@dataclass(frozen=True, slots=True)
class WhatIfPoint:
    """The answer of a what-if question: in words, and as numbers with their interval."""

    said: str
    total_s: float
    lo_s: float | None  # None: the interval was not asked for
    hi_s: float | None
    gain_pct: float


class ServerPages(Protocol):
    """What the application takes from above: pages of recorded runs, predictions and control. All may be slow."""

    def run(self, name: str) -> str: ...

    def comparison(self, names: Sequence[str]) -> str: ...

    def campaign(self, name: str) -> str: ...

    def metrics(self, name: str) -> str: ...

    def whatif(self, name: str, changes: Mapping[str, str], interval: bool) -> WhatIfPoint | None:
        """Return None where there is no what-if model; without the interval the answer comes at once."""

    def stop(self) -> str:
        """Stop the running training; return what was done."""

    def restore(self) -> str:
        """Restore the power mode; return what was done."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server behaves."""

    rules: AccessRules
    whatif: bool = False
    interval_s: float = INTERVAL_S


def build_application(watcher: Watcher, pages: ServerPages, options: ServerOptions) -> AccessGuard:
    """Return the application behind its guard."""
    views = _Views(watcher, pages, options)
    return AccessGuard(views.application(), options.rules, views.close)


class _Views:
    def __init__(self, watcher: Watcher, pages: ServerPages, options: ServerOptions) -> None:
        self._watcher, self._pages, self._options = watcher, pages, options
        self._broadcaster = Broadcaster(self._news, options.interval_s)
        self._one_page = anyio.CapacityLimiter(1)  # pages take a core: one at a time, beside training
        self._looks = anyio.CapacityLimiter(1)
        self._points = anyio.CapacityLimiter(1)  # beside pages and intervals: a point is to come at once
        self._intervals = anyio.CapacityLimiter(1)

    def application(self) -> Starlette:
        """Return the routes."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self.close()

        routes = [
            Route("/", self._home),
            Route("/events", self._events),
            Route("/api/state", self._state),
            Route("/api/whatif", self._whatif),
            Route("/runs/{name}", self._run),
            Route("/compare", self._compare),
            Route("/campaigns/{name}", self._campaign),
            Route("/metrics", self._metrics),
            Route("/control/stop", self._stop, methods=["POST"]),
            Route("/control/restore", self._restore, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=lifespan)

    async def close(self) -> None:
        """End the events of open pages."""
        await self._broadcaster.close()

    async def _news(self) -> str:
        view = await anyio.to_thread.run_sync(self._watcher.read, limiter=self._looks)
        return str(await anyio.to_thread.run_sync(live_event, view, limiter=self._looks))

    async def _home(self, request: Request) -> Response:
        view = await anyio.to_thread.run_sync(self._watcher.read, limiter=self._looks)
        options = LiveOptions(self._options.rules.control, self._options.whatif, SLIDERS)
        page = await anyio.to_thread.run_sync(live_page, view, options, limiter=self._looks)
        return HTMLResponse(page)

    async def _events(self, request: Request) -> Response:
        if self._broadcaster.readers >= MAX_READERS:
            return PlainTextResponse(f"{MAX_READERS} pages are open already", 503, {"retry-after": "30"})
        return StreamingResponse(self._broadcaster.listen(), media_type="text/event-stream")

    async def _state(self, request: Request) -> Response:
        view = await anyio.to_thread.run_sync(lambda: self._watcher.read(pictures=False), limiter=self._looks)
        return JSONResponse({"schema": SCHEMA, **to_document(live_document(view))})

    async def _page(self, make: Callable[[], str]) -> Response:
        try:
            return HTMLResponse(await anyio.to_thread.run_sync(make, limiter=self._one_page))
        except EdgetrainError as error:
            return PlainTextResponse(f"edgetrain: {error}", 404)

    async def _run(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._page(lambda: self._pages.run(name))

    async def _campaign(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._page(lambda: self._pages.campaign(name))

    async def _compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[:MAX_COMPARED]
        if len(names) < 2:
            return PlainTextResponse("choose at least two runs to compare", 400)
        return await self._page(lambda: self._pages.comparison(names))

    async def _metrics(self, request: Request) -> Response:
        view = await anyio.to_thread.run_sync(lambda: self._watcher.read(pictures=False), limiter=self._looks)
        if view.running is None:
            return Response("", media_type=CONTENT_TYPE)
        name = view.running.run
        try:
            text = await anyio.to_thread.run_sync(lambda: self._pages.metrics(name), limiter=self._one_page)
        except EdgetrainError as error:
            return PlainTextResponse(f"# {error}".replace("\n", " "), 503)
        return Response(text, media_type=CONTENT_TYPE)

    async def _whatif(self, request: Request) -> Response:
        """Answer with the interval, or, with `interval=no`, at once and without it."""
        changes = {name: value for name, value in request.query_params.items() if name not in WHATIF_OWN}
        name = request.query_params.get("run", "last")
        interval = request.query_params.get("interval") != "no"
        limiter = self._intervals if interval else self._points
        try:
            found = await anyio.to_thread.run_sync(lambda: self._pages.whatif(name, changes, interval), limiter=limiter)
        except (EdgetrainError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        if found is None:
            return JSONResponse({"error": "what-if is not available here"}, 404)
        return JSONResponse(to_document(found))

    async def _stop(self, request: Request) -> Response:
        return await self._control(self._pages.stop)

    async def _restore(self, request: Request) -> Response:
        return await self._control(self._pages.restore)

    async def _control(self, do: Callable[[], str]) -> Response:
        try:
            return JSONResponse({"said": await anyio.to_thread.run_sync(do, limiter=self._one_page)})
        except EdgetrainError as error:
            return JSONResponse({"error": str(error)}, 409)
