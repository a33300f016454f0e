"""An inventory is read with every mistake named by its line."""

import pytest

from edgetrain.errors import BadTable, UsageError
from edgetrain.fleet import Fleet, local_inventory, read_inventory
from edgetrain.runner import Placement

GOOD = """name: lab
boards:
  - name: a
    device: sim:orin-nano?unit=1
    labels: [rack=1]
  - name: b
    board: nano
    address: 10.0.0.2
    user: ubuntu
    storage: {ssd: /mnt/ssd}
"""


def read(tmp_path, text):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return read_inventory(path)


def test_an_inventory_keeps_what_it_lists(tmp_path):
    fleet = read(tmp_path, GOOD)
    assert [one.name for one in fleet.boards] == ["a", "b"]
    assert fleet.board("a").board == "orin-nano" and fleet.board("a").simulated
    assert fleet.board("b").storage == {"ssd": "/mnt/ssd"} and fleet.board("b").user == "ubuntu"


@pytest.mark.parametrize(
    ("change", "line", "word"),
    [
        (("name: b", "name: a"), 6, "second board"),
        (("10.0.0.2", "-oProxyCommand=x"), 8, "refused"),
        (("user: ubuntu", "user: -l"), 9, "refused"),
        (("board: nano", "bord: nano"), 7, "no key"),
        (("name: lab", "name: -lab"), 1, "name"),
        (("sim:orin-nano?unit=1", "sim:orin-mini"), 4, "no simulated board"),
        (("name: lab", "name: lab\nlost_after_s: 1"), 2, "from 12 to 3600"),
        (("user: ubuntu", "worker_port: 99999"), 9, "from 0 to 65535"),
        (("user: ubuntu", "python: -c"), 9, "is a path"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, change, line, word):
    with pytest.raises(BadTable, match=word) as caught:
        read(tmp_path, GOOD.replace(*change))
    assert caught.value.line == line


def test_boards_are_chosen_by_kind_medium_unit_and_label(tmp_path):
    fleet = read(tmp_path, GOOD)
    assert [one.name for one in fleet.fitting(Placement(board="nano"))] == ["b"]
    assert [one.name for one in fleet.fitting(Placement(medium="ssd"))] == ["b"]
    assert [one.name for one in fleet.fitting(Placement(units=("a",)))] == ["a"]
    assert [one.name for one in fleet.fitting(Placement(label=("rack=1",)))] == ["a"]
    with pytest.raises(UsageError, match="no board"):
        fleet.fitting(Placement(board="orin-agx"))


def test_the_built_in_fleet_has_units_that_differ():
    devices = [one.device for one in local_inventory().boards]
    assert len(set(devices)) == len(devices) and all(device.startswith("sim:") for device in devices)


def test_two_boards_cannot_have_one_address_and_port(tmp_path):
    with pytest.raises(BadTable, match="same address"):
        read(tmp_path, GOOD + "  - {name: c, board: nano, address: 10.0.0.2}\n")


def test_boards_with_an_address_need_a_scheduler_that_they_can_reach(tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match="listen"):
        Fleet(read(tmp_path, GOOD), tmp_path).up()
