"""edgetrain: where the seconds and the joules of DNN training on an edge device go.

    import edgetrain as et
    run = et.open_run("last")
    et.summarize(run).epochs[0].fetch_stall_s

Importing this package is cheap: a name is loaded when it is first used. `watch` and `cached` run inside the user's
training process and need nothing but the standard library and torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgetrain.version import __version__

if TYPE_CHECKING:
    from edgetrain.api import (
        Campaign,
        choose_device,
        compare,
        diagnose,
        evaluate,
        execute,
        export_run,
        findings,
        import_logs,
        open_run,
        plan_modes,
        plan_round,
        predict,
        predict_unit,
        profile,
        prune,
        recommend,
        remove_run,
        runs,
        sensitivity,
        summarize,
        tune,
        variability,
        whatif,
        write_report,
    )
    from edgetrain.inside.cache import cached
    from edgetrain.inside.watch import watch

_FROM_API = (
    "Campaign",
    "choose_device",
    "compare",
    "evaluate",
    "diagnose",
    "execute",
    "export_run",
    "findings",
    "import_logs",
    "open_run",
    "plan_modes",
    "plan_round",
    "predict",
    "predict_unit",
    "profile",
    "prune",
    "recommend",
    "remove_run",
    "runs",
    "sensitivity",
    "summarize",
    "whatif",
    "tune",
    "variability",
    "write_report",
)
__all__ = [
    "Campaign",
    "__version__",
    "cached",
    "choose_device",
    "compare",
    "diagnose",
    "evaluate",
    "execute",
    "export_run",
    "findings",
    "import_logs",
    "open_run",
    "plan_modes",
    "plan_round",
    "predict",
    "predict_unit",
    "profile",
    "prune",
    "recommend",
    "remove_run",
    "runs",
    "sensitivity",
    "summarize",
    "tune",
    "variability",
    "watch",
    "whatif",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "watch":
        from edgetrain.inside.watch import watch

        return watch
    if name == "cached":
        from edgetrain.inside.cache import cached

        return cached
    if name in _FROM_API:
        from edgetrain import api

        return getattr(api, name)
    raise AttributeError(f"module 'edgetrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
