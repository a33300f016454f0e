"""Which versions of Flower can connect to each other: a SuperNode of the wrong one retries for ever without a message.

Tried: 1.30 and 1.41 by themselves, a SuperLink 1.39 with SuperNodes 1.30. The transport between SuperNode and SuperLink
is gRPC up to 1.39 and HTTP from 1.40 on; 1.30 is the last for Python 3.10 (JetPack 6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OLDEST = (1, 30)
HTTP_FROM = (1, 40)


def version_problem(superlink: str | None, supernode: str | None, board: str = "the board") -> str | None:
    """Return why a SuperNode cannot work with a SuperLink, and what to do; None where it can."""
    for name, version in (("the SuperLink", superlink), (board, supernode)):
        if version is None:
            return f"{name} has no Flower; install it with: pip install 'edgetrain[federated]'"
        if _parts(version) < OLDEST:
            return f"{name} has Flower {version}; the oldest that was tried is {_spell(OLDEST)}: install that or later"
    assert superlink is not None and supernode is not None
    link_http, node_http = _parts(superlink) >= HTTP_FROM, _parts(supernode) >= HTTP_FROM
    if link_http and not node_http:
        return (
            f"{board} has Flower {supernode} (gRPC) and the SuperLink {superlink} (HTTP from 1.40 on): they never "
            "connect; use a SuperLink of 1.30 to 1.39, or Flower 1.40 or later on the board (Python 3.11 or later)"
        )
    if node_http and not link_http:
        return (
            f"{board} has Flower {supernode} (HTTP) and the SuperLink {superlink} (gRPC up to 1.39): they never "
            "connect; use a SuperLink of 1.40 or later, or Flower 1.30 to 1.39 on the board"
        )
    return None


def mixed_transports(boards: Mapping[str, str]) -> str | None:
    """Return why no SuperLink can serve all of these boards (name: version of Flower), and what to do."""
    new = sorted(name for name, version in boards.items() if _parts(version) >= HTTP_FROM)
    old = sorted(name for name in boards if name not in new)
    if not new or not old:
        return None
    return (
        f"no SuperLink serves both {old[0]} with Flower {boards[old[0]]} (gRPC) and {new[0]} with {boards[new[0]]} "
        "(HTTP from 1.40 on); install Flower 1.30 to 1.39 on all boards, or 1.40 or later (Python 3.11 or later)"
    )


def _parts(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _spell(parts: tuple[int, int]) -> str:
    return ".".join(str(part) for part in parts)
