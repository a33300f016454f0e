"""Every command that the documents and the help show is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from edgetrain.cli.app import build

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
APPLICATION = typer.main.get_command(build())


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
    if words[:1] == ["profile"]:
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
        missing = type(error).__name__ in ("MissingParameter", "BadOptionUsage")
        wrong_value = type(error).__name__ == "BadParameter"
        return None if missing or (wrong_value and placeholder) else f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_a_document_shows_is_understood(document):
    wrong = {command: why for command in shown(document.read_text()) if (why := refuse(command))}
    assert not wrong


def test_commands_are_found_in_documents_and_wrong_ones_are_refused():
    assert len({command for document in DOCUMENTS for command in shown(document.read_text())}) > 30
    text = "`edgetrain nosuch` and\n\n    edgetrain run lenet5 --speed 3    faster\n"
    text += "    $ edgetrain run lenet5 --workers two\n"
    assert len([command for command in shown(text) if refuse(command)]) == 3


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
