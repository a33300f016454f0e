"""The live page in the browser and the live view in the terminal."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from edgetrain.analysis import summarize
from edgetrain.api.records import StoreLike, open_run, open_store
from edgetrain.api.reports import report_page
from edgetrain.api.verdicts import RunQuestions, WhatIfSource, what_if_source
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.live import Watcher, show_top
from edgetrain.record import FolderStore, live_runner
from edgetrain.report import prometheus_text

if TYPE_CHECKING:
    from edgetrain.live import WhatIfPoint

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT = 8137
MAX_KEPT = 6  # pages of finished runs; a page is some hundred kilobytes


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the live page, and the token that viewing or controlling needs."""

    url: str  # contains the token where viewing needs one
    token: str | None  # None: neither viewing nor controlling needs one
    control: bool


class RecordPages:
    """The pages of a store; those of finished runs are kept for a while."""

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self._models = WhatIfModels(store)

    def run(self, name: str) -> str:
        """Return the page of one run."""
        known = self._store.find(name)
        if self._store.manifest(known).state == "running":
            return report_page([known], store=self._store).html
        with self._lock:
            if known in self._kept:
                self._kept.move_to_end(known)
                return self._kept[known]
        page = report_page([known], store=self._store).html
        with self._lock:
            self._kept[known] = page
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return page

    def comparison(self, names: Sequence[str]) -> str:
        """Return the page of several runs."""
        return report_page([self._store.find(name) for name in names], store=self._store).html

    def campaign(self, name: str) -> str:
        """Return the page of a campaign."""
        return report_page((), campaign=name, store=self._store).html

    def metrics(self, name: str) -> str:
        """Return a run for Prometheus."""
        run = open_run(name, self._store)
        return prometheus_text(run, summarize(run))

    def whatif(self, name: str, changes: Mapping[str, str], interval: bool) -> WhatIfPoint | None:
        """Return a run under other settings, predicted; None where that is not available."""
        return self._models.answer(self._store.find(name), changes, interval)

    def stop(self) -> str:
        """Ask the process that records a run to stop, as Ctrl-C does."""
        for row in reversed(self._store.runs()):
            if row.state == "running" and (runner := live_runner(self._store.manifest(row.run))) is not None:
                try:
                    os.kill(runner.pid, signal.SIGINT)
                except OSError as error:
                    raise EdgetrainError(f"{row.run} cannot be stopped from here: {error.strerror}") from error
                return f"asked {row.run} to stop; its record so far is kept"
        raise EdgetrainError("no training is running")

    def restore(self) -> str:
        """Restore the power mode of this board."""
        from edgetrain.api.devices import restore_mode

        restore_mode()
        return "the power mode is restored"


class PointsFirst:
    """Lets point answers overtake intervals: an interval in progress waits between two of its simulations."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._points = 0

    @contextmanager
    def point(self) -> Iterator[None]:
        """Keep intervals waiting while a point is computed."""
        with self._changed:
            self._points += 1
        try:
            yield
        finally:
            with self._changed:
                self._points -= 1
                self._changed.notify_all()

    def pause(self) -> None:
        """Wait while points are being computed, for a second at most: many readers must not starve an interval."""
        with self._changed:
            self._changed.wait_for(lambda: self._points == 0, timeout=1.0)


class WhatIfModels:
    """Models of the runs that were asked about last: making one takes longer than asking it."""

    def __init__(self, store: FolderStore, source: WhatIfSource | None = None, most: int = 2) -> None:
        self._store, self._source, self._most = store, source or what_if_source(), most
        self._models: OrderedDict[str, RunQuestions] = OrderedDict()
        self._making = threading.Lock()
        self._turns = PointsFirst()

    def answer(self, run: str, changes: Mapping[str, str], interval: bool) -> WhatIfPoint | None:
        """Answer one question; None where there is nothing that answers."""
        if self._source is None:
            return None
        model = self._model(run, self._source)
        if interval:
            return model.with_interval(changes, self._turns.pause)
        with self._turns.point():
            return model.point(changes)

    def _model(self, run: str, source: WhatIfSource) -> RunQuestions:
        with self._making:
            if run not in self._models:
                self._models[run] = source(run, self._store)
                while len(self._models) > self._most:
                    self._models.popitem(last=False)
            self._models.move_to_end(run)
            return self._models[run]


def serve(
    host: str = "127.0.0.1",
    port: int = PORT,
    store: StoreLike = None,
    control: bool = False,
    allow_hosts: Sequence[str] = (),
    announce: Callable[[Address], None] = lambda address: None,
) -> None:
    """Show what trains in a browser until interrupted; on loopback anybody on this machine may look.

    From elsewhere (another `host`) looking needs a token; `control` lets pages stop a training, always with the token.
    """
    try:
        from edgetrain.live import AccessRules, ServerOptions, build_application, listen_on, new_token
        from edgetrain.live import serve as answer
    except ImportError as error:
        raise EdgetrainError("the live page needs starlette and uvicorn: pip install 'edgetrain[serve]'") from error
    place = open_store(store)
    local = host in LOOPBACK
    own = f"[{host}]" if ":" in host else host.lower()
    hosts = ("localhost", "127.0.0.1", "[::1]", own, *(name.lower() for name in allow_hosts))
    if not local and host in ("0.0.0.0", "::") and not allow_hosts:
        hosts = (*hosts, socket.gethostname().lower(), *_addresses())
    rules = AccessRules(hosts, new_token(), token_to_read=not local, control=control)
    listening = listen_on(host, port)
    try:
        options = ServerOptions(rules, whatif=what_if_source() is not None)
        application = build_application(Watcher(place), RecordPages(place), options)
        announce(_address(host, listening.getsockname()[1], rules.token, local, control))
        answer(application, listening)
    finally:
        listening.close()


def _addresses() -> tuple[str, ...]:
    """Return the addresses of this machine's name, as far as they are known without asking anybody."""
    try:
        return tuple({str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)})
    except OSError:
        return ()


def _address(host: str, port: int, token: str, local: bool, control: bool) -> Address:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{shown}]" if ":" in shown else shown
    url = f"http://{name}:{port}/"
    if not local:
        url += f"?token={token}"
    elif control:
        url += f"#token={token}"
    return Address(url, token if control or not local else None, control)


def top(console: Console, store: StoreLike = None, interval_s: float = 2.0, once: bool = False) -> None:
    """Show what trains in the terminal until interrupted."""
    if interval_s < 0.2:
        raise UsageError(f"an interval of {interval_s:g} s would load the machine that trains; take 0.2 s or more")
    show_top(Watcher(open_store(store)), console, interval_s, once)
