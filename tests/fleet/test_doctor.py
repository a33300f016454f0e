"""`fleet doctor` names versions that differ, clocks that are off, full disks, missing rights and old certificates."""

import datetime
import time
from dataclasses import replace

import pytest

from edgetrain.fleet import Fleet, FleetBoard, check_fleet, fleet_status, local_inventory
from edgetrain.fleet.agent import HostFacts
from edgetrain.fleet.certificates import tls_files
from edgetrain.fleet.doctor import judge, problems_here, version_problems
from edgetrain.fleet.hosts import TimedFacts
from edgetrain.flower_versions import mixed_transports

HERE = {"edgetrain": "0.1.0", "dask": "2026.8.0", "distributed": "2026.8.0", "cryptography": "42.0", "flwr": None}
BOARD = FleetBoard("far", "nano", "auto", "10.0.0.2", "ubuntu")


def facts(**more):
    at = more.pop("at", 1000.0)
    known = {
        "began_at": at, "ended_at": at + 0.2, "user": "ubuntu", "python": "3.10.12", "versions": HERE,
        "free_bytes": 8 << 30, "writable": True, "modes": None, "device": "nano", "device_problem": None, "mounts": {},
        "processes": None,
    }  # fmt: skip
    return TimedFacts(HostFacts(**{**known, **more}), 1000.0 - 0.5, 1000.2 + 0.1)


def test_a_fit_board_has_no_problem_and_its_clock_has_an_uncertainty():
    found = judge(BOARD, facts(), HERE)
    assert (
        found.problems == ()
        and found.clock_ahead_s == pytest.approx(0.2)
        and found.clock_plus_minus_s == pytest.approx(0.3)
    )


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"at": 1010.0}, "10.2 s ahead"),
        ({"at": 900.0}, "behind"),
        ({"free_bytes": 100 << 20}, "100 MiB"),
        ({"writable": False}, "may not write"),
        ({"modes": "this user may not write /sys/x"}, "power modes"),
        ({"device_problem": "no rails"}, "no rails"),
        ({"mounts": {"ssd": "/mnt/ssd is not a folder there"}}, "storage ssd"),
        ({"versions": {**HERE, "edgetrain": "0.0.9"}}, "edgetrain 0.0.9 there"),
        ({"versions": {**HERE, "distributed": None}}, "not installed"),
    ],
)
def test_what_is_wrong_with_a_board_is_named(more, word):
    assert any(word in text for text in judge(BOARD, facts(**more), HERE).problems)


def test_a_flower_that_cannot_reach_the_other_is_named_with_what_to_install_where():
    (text,) = version_problems({**HERE, "flwr": "1.30.0"}, {**HERE, "flwr": "1.41.0"}, "far")
    assert "far has Flower 1.30.0" in text and "use a SuperLink of 1.30 to 1.39" in text
    (text,) = version_problems({**HERE, "flwr": "1.41.0"}, {**HERE, "flwr": "1.39.0"}, "far")
    assert "use a SuperLink of 1.40 or later" in text
    assert not version_problems({**HERE, "flwr": "1.30.0"}, {**HERE, "flwr": "1.39.0"})
    assert not version_problems({**HERE, "flwr": "1.30.0"}, HERE)


def test_boards_that_no_superlink_can_serve_together_are_named_though_this_machine_has_no_flower(tmp_path):
    old, new = (judge(BOARD, facts(versions={**HERE, "flwr": one}), HERE) for one in ("1.30.0", "1.41.0"))
    fleet = Fleet(local_inventory(), tmp_path)
    assert problems_here(fleet, HERE, (old, replace(new, name="new"))) == [
        mixed_transports({"far": "1.30.0", "new": "1.41.0"})
    ]
    assert problems_here(fleet, HERE, (old, old)) == []


def test_what_is_wrong_with_this_machine_is_named(tmp_path):
    pytest.importorskip("cryptography")
    now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=360)
    fleet = Fleet(replace(local_inventory(), listen="192.0.2.1"), tmp_path)
    files = tls_files(fleet.home / "tls", "scheduler", "192.0.2.1", lambda: now)
    files.key.chmod(0o644)
    found = problems_here(fleet, {**HERE, "distributed": None}, ())
    for word in (
        "distributed not installed here",
        "name an address that this machine has",
        "scheduler.key has the permissions 0644",
        "ca.pem ends in 5 days",
        "scheduler.pem ends in 5 days",
    ):
        assert any(word in text for text in found), (word, found)
    assert len(found) == 5


def test_a_certificate_that_has_expired_is_named(tmp_path):
    pytest.importorskip("cryptography")
    now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=400)
    files = tls_files(tmp_path, "far", "10.0.0.2", lambda: now)
    found = judge(BOARD, facts(certificate=files.cert.read_text()), HERE)
    assert any("has expired" in text for text in found.problems) and found.certificate_days < 0
    with pytest.raises(Exception, match="has expired"):
        tls_files(tmp_path, "far", "10.0.0.2")


def test_boards_of_this_machine_are_fit_and_nothing_runs(tmp_path):
    fleet = Fleet(local_inventory(), tmp_path)
    began_s = time.monotonic()
    found = check_fleet(fleet)
    assert [check.name for check in found.checks] == [one.name for one in fleet.inventory.boards]
    assert all(check.running is False and check.device.startswith("sim:") for check in found.checks)
    assert not any(row.running for row in fleet_status(fleet).rows) and time.monotonic() - began_s < 5
    assert not fleet.home.exists()
