"""Which Python loads the recorder, and which programs that a script starts are not watched by it."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Sequence

PYTHON = re.compile(r"^(python|pypy)[0-9.]*[a-z]*$")
# Options of Python that make it ignore PYTHONPATH, or sitecustomize.
IGNORE_PYTHONPATH = "EIS"
TAKE_VALUE, END_OPTIONS = "WX", "cm"
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
OPERATORS = re.compile(r"[;&|<>$`(\n]")
# Programs that libraries start to ask the machine something; they change no file.
ONLY_READ = ("uname", "ldconfig", "getconf", "lscpu", "nproc", "nvidia-smi", "objdump", "lsb_release", "hostname")


def is_python(word: str) -> bool:
    """Return whether a program is a Python, by its name."""
    return PYTHON.match(os.path.basename(word)) is not None


def ignoring_option(words: Sequence[str]) -> str | None:
    """Return the option of a Python command (`-I`) that keeps the recorder from being loaded; None without one."""
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "--"):
        word = words[place]
        if word.startswith("--"):
            place += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for position, letter in enumerate(word[1:], 2):
            if letter in IGNORE_PYTHONPATH:
                return "-" + letter
            if letter in END_OPTIONS:
                return None
            if letter in TAKE_VALUE:
                place += position == len(word)  # else the value follows in the same word
                break
        place += 1
    return None


def has_recorder(python_path: str | None) -> bool:
    """Return whether a PYTHONPATH contains the folder from which the recorder is loaded."""
    ours = os.path.realpath(SITE)
    return any(os.path.realpath(entry) == ours for entry in (python_path or "").split(os.pathsep) if entry)


def unwatched(event: str, arguments: Sequence[Any]) -> str | None:
    """Return the name of the program that an audit event starts; None where the recorder is loaded into it.

    Files that such a program writes are not seen.
    """
    environment: Mapping[Any, str | bytes] | None = None
    if event == "os.system":
        words = ["sh", "-c", _text(arguments[0])]
    elif event == "subprocess.Popen":
        words = [_text(arguments[0])] + _texts(arguments[1])[1:]
        environment = arguments[3]
    elif event in ("os.exec", "os.posix_spawn"):
        words = [_text(arguments[0])] + _texts(arguments[1])[1:]
        environment = arguments[2]
    else:
        return None
    name = os.path.basename(words[0])
    if name in SHELLS and words[1:2] == ["-c"] and len(words) > 2:
        name = _in_shell(words[2]) or name
    if is_python(words[0]) and ignoring_option(words) is None and has_recorder(_python_path(environment)):
        return None
    return None if name in ONLY_READ or not name else name


def _in_shell(command: str) -> str | None:
    """Return the program of a shell command that is nothing but one program with arguments."""
    if OPERATORS.search(command):
        return None
    import shlex

    try:
        return os.path.basename(shlex.split(command)[0])
    except (ValueError, IndexError):
        return None


def _python_path(environment: Mapping[Any, str | bytes] | None) -> str | None:
    if environment is None:
        return os.environ.get("PYTHONPATH")
    for name, value in environment.items():
        if name in ("PYTHONPATH", b"PYTHONPATH"):
            return _text(value)
    return None


def _texts(words: Any) -> list[str]:
    return [_text(words)] if isinstance(words, (str, bytes, os.PathLike)) else [_text(word) for word in words]


def _text(word: Any) -> str:
    return os.fsdecode(word)
