"""Option groups: a command whose options are fields of dataclasses, one dataclass per group.

    @dataclass(frozen=True)
    class Limits: max_power_w: Annotated[str | None, typer.Option(help="…")] = None

    app.command("recommend")(with_groups(recommend))      # def recommend(limits: Limits, json: JsonOption = False)

The user sees one option per field; the function receives the dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with every parameter that is a dataclass replaced by the fields of that dataclass."""
    hints = typing.get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += _options_of(kind)
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        for name, kind in groups.items():
            fields = [field.name for field in dataclasses.fields(kind)]
            given[name] = kind(**{field: given.pop(field) for field in fields})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options_of(kind: type[Any]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(kind)
    ]
