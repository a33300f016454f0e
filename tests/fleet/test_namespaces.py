"""Four hosts over SSH and TLS: a campaign, a refused client, nothing else that listens, one host cut off and back."""

import os
import socket
import ssl
import threading
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from edgetrain.api import campaign_on, fleet_doctor, fleet_down, fleet_status, fleet_up
from edgetrain.fleet import Fleet, FleetCampaign, read_inventory
from edgetrain.record import FolderStore
from edgetrain.runner import Placement, Plan
from tests.fleet import namespaces

REASON = namespaces.reason_not_here()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
SSH, WORKER = 22, 8788
# A board is lost after 12 s at the earliest: `python benchmarks/fleet.py --only hosts` runs these too.
slow = pytest.mark.skipif("EDGETRAIN_SLOW_TESTS" not in os.environ, reason="takes a minute; set EDGETRAIN_SLOW_TESTS")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with namespaces.namespace_hosts(tmp_path_factory.mktemp("hosts"), 4) as made:
        yield made


@pytest.fixture(scope="module")
def inventory(hosts):
    path = hosts.folder / "fleet.yaml"
    boards = "".join(
        f"  - {{name: nano-{at}, device: 'sim:nano?unit={at}', address: {host.address}, user: root}}\n"
        for at, host in enumerate(hosts.hosts, 1)
    )
    path.write_text(
        f"name: hosts\nlisten: {namespaces.HERE}\nport: 8786\nstate: {hosts.folder}/there\npython: {hosts.python}\n"
        f"identity: {hosts.identity}\nknown_hosts: {hosts.known_hosts}\nlost_after_s: 12\nboards:\n{boards}"
    )
    return read_inventory(path)


def plan(**more):
    return Plan("hosts", {"network": "lenet5", "epochs": 1, "minibatches": 8}, {"workers": [0, 1]}, **more)


def test_doctor_finds_every_host_fit_and_names_one_whose_key_is_unknown(hosts, inventory, tmp_path):
    found = fleet_doctor(inventory, tmp_path)
    assert found.healthy, [check.problems for check in found.checks]
    assert all(abs(check.clock_ahead_s) <= check.clock_plus_minus_s + 0.5 for check in found.checks)
    empty = hosts.folder / "no_known_hosts"
    empty.touch()
    strangers = type(inventory)(
        inventory.name, inventory.boards, inventory.listen, inventory.port, inventory.state, inventory.python,
        inventory.identity, str(empty),
    )  # fmt: skip
    assert all("host key is not known" in check.problems[0] for check in fleet_doctor(strangers, tmp_path).checks)


def test_a_fleet_over_tls_listens_where_the_inventory_says_and_refuses_strangers(hosts, inventory, tmp_path):
    before = namespaces.listening()
    status = fleet_up(inventory, tmp_path)
    try:
        assert all(row.running for row in status.rows)
        result = campaign_on(plan(repeats=2), inventory, tmp_path / "store", home=tmp_path)
        assert result.complete and len(result.done) == 4
        for host in hosts.hosts:
            assert {port for _, port in host.listening()} == {SSH, WORKER}
        assert {port for _, port in namespaces.listening() - before} == {8786}
        keys = list(Path(f"{hosts.folder}/there").rglob("*.key"))
        assert len(keys) == 4 and all(path.stat().st_mode & 0o777 == 0o600 for path in keys)
        assert not list(Path(f"{hosts.folder}/there").rglob("ca.key"))
        for address, port in ((namespaces.HERE, 8786), (hosts.hosts[0].address, WORKER)):
            assert refused(address, port)
    finally:
        ended = fleet_down(inventory, tmp_path)
    assert not any(row.running for row in ended.rows)
    assert fleet_status(inventory, tmp_path).rows == ended.rows


def refused(address: str, port: int) -> bool:
    """Whether a client without a certificate gets no answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((address, port), 5) as plain, context.wrap_socket(plain) as secure:
            secure.sendall(b"x" * 64)
            return secure.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@slow
def test_a_host_that_was_cut_off_comes_back_and_every_run_is_recorded_once(hosts, inventory, tmp_path):
    store = FolderStore(tmp_path / "store")
    campaign = FleetCampaign(plan(repeats=10), Fleet(inventory, tmp_path), store)
    host, states, cut = hosts.hosts[0], [], threading.Event()

    def announce(progress):
        mine = next((one for one in progress.boards if one.name == "nano-1"), None)
        if mine is not None and (not states or states[-1] != mine.state):
            states.append(mine.state)
        if mine is not None and mine.state == "working" and len(progress.done) >= 4 and not cut.is_set():
            cut.set()
            host.cut_off()
            threading.Timer(15.0, host.bring_back).start()

    ended = campaign.carry_out(announce)
    assert ended.complete and not ended.failed and not ended.not_restored
    assert cut.is_set() and "disconnected" in states and states[-1] != "disconnected", states
    assert len({row.run for row in store.runs()}) == len(list(store.runs())) == 20


@slow
def test_the_experiment_of_a_host_that_stays_away_goes_elsewhere_where_the_plan_says_so(hosts, inventory, tmp_path):
    store = FolderStore(tmp_path / "store")
    asked = plan(repeats=6, place=Placement(units=("nano-3", "nano-4"), when_lost="elsewhere", wait_s=3))
    campaign = FleetCampaign(asked, Fleet(inventory, tmp_path), store)
    cut = threading.Event()

    def announce(progress):
        if "nano-3" in progress.now and len(progress.done) >= 2 and not cut.is_set():
            cut.set()
            hosts.hosts[2].cut_off()

    try:
        ended = campaign.carry_out(announce)
    finally:
        hosts.hosts[2].bring_back()
    assert cut.is_set() and ended.complete and list(ended.not_restored) == ["nano-3"]
    entries = campaign.journal.read()
    assert any(entry.kind == "lost" and entry.board == "nano-3" for entry in entries)
    assert len(list(store.runs())) == 12
