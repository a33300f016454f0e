"""Versions of Flower that never connect are named beforehand, with what to install."""

from pathlib import Path

import pytest

from edgetrain.errors import UsageError
from edgetrain.federated import FlowerInstall, LocalFederation, version_problem


@pytest.mark.parametrize(
    "link, node", [("1.30.0", "1.30.0"), ("1.41.0", "1.41.0"), ("1.39.0", "1.30.0"), ("1.40.0", "1.41.0")]
)
def test_versions_of_one_transport_fit(link, node):
    assert version_problem(link, node) is None


@pytest.mark.parametrize("link, node", [("1.41.0", "1.30.0"), ("1.40.0", "1.39.0"), ("1.30.0", "1.41.0")])
def test_versions_of_two_transports_are_named(link, node):
    text = version_problem(link, node, "nano-3")
    assert "nano-3" in text and link in text and node in text and "never connect" in text


def test_an_old_flower_and_a_missing_one_are_named():
    assert "nano-3 has Flower 1.20.0; the oldest that was tried is 1.30" in version_problem(
        "1.30.0", "1.20.0", "nano-3"
    )
    assert "nano-3 has no Flower" in version_problem("1.30.0", None, "nano-3")


def test_a_local_federation_of_two_transports_is_refused_before_anything_starts(tmp_path):
    new, old = FlowerInstall(Path("/a/bin"), "1.41.0"), FlowerInstall(Path("/b/bin"), "1.30.0")
    with pytest.raises(UsageError, match="never connect"):
        LocalFederation(new, tmp_path, {}, node_install=old)


def test_an_environment_without_flower_is_named(tmp_path):
    with pytest.raises(UsageError, match="there is no Flower in"):
        FlowerInstall.find(tmp_path / "bin")
