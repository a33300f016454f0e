"""Where a scheduler may listen, and a board with another edgetrain, which must get no experiments."""

import socket
from dataclasses import replace

import pytest

from edgetrain.errors import FleetError, UsageError
from edgetrain.fleet import Fleet, FleetBoard, FleetInventory, local_inventory
from edgetrain.fleet.agent import ProcessIds

FAR = FleetBoard("far", "nano", address="10.0.0.2")


def listening(folder, listen, port=0, boards=()):
    return Fleet(replace(local_inventory(), listen=listen, port=port, boards=boards), folder)


@pytest.mark.parametrize(
    ("listen", "boards", "words"),
    [
        ("0.0.0.0", (FAR,), "every address of this machine"),
        ("::", (FAR,), "every address of this machine"),
        ("127.0.0.1", (FAR,), "boards with an address cannot reach a scheduler on 127.0.0.1"),
        ("192.0.2.1", (FAR,), "cannot listen on 192.0.2.1 port 0"),
        ("no-such-name.invalid", (FAR,), "name an address that this machine has"),
    ],
)
def test_an_address_on_which_boards_cannot_reach_the_scheduler_is_refused(tmp_path, listen, boards, words):
    assert words in listening(tmp_path, listen, boards=boards).listen_problem()


def test_a_port_that_another_program_has_is_named_before_anything_starts(tmp_path):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as other:
        fleet = listening(tmp_path, "127.0.0.1", other.getsockname()[1])
        with pytest.raises(UsageError, match="another program listens there; stop it, or give the fleet local its own"):
            fleet.up()
    assert fleet.listen_problem() is None and not fleet.pids()


def test_an_ipv6_address_is_spelled_in_brackets(tmp_path):
    fleet = listening(tmp_path, "::1", 8786)
    assert fleet.address == "tls://[::1]:8786"
    words = fleet.scheduler_start().arguments
    assert words[words.index("--host") + 1] == "[::1]" and words[words.index("--port") + 1] == "8786"


class OldHost:
    """A machine with another edgetrain."""

    def __init__(self):
        self.running = []

    def start(self, asked):
        self.running.append(asked.name)
        return ProcessIds(1, 2, "0.0.1")

    def stop(self, asked):
        self.running.remove(asked.name)


class OldFleet(Fleet):
    host = OldHost()

    def host_of(self, board):
        return self.host


def test_a_board_with_another_version_is_named_and_its_worker_does_not_stay(tmp_path):
    pytest.importorskip("cryptography")
    fleet = OldFleet(FleetInventory("lab", (FAR,), "10.0.0.1"), tmp_path)
    with pytest.raises(FleetError, match=r"far has edgetrain 0.0.1, this machine .*; install the same version there"):
        fleet.start_board(FAR)
    assert fleet.host.running == []
