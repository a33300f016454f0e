"""Training as it happens: a page in the browser and a view in the terminal, both from the records of a store.

`serve` runs the server, `show_top` the terminal view; `Watcher` reads what is going on. Nothing here measures: what
the runner and the sampler have written is read, so that looking costs the training as little as reading a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.live.application import ServerOptions, ServerPages, WhatIfPoint, build_application
    from edgetrain.live.guard import AccessRules
    from edgetrain.live.server import listen_on, new_token, serve
    from edgetrain.live.terminal import live_table, show_top
    from edgetrain.live.watching import Watcher

__all__ = [
    "AccessRules",
    "ServerOptions",
    "ServerPages",
    "Watcher",
    "WhatIfPoint",
    "build_application",
    "listen_on",
    "live_table",
    "new_token",
    "serve",
    "show_top",
]

_MODULES = {
    "application": ("ServerOptions", "ServerPages", "WhatIfPoint", "build_application"),
    "guard": ("AccessRules",),
    "server": ("listen_on", "new_token", "serve"),
    "terminal": ("live_table", "show_top"),
    "watching": ("Watcher",),
}

if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
