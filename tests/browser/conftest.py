"""A real Chromium for the tests of pages; they are skipped where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgetrain.record import FolderStore
from tests.recording import write_record

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
CHROMIUM = os.environ.get("EDGETRAIN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(config, items) -> None:
    """Run these only when they are asked for: `make test-browser` names this folder."""
    if not any("browser" in str(argument) for argument in config.args):
        for item in items:
            if "tests/browser" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="needs a browser: make test-browser"))


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine; Debian's package is called chromium")
    with playwright.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


class Visit:
    """One page that was opened, and what went wrong on it."""

    def __init__(self, page) -> None:
        self.page, self.errors, self.requests = page, [], []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    @property
    def outside(self) -> list[str]:
        """Requests that left this machine."""
        own = ("file:", "data:", "blob:", "http://127.0.0.1:", "http://localhost:")
        return [url for url in self.requests if not url.startswith(own)]


@pytest.fixture
def visit(browser):
    """Return a function that opens a page: `visit(address, width=…, dark=…, script=…)`."""
    contexts = []

    def go(address: str, width: int = 1180, height: int = 900, dark: bool = False, script: bool = True) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.goto(address)
        return found

    yield go
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Path:
    """Return a store with a campaign of six runs, one of them long, and hostile names in a seventh."""
    place = tmp_path_factory.mktemp("browser") / "store"
    for workers in (0, 1, 2):
        for seed in range(2):
            write_record(
                place, workers=workers, seed=10 * workers + seed, minibatches=60, epochs=3,
                stall_us=30_000 // (workers + 1), campaign="grid-0123abcd", factors={"workers": workers},
            )  # fmt: skip
    write_record(place, seed=99, workload={"network": "<script>alert(1)</script>", "batch_size": 16})
    return place


@contextmanager
def serving(store: Path, control: bool = False) -> Iterator[str]:
    """Run a live server that watches a store; yield its address."""
    import uvicorn

    from edgetrain.api.serving import RecordPages
    from edgetrain.live import AccessRules, ServerOptions, Watcher, build_application, listen_on

    listening = listen_on("127.0.0.1", 0)
    place = FolderStore(store)
    begun = time.monotonic()
    watcher = Watcher(place, 4.0, lambda: round((1003.0 + 0.05 * (time.monotonic() - begun)) * 1e6))
    rules = AccessRules(("127.0.0.1", "localhost"), "token", control=control)
    options = ServerOptions(rules, whatif=True, interval_s=0.3)
    application = build_application(watcher, RecordPages(place), options)
    config = uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(5)


@pytest.fixture(scope="session")
def live(store):
    """Return the address of a live server that watches the store, in which a run is being recorded."""
    pytest.importorskip("uvicorn")
    write_record(store, seed=7, epochs=2, minibatches=40, state="running", runner={"pid": os.getpid(), "boot": None})
    with serving(store) as address:
        yield address


@pytest.fixture
def controlled(tmp_path):
    """Return the address of a server started with control, and the process that its page may stop."""
    pytest.importorskip("uvicorn")
    training = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    try:
        write_record(tmp_path / "store", state="running", runner={"pid": training.pid, "boot": None})
        with serving(tmp_path / "store", control=True) as address:
            yield address, training
    finally:
        training.kill()
        training.wait()
