"""Which commands may run in trials: those that can be watched from their start on, and ended with all they start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import UsageError
from edgetrain.inside import ignoring_option, is_python
from edgetrain.runner.containers import WRAPPERS, starts_elsewhere

OTHER_USER = ("sudo", "doas", "su", "runuser", "pkexec")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "csh", "tcsh", "fish", "busybox")
BUILDERS = ("make", "gmake", "just", "ninja")
DETACHES = ("setsid", "daemonize", "start-stop-daemon")
ENV_WITH_VALUE = ("-u", "--unset", "-C", "--chdir", "-S", "--split-string")
ENV_EMPTY = re.compile(r"^(-|-[0v]*i.*|--ignore-environment)$")
PYTHON_PATH = "PYTHONPATH"
FIRST_LINES_BYTES = 512
SHIMS = "shims"  # folder of pyenv's shell scripts, each of which executes a Python or a Python script


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that a command starts: its place among the words, and what runs it where it is a script."""

    place: int
    name: str
    interpreter: tuple[str, ...] = ()  # from its first line


def check_trial_command(command: Sequence[str], allow_writes: bool) -> None:
    """Refuse a command whose trials could not be measured, ended, or kept from changing files."""
    elsewhere = starts_elsewhere(command)
    if elsewhere is not None:
        raise UsageError(
            f"a command that trains in a container or on another machine ({elsewhere}) cannot be tuned from outside: a "
            "trial must be ended with everything it started; run edgetrain tune there"
        )
    for program in programs_of(command):
        _check_program(command, program, allow_writes)


def writable_folders(folders: Iterable[Path | str]) -> tuple[str, ...]:
    """Return the whole names of folders in which trials may write."""
    found = []
    for folder in folders:
        path = Path(os.path.abspath(Path(folder).expanduser()))
        if path.exists() and not path.is_dir():
            raise UsageError(f"--allow-writes-in takes a folder, and {path} is a file; name the folder it is in")
        found.append(str(path))
    return tuple(found)


def unwatched_program(command: Sequence[str]) -> str | None:
    """Return the name of the program that a command starts if it is not a Python: the files it writes are not seen."""
    last = programs_of(command)[-1]
    watched = is_python(command[last.place]) or (last.interpreter and is_python(last.interpreter[0]))
    return None if watched or last.name in WRAPPERS else last.name


def programs_of(command: Sequence[str]) -> list[StartedProgram]:
    """Return the programs that a command starts one after the other: wrappers (`nice`, `env`), then the last one."""
    found = [_program(command, 0)]
    while found[-1].name in (*WRAPPERS, *OTHER_USER, *DETACHES):
        place = _next_program(command, found[-1])
        if place is None:
            break
        found.append(_program(command, place))
    return found


def _check_program(command: Sequence[str], program: StartedProgram, allow_writes: bool) -> None:
    words = command[program.place :]
    ran_by = (*program.interpreter, *words)
    if program.name in OTHER_USER:
        rest = _from_python(words)
        raise UsageError(
            f"a trial cannot be measured or ended below {program.name}: it drops edgetrain's {PYTHON_PATH}, and its "
            f"processes are another user's; give edgetrain itself those rights: sudo edgetrain tune -- {rest}"
        )
    if program.name in DETACHES:
        raise UsageError(
            f"a training that {program.name} starts cannot be ended with the trial; leave {program.name} out: "
            f"edgetrain tune -- {_from_python(words)}"
        )
    if program.name == "env":
        _check_env(words)
    if is_python(ran_by[0]):
        option = ignoring_option(ran_by)
        if option is not None:
            raise UsageError(
                f"{program.name} is started with {option}, which keeps the recorder out of it: nothing would be "
                f"measured and its files would not be protected; leave {option} out in trials"
            )
    elif (Path(ran_by[0]).name in (*SHELLS, *BUILDERS)) and not allow_writes:
        raise UsageError(
            f"the files that {Path(ran_by[0]).name} and the programs it starts write cannot be protected; give the "
            f"Python command itself ({_from_python(words, 'python train.py')}), or --allow-writes if each trial may "
            "do all that this command does"
        )


def _check_env(words: Sequence[str]) -> None:
    """Refuse an `env` that takes the recorder's path away."""
    for place in range(1, _after_env(words, 0)):
        word, before = words[place], words[place - 1]
        unset = word in ("-uPYTHONPATH", "--unset=PYTHONPATH") or (word == PYTHON_PATH and before in ("-u", "--unset"))
        if unset or ENV_EMPTY.match(word):
            raise UsageError(
                f"env {word} takes away edgetrain's {PYTHON_PATH}, so the recorder could not be loaded; leave it out "
                "in trials"
            )
        if word.startswith(f"{PYTHON_PATH}="):
            raise UsageError(
                f"env {word} replaces edgetrain's {PYTHON_PATH}, so the recorder could not be loaded; write "
                f"{word} edgetrain tune -- …, which keeps both"
            )


def _program(command: Sequence[str], place: int) -> StartedProgram:
    return StartedProgram(place, Path(command[place]).name, _interpreter(command[place]))


def _next_program(command: Sequence[str], program: StartedProgram) -> int | None:
    """Return the place of the program that a wrapper starts: the first word after its options that names one."""
    if program.name == "env":
        place = _after_env(command, program.place)
        return place if place < len(command) else None
    for place in range(program.place + 1, len(command)):
        word = command[place]
        if not word.startswith("-") and (is_python(word) or shutil.which(word) is not None):
            return place
    return None


def _after_env(words: Sequence[str], place: int) -> int:
    """Return the place after the options and assignments of an `env` at this place."""
    place += 1
    while place < len(words):
        if words[place] in ENV_WITH_VALUE:
            place += 2
        elif words[place].startswith("-") or "=" in words[place]:
            place += 1
        else:
            break
    return min(place, len(words))


def _interpreter(program: str) -> tuple[str, ...]:
    """Return what runs a script, and its options, by the script's first line; empty for a Python and other binaries."""
    path = shutil.which(program)
    if path is None or is_python(program):
        return ()
    if Path(path).parent.name == SHIMS:
        return ("python",)
    try:
        with open(path, "rb") as file:
            lines = file.read(FIRST_LINES_BYTES).split(b"\n")
    except OSError:
        return ()
    if not lines[0].startswith(b"#!"):
        return ()
    if lines[1:] and lines[1].startswith(b"'''exec'"):
        return ("python",)  # too long for a first line: a shell starts it, in words that Python reads as a text
    words = [os.fsdecode(word) for word in lines[0][2:].split()]
    if words and Path(words[0]).name == "env":
        words = words[_after_env(["env", *(word for word in words[1:] if word != "-S")], 0) + ("-S" in words) :]
    return tuple(words)


def _from_python(words: Iterable[str], otherwise: str = "python train.py") -> str:
    """Return the command from its Python on, as one would type it."""
    left = list(words)
    while left and not is_python(left[0]):
        left.pop(0)
    return shlex.join(left) or otherwise
