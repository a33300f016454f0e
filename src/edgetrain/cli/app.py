"""The application: every verb of this folder in its panel, and each way to fail as a sentence and a status."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from edgetrain import __version__, cli
from edgetrain.errors import EdgetrainError

# Newer Typer carries its own copy of click, so the class is found through what Typer exports.
_WrongUsage: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

PANELS = ("measure", "lab", "boards", "explain", "predict", "decide", "show")

ABOUT = """Where the seconds and the joules of DNN training on an edge device go, predicted for any setting you have
not tried, and the setting picked for you.

Start with `edgetrain doctor`, then `edgetrain run mobilenet_v3 --workers 1`, then `edgetrain show last`.
"""


class _Stopped(Exception):
    """Carries an interrupt past Typer, which would turn it into a status without a word."""


class _Verbs(TyperGroup):
    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the arguments."""
        with _passing_typer():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        with _passing_typer():
            return super().invoke(ctx)


@contextlib.contextmanager
def _passing_typer() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise _Stopped(str(stopped)) from None


def build(only: str | None = None) -> typer.Typer:
    """Return the application with every verb that exists, or with one: loading all of them takes half a second."""
    app = typer.Typer(
        cls=_Verbs, help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )
    app.callback()(_whole)
    names = [name for _, name, _ in pkgutil.iter_modules(cli.__path__)]
    named = [name for name in names if only is not None and name.rstrip("_").replace("_", "-") == only]
    verbs = [importlib.import_module(f"{cli.__name__}.{name}") for name in named or names]
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


def run_verb(arguments: list[str]) -> int:
    """Run one command; return its exit status."""
    if arguments[:1] == ["compare"]:
        # Option parsers swallow a bare `--`, which here stands between the two sides.
        arguments = ["vs" if argument == "--" else argument for argument in arguments]
    command = typer.main.get_command(build(arguments[0] if arguments else None))
    try:
        result = command.main(args=arguments, prog_name="edgetrain", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except EdgetrainError as error:
        print(f"edgetrain: {error}", file=sys.stderr)
        return error.exit_status
    except typer.Exit as leaving:
        return leaving.exit_code
    except _WrongUsage as error:
        error.show()  # type: ignore[attr-defined]  # ClickException, by whichever click Typer uses
        return 2
    except (typer.Abort, _Stopped) as stopped:
        raise KeyboardInterrupt(str(stopped)) from None
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error of ours.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
