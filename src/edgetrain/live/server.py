"""Runs the web application with uvicorn: on loopback by default, with a token for everything else."""

from __future__ import annotations

import errno
import secrets
import socket

import uvicorn

from edgetrain.errors import UsageError
from edgetrain.live.guard import Application

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


def serve(application: Application, listening: socket.socket) -> None:
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
    uvicorn.Server(config).run(sockets=[listening])
