"""Runs the web application with uvicorn: on loopback by default, with a token for everything else."""

from __future__ import annotations

import errno
import secrets
import socket

import uvicorn

from edgetrain.errors import UsageError
from edgetrain.live.guard import AccessGuard

BACKLOG = 512  # connections that wait to be taken


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens; say what to do where that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)  # before the address is printed: a browser that is quick is not refused
    except (OSError, OverflowError) as error:
        found.close()
        code = error.errno if isinstance(error, OSError) else None
        if code == errno.EADDRINUSE:
            raise UsageError(f"port {port} of {host} is in use; choose another with --port, or --port 0") from error
        if code == errno.EACCES:
            raise UsageError(f"this user may not listen on port {port}; choose one above 1023 with --port") from error
        raise UsageError(f"cannot listen on {host} port {port}: {error}") from error
    return found


class _Server(uvicorn.Server):  # type: ignore[misc]  # an extra, whose types are not read
    """Ends the events of open pages before it waits for connections to end: they have no end of their own."""

    def __init__(self, config: uvicorn.Config, application: AccessGuard) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the application's streams, then everything else."""
        await self._application.close()
        await super().shutdown(sockets)


def serve(application: AccessGuard, listening: socket.socket) -> None:
    """Answer requests until the process is told to stop."""
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        limit_concurrency=400,
        h11_max_incomplete_event_size=16_384,
    )
    _Server(config, application).run(sockets=[listening])
