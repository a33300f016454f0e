"""Reads arguments, calls one room, hands the answer to `report`; one file per verb.

A verb is a module in this folder that has `PANEL` (the group `--help` shows it in), `ORDER` (its place there) and
`register(app)`. It appears by being there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

import typer

from edgetrain import __version__
from edgetrain.errors import EdgetrainError

# Newer Typer carries its own copy of click, so the class is found through what Typer exports.
_WrongUsage: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

PANELS = ("measure", "lab", "boards", "explain", "predict", "decide", "show")

ABOUT = """Where the seconds and the joules of DNN training on an edge device go, predicted for any setting you have
not tried, and the setting picked for you.

Start with `edgetrain doctor`, then `edgetrain run mobilenet_v3 --workers 1`, then `edgetrain show last`.
"""


def build(only: str | None = None) -> typer.Typer:
    """Return the application with every verb that exists, or with one: loading all of them takes half a second."""
    app = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(_whole)
    names = [name for _, name, _ in pkgutil.iter_modules(__path__)]
    named = [name for name in names if only is not None and name.rstrip("_").replace("_", "-") == only]
    verbs = [importlib.import_module(f"{__name__}.{name}") for name in named or names]
    verbs = [verb for verb in verbs if hasattr(verb, "register")]
    if not verbs:
        return build()
    for verb in sorted(verbs, key=lambda verb: (PANELS.index(verb.PANEL), verb.ORDER)):
        verb.register(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


def _whole(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_version),
) -> None:
    """What stands before the verb."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 the thing asked about failed, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["compare"]:
        # Option parsers swallow a bare `--`, which here stands between the two sides.
        arguments = ["vs" if argument == "--" else argument for argument in arguments]
    command = typer.main.get_command(build(arguments[0] if arguments else None))
    status = 0
    try:
        result = command.main(args=arguments, prog_name="edgetrain", standalone_mode=False)
        status = result if isinstance(result, int) else 0
    except EdgetrainError as error:
        print(f"edgetrain: {error}", file=sys.stderr)
        status = error.exit_status
    except typer.Exit as leaving:
        status = leaving.exit_code
    except _WrongUsage as error:
        error.show()  # type: ignore[attr-defined]  # ClickException, by whichever click Typer uses
        status = 2
    except (typer.Abort, KeyboardInterrupt):
        print("edgetrain: interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error of ours.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if argv is None:
        sys.exit(status)
    return status
