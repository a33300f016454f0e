"""Who may ask the server for what: Host header, token, same origin for anything that changes something.

A page of another site that is open in the same browser can send requests to a loopback server. It cannot choose the
Host header (checked against names of this server, which also stops DNS rebinding), cannot read answers, and its POSTs
carry its own Origin.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
COOKIE = "edgetrain_token"
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`token_to_read`: the server can be reached from elsewhere, so that looking needs the token too."""

    hosts: tuple[str, ...]  # names by which it may be asked, without the port
    token: str
    token_to_read: bool = False
    control: bool = False


def bare_host(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


class AccessGuard:
    """An ASGI application in front of another one; `close` ends answers that have no end of their own."""

    def __init__(self, inner: Application, rules: AccessRules, close: Callable[[], Awaitable[None]]) -> None:
        self._inner, self._rules, self.close = inner, rules, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self.refuse(scope["method"], headers, scope.get("query_string", b""))
        if refused is not None:
            await _answer(send, *refused)
            return
        granted = self._rules.token_to_read and self._given(headers, scope.get("query_string", b"")) == "query"

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                more = list(HEADERS)
                if granted:  # the address with the token was opened once: later requests carry a cookie
                    cookie = f"{COOKIE}={self._rules.token}; HttpOnly; SameSite=Strict; Path=/"
                    more.append((b"set-cookie", cookie.encode("latin-1")))
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._inner(scope, receive, sending)

    def refuse(self, method: str, headers: MutableMapping[str, str], query: bytes = b"") -> tuple[int, str] | None:
        """Return the status and the reason of a refusal; None: the request may pass."""
        host = headers.get("host", "")
        if bare_host(host) not in self._rules.hosts:
            return 421, f"this server does not answer for the host {host[:80]!r}; see edgetrain serve --allow-host"
        if method in ("GET", "HEAD"):
            if self._rules.token_to_read and self._given(headers, query) is None:
                return 401, "a token is needed; open the address that edgetrain serve printed"
            return None
        if method != "POST":
            return 405, f"the method {method} is not supported"
        if not self._rules.control:
            return 403, "this server is read-only; start it with --control to allow changes"
        if headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            return 403, "only the pages of this server may change something"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "only the pages of this server may change something"
        if self._bearer(headers) is None:
            return 401, "a token is needed to change something"
        return None

    def _given(self, headers: MutableMapping[str, str], query: bytes) -> str | None:
        """Return where a valid token was given: header, cookie or query; None where nowhere."""
        if self._bearer(headers):
            return "header"
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and self._equal(cookie.value):
            return "cookie"
        asked = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        return "query" if self._equal(asked) else None

    def _bearer(self, headers: MutableMapping[str, str]) -> str | None:
        kind, _, value = headers.get("authorization", "").partition(" ")
        return "header" if kind.lower() == "bearer" and self._equal(value.strip()) else None

    def _equal(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._rules.token.encode())


async def _answer(send: Send, status: int, reason: str) -> None:
    body = reason.encode()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(body)).encode()),
                *HEADERS,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
