"""Every command that the documents and the help show is one that the command line takes."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from edgetrain import cli
from edgetrain.cli.app import build
from edgetrain.cli.commands import COMMANDS, PANELS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
APPLICATION = typer.main.get_command(build(COMMANDS))


def leaves(command, words=()):
    """Yield every verb and sub-verb with the words that call it."""
    subs = getattr(command, "commands", {})
    for name, sub in subs.items():
        yield from leaves(sub, (*words, name))
    if not subs:
        yield " ".join(words), command


def shown(text):
    """Return the commands in code spans and in lines of code, without what is said about them."""
    text = text.replace("\\\n", " ")
    spans = re.findall(r"`(edgetrain [^`]+)`", text)
    spans += re.findall(r"^(?: {4,}|\$ |> )(?:\$ )?(edgetrain [a-z].*)$", text, re.M)
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        spans += re.findall(r"^(?:\$ )?(edgetrain [a-z].*)$", block, re.M)
    for span in spans:
        if "──" in span:  # a drawing
            continue
        for command in span.replace("; edgetrain ", "\nedgetrain ").splitlines():
            yield re.split(r" {2,}| #|\s*[;|>&]\s| -- (?=/|python|CMD|sh )", command)[0].strip()


def refuse(command):
    """Return why the command line would not take this, or None. Nothing is run."""
    words = shlex.split(command)[1:]
    if words[:1] in (["profile"], ["tune"]) and ("--" in words or words[0] == "profile"):
        words = [*words[: words.index("--")], "a.py"] if "--" in words else [*words, "a.py"]
    if words[:1] == ["compare"]:
        words = ["vs" if word == "--" else word for word in words]
    found, path = APPLICATION, []
    while words and hasattr(found, "commands"):
        if words[0].startswith("-"):
            break
        if words[0] not in found.commands:
            return f"there is no {' '.join([*path, words[0]])}"
        path.append(words[0])
        found = found.commands[words.pop(0)]
    if hasattr(found, "commands") and not words:
        return None
    placeholder = any(re.fullmatch(r"…|[A-Z]+(:[A-Z]+)?", word) for word in words)
    try:
        found.make_context(" ".join(path), words)
    except Exception as error:
        # A span that only names a verb, or a verb and one option.
        missing = type(error).__name__ in ("MissingParameter", "BadOptionUsage", "Exit")  # Exit: --help
        wrong_value = type(error).__name__ == "BadParameter"
        return None if missing or (wrong_value and placeholder) else f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_a_document_shows_is_understood(document):
    wrong = {command: why for command in shown(document.read_text()) if (why := refuse(command))}
    assert not wrong


def test_commands_are_found_in_documents_and_wrong_ones_are_refused():
    assert len({command for document in DOCUMENTS for command in shown(document.read_text())}) > 30
    text = "`edgetrain nosuch` and\n\n    edgetrain run lenet5 --pace 3    faster\n"
    text += "    $ edgetrain run lenet5 --workers two\n"
    assert len([command for command in shown(text) if refuse(command)]) == 3


def test_the_readme_names_every_command():
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("## The map")[0]
    assert not [entry.name for entry in COMMANDS if not re.search(rf"`(?:edgetrain )?{entry.name}\b", table)]


def first_line(command):
    return command.help.splitlines()[0]


def test_the_table_of_commands_is_what_the_modules_say():
    by_name = {entry.name: entry for entry in COMMANDS}
    assert set(by_name) == set(APPLICATION.commands) and len(by_name) == len(COMMANDS)
    differ = {name for name, command in APPLICATION.commands.items() if first_line(command) != by_name[name].help}
    assert differ == set()
    assert {entry.panel for entry in COMMANDS} == set(PANELS)
    modules = [found.name for found in pkgutil.iter_modules(cli.__path__)]
    offered = {name for name in modules if hasattr(importlib.import_module(f"edgetrain.cli.{name}"), "register")}
    assert {entry.module for entry in COMMANDS} == offered


def test_help_lists_every_command_without_loading_any():
    code = "import sys; from edgetrain.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f" {entry.name} " in said.stdout for entry in COMMANDS)
    loaded = {name.removeprefix("edgetrain.") for name in said.stderr.split() if name.startswith("edgetrain.")}
    assert not {"api", "analysis", "runner", "record"} & loaded and "numpy" not in said.stderr.split()


def test_every_verb_says_what_it_answers_and_gives_an_example_that_is_understood():
    for name, command in leaves(APPLICATION):
        assert command.help, name
        examples = re.findall(r"Examples?:\s+(?:sudo )?(edgetrain .+)", command.help)
        assert examples, f"{name} shows no example"
        for example in examples:
            assert example.startswith(f"edgetrain {name}"), example
            assert refuse(example.split("  ")[0]) is None, example


def test_every_option_says_what_it_does():
    for name, command in leaves(APPLICATION):
        for option in command.params:
            assert getattr(option, "help", None), f"{name} {option.opts} has no help"
