"""Builds the command-line application from the table of commands, and turns every error into a message and an exit
status."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from edgetrain.cli.commands import COMMANDS, PANELS, Entry
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.version import __version__

# Newer Typer carries its own copy of click, so the class is found through what Typer exports.
_ClickException: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
COMPLETION = "_EDGETRAIN_COMPLETE"  # set by the shell when it asks for completions

ABOUT = """Measure where the time and energy of DNN training on an edge device go, predict both for settings that were
not tried, and choose the best setting within your limits.

Start with `edgetrain doctor`, then `edgetrain run mobilenet_v3 --workers 1`, then `edgetrain show last`.
"""


class _Printable(logging.Handler):
    """Prints warnings on stderr, with control characters removed: file and column names in them are foreign text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        from edgetrain.report import printable

        print(printable(record.getMessage()), file=sys.stderr)


class _PastTyper(Exception):
    """Carries an interrupt or a failed write past Typer, which would turn it into a status without a message."""

    def __init__(self, reason: KeyboardInterrupt | OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Commands(TyperGroup):
    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the arguments."""
        with _passing_typer():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _passing_typer():
            return super().invoke(ctx)


@contextlib.contextmanager
def _passing_typer() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, OSError) as reason:
        raise _PastTyper(reason) from None


def build(loaded: Sequence[Entry]) -> typer.Typer:
    """Return the application; the commands in `loaded` can be run, the others are listed only."""
    app = typer.Typer(
        cls=_Commands, help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )
    app.callback()(_main_options)
    modules = {entry.module for entry in loaded}
    for module in dict.fromkeys(entry.module for entry in COMMANDS):
        entries = [entry for entry in COMMANDS if entry.module == module]
        if module in modules:
            importlib.import_module(f"edgetrain.cli.{module}").register(app)
        else:
            for entry in entries:
                app.command(entry.name, help=entry.help, rich_help_panel=PANELS[entry.panel])(_listed_only)
    return app


def _listed_only() -> None:
    """Placeholder of a command in `--help`."""


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


def _main_options(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_version),
    json: bool = typer.Option(False, "--json", help="With --help: print every command and option as JSON."),
) -> None:
    """Options before the command."""
    if json:
        raise typer.BadParameter("write --json after the command, or together with --help")


def run_command(arguments: list[str]) -> int:
    """Run one command; return its exit status."""
    if arguments[:1] == ["compare"]:
        # Option parsers remove a bare `--`, which separates the two sides here.
        arguments = ["vs" if argument == "--" else argument for argument in arguments]
    if len(arguments) == 2 and set(arguments) == {"--help", "--json"}:
        from edgetrain.cli.help_document import command_list
        from edgetrain.report import emit

        emit(command_list(typer.main.get_command(build(COMMANDS))))
        return 0
    named = [entry for entry in COMMANDS if arguments[:1] == [entry.name]]
    loaded = COMMANDS if COMPLETION in os.environ else named
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(_Printable(logging.WARNING))
    command = typer.main.get_command(build(loaded))
    _refuse_not_finite(command)
    try:
        result = command.main(args=arguments, prog_name="edgetrain", standalone_mode=False)
        status = result if isinstance(result, int) else 0
        try:
            sys.stdout.flush()
        except OSError as error:
            failed = _failed_write(error)
            return status or failed  # a profiled script keeps its own status
        return status
    except EdgetrainError as error:
        from edgetrain.report import printable  # the message may contain foreign file names

        print(f"edgetrain: {printable(str(error))}", file=sys.stderr)
        return error.exit_status
    except typer.Exit as leaving:
        return leaving.exit_code
    except _ClickException as error:
        from edgetrain.report import printable

        message = io.StringIO()
        error.show(message)  # type: ignore[attr-defined]  # ClickException, by whichever click Typer uses
        print(printable(message.getvalue()), file=sys.stderr, end="")
        return 2
    except _PastTyper as passed:
        if isinstance(passed.reason, OSError):
            return _failed_write(passed.reason)
        raise passed.reason from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    except OSError as error:
        return _failed_write(error)


def _refuse_not_finite(command: Any) -> None:
    """Make each option of a command, and of those below it, refuse infinity and NaN, which pass any range check."""
    for below in getattr(command, "commands", {}).values():
        _refuse_not_finite(below)
    for parameter in command.params:
        if parameter.callback is None:
            parameter.callback = _finite


def _finite(_: Any, parameter: Any, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{parameter.opts[0]} is {value}; write a finite number")
    return value


def _failed_write(error: OSError) -> int:
    """Return the status after an error of the system that no command expects: stdout is full, or its reader gone."""
    if error.filename is None:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered for stdout must not fail at the end
    if isinstance(error, BrokenPipeError):
        return 0  # the reader has seen enough (`| head`)
    from edgetrain.report import printable

    what = f"{error.filename}: " if error.filename else "cannot write the output: "
    print(f"edgetrain: {printable(what + (error.strerror or str(error)))}", file=sys.stderr)
    return 1
