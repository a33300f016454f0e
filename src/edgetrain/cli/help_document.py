"""`edgetrain --help --json`: every command with its options, for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgetrain.api import CommandHelp, CommandList, CommandOption, document_names
from edgetrain.cli.commands import COMMANDS, PANELS
from edgetrain.version import __version__


def command_list(application: Any) -> CommandList:
    """Return the commands of the application (with every module loaded)."""
    groups = {entry.name: PANELS[entry.panel].partition(":")[0].lower() for entry in COMMANDS}
    known = set(document_names())
    found = []
    for words, command in _leaves(application):
        options = tuple(_option(parameter) for parameter in command.params if "--help" not in parameter.opts)
        names = {name for option in options for name in option.names}
        text = " ".join((command.help or "").split("\n\n")[0].split())
        found.append(
            CommandHelp(
                words, groups[words.split()[0]], text, "--json" in names, words in known, "--dry-run" in names, options
            )
        )
    return CommandList(__version__, tuple(found))


def _leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from _leaves(one, (*words, name))
    if words and (not below or getattr(command, "invoke_without_command", False)):
        yield " ".join(words), command


def _option(parameter: Any) -> CommandOption:
    is_option = parameter.param_type_name == "option"
    default = parameter.default
    shown = default is not None and not callable(default) and "UNSET" not in repr(default)
    return CommandOption(
        (*parameter.opts, *parameter.secondary_opts) if is_option else (str(parameter.name),),
        "option" if is_option else "argument",
        _type(parameter),
        bool(parameter.required),
        bool(parameter.multiple or parameter.nargs == -1),
        str(default) if shown else None,
        str(getattr(parameter, "help", None) or ""),
    )


def _type(parameter: Any) -> str:
    """Return the type of a value in words; Typer 0.29 keeps it in another attribute than click does."""
    kind = getattr(parameter, "type", None)
    if kind is not None:
        return str(kind.name)
    return str(getattr(parameter.bare_type, "__name__", "text")).lower()
