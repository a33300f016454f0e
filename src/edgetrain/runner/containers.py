"""Makes the recording hook work in a container: adds mounts and variables to a `docker run` (podman, nerdctl) command.

On Jetsons torch is often used in containers. The hook's folder is mounted read-only and the run's folder writable, both
at the path they have outside, so that the runner finds what the hook writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

ENGINES = ("docker", "podman", "nerdctl")
# Programs that start another one, named after their own options.
WRAPPERS = (
    "sudo",
    "doas",
    "env",
    "nice",
    "nohup",
    "ionice",
    "chrt",
    "taskset",
    "numactl",
    "timeout",
    "time",
    "setsid",
    "stdbuf",
)
# Programs whose training is not among their own child processes: a container's daemon or another machine starts it.
STARTS_ELSEWHERE = (*ENGINES, "docker-compose", "kubectl", "ssh", "srun")
VARIABLES = (
    "EDGETRAIN_RUN", "EDGETRAIN_TIMING", "EDGETRAIN_HOOK", "EDGETRAIN_STRETCH", "EDGETRAIN_STEP_S", "EDGETRAIN_LOADER",
    "EDGETRAIN_LIST_WRITES",
)  # fmt: skip
# Options of the engine itself, before `run`, that take a value.
GLOBAL_WITH_VALUE = ("-H", "--host", "--context", "-c", "--config", "-l", "--log-level", "--url", "--namespace", "-n")


def run_position(command: Sequence[str]) -> int | None:
    """Return the position after `run` in a `docker run` command; None where the command is not one."""
    words = list(command)
    at = _program(words, ENGINES)
    if at is None:
        return None
    at += 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in GLOBAL_WITH_VALUE else 1
    if words[at : at + 2] == ["container", "run"]:
        return at + 2
    return at + 1 if words[at : at + 1] == ["run"] else None


def starts_elsewhere(command: Sequence[str]) -> str | None:
    """Return the program of a command that trains in a container or on another machine; None for any other command."""
    at = _program(command, STARTS_ELSEWHERE)
    return None if at is None else Path(command[at]).name


def _program(words: Sequence[str], among: Sequence[str]) -> int | None:
    """Return the position of one of these programs, at the start of a command or after programs that start others."""
    names = [Path(word).name for word in words]
    at = next((place for place, name in enumerate(names) if name in among), None)
    if at is None or (at and names[0] not in WRAPPERS and "=" not in words[0]):
        return None
    return at


def with_hook(command: Sequence[str], hook: Path, run: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command with mounts and variables added; unchanged where it starts no container."""
    words = list(command)
    at = run_position(words)
    if at is None:
        return words
    site = str(hook / "site")
    merged = _with_own_python_path(words, site)
    added = ["--volume", f"{hook}:{hook}:ro", "--volume", f"{run}:{run}"]
    if merged is None:
        added += ["--env", f"PYTHONPATH={site}"]
    for name in VARIABLES:
        if name in environment:
            added += ["--env", f"{name}={environment[name]}"]
    words = merged or words
    return [*words[:at], *added, *words[at:]]


def _with_own_python_path(words: Sequence[str], site: str) -> list[str] | None:
    """Put our folder in front of a PYTHONPATH that the command itself sets; None where it sets none."""
    found = list(words)
    for place, word in enumerate(found):
        for start in ("PYTHONPATH=", "--env=PYTHONPATH=", "-ePYTHONPATH="):
            if word.startswith(start) and (start != "PYTHONPATH=" or found[place - 1] in ("-e", "--env")):
                found[place] = f"{start}{site}:{word[len(start) :]}"
                return found
    return None
