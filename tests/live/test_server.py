"""The live server: who may ask for what, pages and events, readers that are slow or gone, and memory that stays."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping, Sequence

import pytest

pytest.importorskip("starlette")
from edgetrain.api.serving import RecordPages
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.live import AccessRules, ServerOptions, Watcher, WhatIfPoint, build_application, listen_on, new_token
from edgetrain.live.broadcast import Broadcaster
from edgetrain.live.guard import AccessGuard, bare_host
from edgetrain.record import FolderStore

TOKEN = "a-token-of-some-length"
HERE = {"host": "localhost:8137"}


class Answer:
    """What an application answered."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, {}, b""

    @property
    def text(self) -> str:
        return self.body.decode()


async def ask(
    application, method: str, path: str, headers: Mapping[str, str] | None = None, most: int = 10**9
) -> Answer:
    """Send one request to an application; stop when `most` bytes have come."""
    given = {**HERE, **(headers or {})}
    target, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": target, "raw_path": target.encode(),
        "query_string": query.encode(), "scheme": "http", "server": ("localhost", 8137), "client": ("127.0.0.1", 1),
        "root_path": "", "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    answer, over = Answer(), asyncio.Event()
    asked = False

    async def receive():
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            if len(answer.body) >= most or not message.get("more_body"):
                over.set()

    await application(scope, receive, send)
    return answer


def application(store, pages=None, **rules):
    known = {"hosts": ("localhost", "127.0.0.1"), "token": TOKEN, **rules}
    place = FolderStore(store)
    options = ServerOptions(AccessRules(**known), whatif=True, interval_s=0.01)
    watcher = Watcher(place, 3.0, lambda: round(1004e6))
    return build_application(watcher, pages or RecordPages(place), options)


def get(store, path: str, headers: Mapping[str, str] | None = None, **rules) -> Answer:
    return asyncio.run(ask(application(store, **rules), "GET", path, headers))


def test_pages_of_runs_comparisons_campaigns_and_metrics_are_answered(record) -> None:
    a, b = record(seed=1, campaign="grid-0123abcd"), record(seed=2, campaign="grid-0123abcd")
    live = record(seed=3, state="running", runner={"pid": os.getpid(), "boot": None})
    home = get(record.store, "/")
    assert home.status == 200 and live in home.text and f"/runs/{a}" in home.text and "plot-power" in home.text
    assert "connect-src &#39;self&#39;" in home.text
    assert "Where the time went" in get(record.store, f"/runs/{a}").text
    assert "Where the time of a minibatch went" in get(record.store, f"/compare?run={a}&run={b}").text
    assert "Campaign grid" in get(record.store, "/campaigns/grid-0123abcd").text
    assert "edgetrain_minibatches_total" in get(record.store, "/metrics").text
    assert get(record.store, "/api/state").text.startswith('{"schema":"edgetrain/1","running":{"run":')


def test_what_is_not_there_is_an_answer_and_not_a_crash(record) -> None:
    record()
    assert get(record.store, "/runs/nosuch").status == 404
    assert get(record.store, "/campaigns/nosuch").status == 404
    assert get(record.store, "/compare?run=last").status == 400
    assert get(record.store, "/nosuch").status == 404
    assert get(record.store, "/runs/..%2F..%2Fetc%2Fpasswd").status == 404
    assert get(record.store, "/api/whatif?run=last&workers=2").status in (200, 400, 404)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8137", "localhost.evil.example", "", "127.0.0.2"])
def test_other_hosts_are_refused(record, host: str) -> None:
    answer = get(record.store, "/", {"host": host})
    assert answer.status == 421 and "--allow-host" in answer.text


