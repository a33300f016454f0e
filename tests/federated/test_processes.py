"""Flower's processes listen on loopback unless a board must reach them, and call nobody outside."""

from pathlib import Path

import pytest

from edgetrain.errors import UsageError
from edgetrain.federated import FlowerInstall, flower_environment
from edgetrain.federated.processes import spell_config

OLD, MIDDLE, NEW = (FlowerInstall(Path("/venv/bin"), version) for version in ("1.30.0", "1.39.0", "1.41.0"))


def test_telemetry_and_update_check_are_off_and_the_programs_are_found(tmp_path):
    env = flower_environment(tmp_path, Path("/venv/bin"), {"PATH": "/usr/bin", "FLWR_TELEMETRY_ENABLED": "1"})
    assert env["FLWR_TELEMETRY_ENABLED"] == "0"
    assert env["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert env["PATH"].split(":")[0] == "/venv/bin"
    assert env["FLWR_HOME"] == str(tmp_path)


@pytest.mark.parametrize("install", [OLD, MIDDLE, NEW], ids=lambda each: each.version)
def test_every_address_of_a_superlink_is_loopback_unless_asked_for(install):
    words = " ".join(install.superlink(9000))
    assert "0.0.0.0" not in words and words.count("127.0.0.1") == (1 if install is NEW else 3)


def test_only_the_address_that_boards_use_is_opened():
    command = OLD.superlink(9000, host="10.0.0.1")
    assert [word for word in command if ":" in word] == ["10.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002"]


def test_an_apps_dependencies_are_never_installed_over_the_network():
    option = "--disable-runtime-dependency-installation"
    assert option in NEW.superlink(9000) and option in MIDDLE.superlink(9000)
    assert option not in OLD.superlink(9000)  # 1.30 has no such option and installs nothing


def test_a_supernode_gets_its_node_config_as_flower_reads_it():
    assert (
        OLD.supernode("127.0.0.1:9000", 9010, {"unit": "nano-3", "minibatches": 3})[-1] == 'unit="nano-3" minibatches=3'
    )
    assert "--clientappio-api-address" in OLD.supernode("a:1", 2, {}) and "--host" in NEW.supernode("a:1", 2, {})


def test_a_config_that_would_break_out_of_its_quotes_is_refused():
    with pytest.raises(UsageError, match="cannot hold quotes"):
        spell_config({"unit": 'a" device="b'})


def test_a_version_that_was_never_tried_is_refused():
    with pytest.raises(UsageError, match="never tried"):
        FlowerInstall(Path("/venv/bin"), "1.20.0").superlink(9000)
