"""Hosts are reached by plain ssh that asks nobody, checks host keys and takes no name for an option."""

import pytest

from edgetrain.errors import FleetError
from edgetrain.fleet import FleetBoard, FleetInventory
from edgetrain.fleet.agent import ProcessStart
from edgetrain.fleet.hosts import SshHost, ThisHost, explain, login, spell_command, ssh_command


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


def test_what_to_do_by_hand_is_spelled_with_the_keys_and_the_port_of_the_inventory():
    board = FleetBoard("a", "nano", address="10.0.0.2", user="ubuntu", ssh_port=2222)
    by_hand = login(inventory(board, identity="~/key", known_hosts="hosts"), board)
    assert by_hand == "-i ~/key -o UserKnownHostsFile=hosts -p 2222 ubuntu@10.0.0.2"
    text = explain(255, "Host key verification failed.\n", ["python3"], by_hand)
    assert text.endswith(f"ssh {by_hand}")


def test_a_home_folder_is_that_of_the_other_machine():
    assert spell_command(["~/my venv/bin/python", "-m", "x y"]) == "\"$HOME\"/'my venv/bin/python' -m 'x y'"
    assert spell_command(["/opt/py thon"]) == "'/opt/py thon'"


def test_what_goes_wrong_on_this_machine_is_named_with_its_board(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match="a: Not a directory") as caught:
        ThisHost().start(ProcessStart(str(tmp_path / "file"), "a", (), ""))
    assert caught.value.host == "a"


def test_a_host_that_cannot_be_reached_is_named_with_its_address():
    board = FleetBoard("far", "nano", address="127.0.0.1", ssh_port=1)
    with pytest.raises(FleetError, match=r"far \(127.0.0.1\)") as caught:
        SshHost(inventory(board), board).facts(None)
    assert caught.value.host == "far"