def test_every_answer_forbids_sniffing_framing_and_keeping(record) -> None:
    for path in ("/", "/nosuch"):
        headers = get(record.store, path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store" and "access-control-allow-origin" not in headers


def test_looking_from_elsewhere_needs_the_token_which_a_cookie_then_carries(record) -> None:
    rules = {"token_to_read": True}
    assert get(record.store, "/", **rules).status == 401
    assert get(record.store, "/?token=wrong", **rules).status == 401
    first = get(record.store, f"/?token={TOKEN}", **rules)
    assert first.status == 200 and "HttpOnly; SameSite=Strict" in first.headers["set-cookie"]
    cookie = first.headers["set-cookie"].partition(";")[0]
    assert get(record.store, "/", {"cookie": cookie}, **rules).status == 200
    assert get(record.store, "/", {"authorization": f"Bearer {TOKEN}"}, **rules).status == 200
    assert get(record.store, "/", {"cookie": "edgetrain_token=wrong"}, **rules).status == 401


class Controlled:
    """Pages that remember what they were told to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, name: str) -> str:
        return name

    def comparison(self, names: Sequence[str]) -> str:
        return " ".join(names)

    campaign = metrics = run

    def whatif(self, name: str, changes: Mapping[str, str], interval: bool) -> WhatIfPoint | None:
        if "nosuch" in changes:
            raise EdgetrainError("there is no setting nosuch")
        if not interval:
            return WhatIfPoint("soon", 2.0, None, None, 50.0)
        return WhatIfPoint(f"{name} with {dict(changes)}", 2.0, 1.0, 3.0, 50.0)

    def stop(self) -> str:
        self.done.append("stop")
        return "stopped"

    def restore(self) -> str:
        raise EdgetrainError("this machine has no power modes")


@pytest.mark.parametrize(
    ("headers", "control", "status"),
    [
        ({"origin": "http://localhost:8137", "authorization": f"Bearer {TOKEN}"}, True, 200),
        ({"origin": "http://localhost:8137", "authorization": f"Bearer {TOKEN}"}, False, 403),
        ({"origin": "http://localhost:8137"}, True, 401),
        ({"origin": "http://localhost:8137", "authorization": "Bearer wrong"}, True, 401),
        ({"origin": "http://localhost:8137", "cookie": f"edgetrain_token={TOKEN}"}, True, 401),
        ({"origin": "http://evil.example", "authorization": f"Bearer {TOKEN}"}, True, 403),
        ({"origin": "null", "authorization": f"Bearer {TOKEN}"}, True, 403),
        ({"authorization": f"Bearer {TOKEN}"}, True, 403),
    ],
)
def test_a_change_needs_control_the_same_origin_and_the_token(record, headers, control: bool, status: int) -> None:
    pages = Controlled()
    app = application(record.store, pages, control=control)
    assert asyncio.run(ask(app, "POST", "/control/stop", headers)).status == status
    assert pages.done == (["stop"] if status == 200 else [])


def test_control_that_is_not_possible_says_why_and_other_methods_are_refused(record) -> None:
    app = application(record.store, Controlled(), control=True)
    headers = {"origin": "http://localhost:8137", "authorization": f"Bearer {TOKEN}"}
    answer = asyncio.run(ask(app, "POST", "/control/restore", headers))
    assert answer.status == 409 and "no power modes" in answer.text
    assert asyncio.run(ask(app, "DELETE", "/", headers)).status == 405


def test_what_if_answers_in_words_and_refuses_with_a_reason(record) -> None:
    app = application(record.store, Controlled())
    answer = asyncio.run(ask(app, "GET", "/api/whatif?run=r&workers=2"))
    assert answer.status == 200 and "r with {'workers': '2'}" in answer.text
    point = asyncio.run(ask(app, "GET", "/api/whatif?run=r&workers=2&interval=no"))
    assert point.text == '{"said":"soon","total_s":2.0,"lo_s":null,"hi_s":null,"gain_pct":50.0}'
    refused = asyncio.run(ask(app, "GET", "/api/whatif?run=r&nosuch=2"))
    assert refused.status == 400 and "there is no setting nosuch" in refused.text


def test_events_carry_the_parts_of_the_page_and_the_pictures(record) -> None:
    record(state="running", runner={"pid": os.getpid(), "boot": None}, workload={"network": "</p><script>x</script>"})
    answer = asyncio.run(ask(application(record.store), "GET", "/events", most=2_000))
    assert answer.headers["content-type"].startswith("text/event-stream")
    data = next(line for line in answer.text.splitlines() if line.startswith("data: "))
    assert '"parts"' in data and '"plots"' in data and "<script>" not in data


async def _counted(readers: int, readings: int, slow: int = 0) -> tuple[list[int], int]:
    made = 0

    async def read() -> str:
        nonlocal made
        made += 1
        return "x" * 2_000

    broadcaster = Broadcaster(read, 0.0005)
    got = [0] * readers

    async def listen(number: int) -> None:
        stream = broadcaster.listen()
        async for message in stream:
            if message.startswith("data:"):
                got[number] += 1
                if number < slow:
                    await asyncio.sleep(0.05)
            if made >= readings:
                break
        await stream.aclose()

    await asyncio.gather(*(listen(number) for number in range(readers)))
    assert broadcaster.readers == 0
    await broadcaster.close()
    return got, made


def test_slow_readers_skip_and_hold_nobody_up() -> None:
    got, made = asyncio.run(_counted(10, 300, slow=3))
    assert min(got[3:]) > 0.5 * made and max(got[:3]) < 0.5 * made


def test_readers_go_on_after_a_reading_that_failed() -> None:
    async def main() -> str:
        made = 0

        async def read() -> str:
            nonlocal made
            made += 1
            if made == 1:
                raise ZeroDivisionError
            return "there again"

        broadcaster = Broadcaster(read, 0.001)
        stream = broadcaster.listen()
        await anext(stream)  # how soon to connect again
        message = await asyncio.wait_for(anext(stream), 5)
        await stream.aclose()
        await broadcaster.close()
        return message

    assert "there again" in asyncio.run(main())


def test_ctrl_c_ends_the_server_at_once_and_without_a_traceback_while_a_page_is_open(tmp_path) -> None:
    command = [sys.executable, "-m", "edgetrain", "serve", "--port", "0", "--store", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        address = ""
        while "http://" not in address:
            address = server.stdout.readline()
        port = int(re.search(r":(\d+)/", address)[1])
        with socket.create_connection(("127.0.0.1", port)) as page:
            page.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert page.recv(100)
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=20)[0]
    assert "Traceback" not in said and "graceful" not in said


def test_nothing_is_read_while_nobody_looks() -> None:
    async def main() -> int:
        made = 0

        async def read() -> str:
            nonlocal made
            made += 1
            return "x"

        broadcaster = Broadcaster(read, 0.001)
        stream = broadcaster.listen()
        for _ in range(4):
            await anext(stream)
        await stream.aclose()
        await asyncio.sleep(0.02)
        before = made
        await asyncio.sleep(0.05)
        return made - before

    assert asyncio.run(main()) == 0


def test_memory_stays_flat_over_days_of_events_and_readers_that_come_and_go() -> None:
    def held(readings: int) -> int:
        for _ in range(3):
            asyncio.run(_counted(20, readings, slow=2))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        held(50)
        before = held(50)
        after = held(1_000)  # at one event in two seconds, three times half an hour with 20 pages
        assert after - before < 200_000
    finally:
        tracemalloc.stop()


def test_watching_a_growing_run_keeps_no_memory(record) -> None:
    record(epochs=2, minibatches=200, state="running", runner={"pid": os.getpid(), "boot": None})
    watcher = Watcher(FolderStore(record.store), 3.0, lambda: round(1004e6))
    tracemalloc.start()
    try:
        for _ in range(5):
            watcher.read()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(30):
            watcher.read()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def test_a_client_that_connects_at_once_is_not_refused() -> None:
    with listen_on("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()) as client:
        assert client.getpeername() == listening.getsockname()


def test_a_port_in_use_is_said_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="is in use; choose another with --port"):
            listen_on("127.0.0.1", taken.getsockname()[1])


def test_hosts_are_compared_without_their_port_and_tokens_cannot_be_guessed() -> None:
    hosts = ["LocalHost:80", "[::1]:80", "[::1]", "a.b"]
    assert [bare_host(host) for host in hosts] == ["localhost", "[::1]", "[::1]", "a.b"]
    assert len({new_token() for _ in range(50)}) == 50 and re.fullmatch(r"[\w-]{32}", new_token())
    guard = AccessGuard(None, AccessRules(("localhost",), TOKEN, token_to_read=True), None)
    assert guard.refuse("GET", {"host": "localhost", "cookie": "a=b; \x00=;;"}) is not None
