"""Hosts are reached by plain ssh that asks nobody, checks host keys and takes no name for an option."""

import pytest

from edgetrain.errors import FleetError
from edgetrain.fleet import FleetBoard, FleetInventory
from edgetrain.fleet.hosts import SshHost, explain, ssh_command


def inventory(board, **more):
    return FleetInventory("lab", (board,), "10.0.0.1", **more)


def test_ssh_checks_host_keys_asks_nobody_and_ends_its_options_before_the_address():
    board = FleetBoard("a", "nano", address="10.0.0.2", user="ubuntu", ssh_port=2222)
    words = ssh_command(inventory(board, identity="/k", known_hosts="/h"), board)
    assert words[-2:] == ["--", "10.0.0.2"] and words[words.index("-l") + 1] == "ubuntu"
    assert {"StrictHostKeyChecking=yes", "BatchMode=yes", "UserKnownHostsFile=/h"} <= set(words)
    assert words[words.index("-p") + 1] == "2222" and words[words.index("-i") + 1] == "/k"


@pytest.mark.parametrize("more", [{"address": "-oProxyCommand=x"}, {"address": "a", "user": "-F/x"}])
def test_a_name_that_begins_with_a_dash_is_refused(more):
    board = FleetBoard("a", "nano", **more)
    with pytest.raises(FleetError, match="refused"):
        ssh_command(inventory(board), board)


@pytest.mark.parametrize(
    ("status", "errors", "words"),
    [
        (255, "ssh: connect to host 10.0.0.2 port 22: No route to host\n", "cannot be reached by ssh"),
        (255, "No ED25519 host key is known for 10.0.0.2\nHost key verification failed.\n", "host key is not known"),
        (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "has changed"),
        (255, "root@10.0.0.2: Permission denied (publickey).\n", "check user and key"),
        (127, "bash: line 1: python9: command not found\n", "there is no python9"),
        (1, "/usr/bin/python3: No module named edgetrain\n", "has no edgetrain"),
        (1, "edgetrain: the supervisor of a did not start\n", "the supervisor of a did not start"),
    ],
)
def test_a_failed_ssh_is_explained(status, errors, words):
    assert words in explain(status, errors, ["python9"])


def test_a_host_that_cannot_be_reached_is_named_with_its_address():
    board = FleetBoard("far", "nano", address="127.0.0.1", ssh_port=1)
    with pytest.raises(FleetError, match=r"far \(127.0.0.1\)") as caught:
        SshHost(inventory(board), board).facts(None)  # type: ignore[arg-type]
    assert caught.value.host == "far"
