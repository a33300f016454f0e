"""A `docker run` command gets the hook's mounts and variables; every other command stays as it is."""

from pathlib import Path

import pytest

from edgetrain.runner.containers import run_position, starts_elsewhere, with_hook

HOOK, RUN = Path("/opt/edgetrain/inside"), Path("/data/runs/r1")
ENVIRONMENT = {"EDGETRAIN_RUN": "/data/runs/r1", "EDGETRAIN_TIMING": "async", "EDGETRAIN_HOOK": str(HOOK), "HOME": "/"}
MOUNTS = ["--volume", f"{HOOK}:{HOOK}:ro", "--volume", f"{RUN}:{RUN}"]
VARIABLES = [
    "--env", "EDGETRAIN_RUN=/data/runs/r1", "--env", "EDGETRAIN_TIMING=async", "--env", f"EDGETRAIN_HOOK={HOOK}",
]  # fmt: skip


def added(command: str) -> list[str]:
    return with_hook(command.split(), HOOK, RUN, ENVIRONMENT)


@pytest.mark.parametrize(
    "start",
    [
        "docker run",
        "sudo docker run",
        "/usr/bin/podman run",
        "docker --context board run",
        "docker container run",
        "sudo -u me -E docker run",
        "nice -n 5 docker run",
        "timeout 600 taskset -c 0 docker run",
        "env A=1 docker run",
    ],
)
def test_mounts_and_variables_come_right_after_run(start):
    rest = ["--rm", "--runtime", "nvidia", "image", "python", "train.py"]
    path = ["--env", f"PYTHONPATH={HOOK}/site"]
    assert added(" ".join([start, *rest])) == [*start.split(), *MOUNTS, *path, *VARIABLES, *rest]


@pytest.mark.parametrize("option", ["-e PYTHONPATH=/mine", "--env PYTHONPATH=/mine", "--env=PYTHONPATH=/mine"])
def test_a_python_path_of_the_users_own_is_kept_behind_ours(option):
    found = added(f"docker run {option} image python train.py")
    assert sum("PYTHONPATH" in word for word in found) == 1
    assert any(word.endswith(f"PYTHONPATH={HOOK}/site:/mine") for word in found)


@pytest.mark.parametrize(
    "command",
    [
        "python docker.py run",
        "docker ps",
        "docker exec box python train.py",
        "python train.py",
        "echo docker run x",
        "sudo python train.py",
        "python train.py docker run",
    ],
)
def test_other_commands_stay_as_they_are(command):
    assert run_position(command.split()) is None
    assert added(command) == command.split()


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("docker run image python train.py", "docker"),
        ("docker exec box python train.py", "docker"),
        ("sudo -u me podman start box", "podman"),
        ("ssh board python train.py", "ssh"),
        ("srun -N 1 python train.py", "srun"),
        ("python train.py --host ssh", None),
        ("nice python docker.py", None),
        ("bash train.sh", None),
    ],
)
def test_commands_that_train_in_a_container_or_on_another_machine_are_named(command, program):
    assert starts_elsewhere(command.split()) == program
