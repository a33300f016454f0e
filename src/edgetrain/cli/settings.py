"""Command-line options made of the declared settings: each field of an experiment is an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from edgetrain.schema import POWER_MODE, SECTIONS, Declared, Scalar, settings_of

Settings = Mapping[str, Scalar]  # values by setting name, as the command line gave them


def all_options() -> tuple[Declared, ...]:
    """Return every setting that a command may offer, in the order of `--help`."""
    return (*(declared for kind in SECTIONS for declared in settings_of(kind)), POWER_MODE)


def command_settings() -> tuple[str, ...]:
    """Return the names of the settings that apply to a user's own command."""
    return tuple(declared.name for declared in all_options() if declared.about.for_commands)


def options_named(*names: str, **helps: str) -> tuple[Declared, ...]:
    """Return some settings by name; `helps` are help texts of this command that replace those of the settings."""
    known = {declared.name: declared for declared in all_options()}
    return tuple(_with_help(known[name], helps.get(name)) for name in names)


def _with_help(declared: Declared, text: str | None) -> Declared:
    return declared if text is None else replace(declared, about=replace(declared.about, help=text))


def with_settings(declared: Iterable[Declared]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of these settings; it receives their values as `settings`."""
    chosen = tuple(declared)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        parameters = [each for name, each in own.parameters.items() if name != "settings"]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        cut = next((at for at, each in enumerate(parameters) if _is_option(each)), len(parameters))
        parameters[cut:cut] = [_parameter(one) for one in chosen]

        def wrapper(**given: Any) -> Any:
            settings = {one.name: given.pop(one.name) for one in chosen}
            return command(settings=settings, **given)

        wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
        wrapper.__module__ = command.__module__
        wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def given_settings(context: typer.Context, settings: Settings) -> Settings:
    """Return the settings that the command line names, without those left at their defaults."""
    named = {}
    for name, value in settings.items():
        source = context.get_parameter_source(name)
        if source is not None and not source.name.startswith("DEFAULT"):
            named[name] = value
    return named


def _is_option(parameter: inspect.Parameter) -> bool:
    """Whether a parameter of a command is an option, not an argument."""
    extras = getattr(parameter.annotation, "__metadata__", ())
    return not any(isinstance(extra, typer.models.ArgumentInfo) for extra in extras)


def _parameter(declared: Declared) -> inspect.Parameter:
    """Return the typer option of one setting."""
    about = declared.about
    metavar = f"[{'|'.join(about.choices)}]" if about.choices else None
    names = [declared.option]
    if declared.kind is bool:
        names = [f"{declared.option}/--no-{declared.option[2:]}"]
    option = typer.Option(
        *names,
        help=about.help,
        rich_help_panel=about.panel,
        metavar=metavar,
        show_default=declared.default is not None,
    )
    kind: Any = declared.kind | None if declared.optional else declared.kind
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=declared.default, annotation=Annotated[kind, option]
    )
