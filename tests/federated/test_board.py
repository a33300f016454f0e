"""A board holds the mode asked for while it trains, reports seconds and joules, and is as before afterwards."""

import os
import signal
import time
from pathlib import Path

import pytest

from edgetrain.device import open_device
from edgetrain.federated import NodeSettings, TrainingRequest, train_on_board
from edgetrain.record import FolderStore
from edgetrain.schema import Origin, PowerMode

NETWORK = "resnet18_cifar_gn"


@pytest.fixture
def node(tmp_path):
    return NodeSettings("nano-7", f"sim:nano@{tmp_path / 'board'}?unit=7", str(tmp_path / "store"), NETWORK)


def mode_of(node, text="4/921.6/614.4/1600"):
    return open_device(node.device).modes().find_mode(text)


def test_the_mode_is_held_during_the_training_and_gone_afterwards(node):
    asked, before = mode_of(node), open_device(node.device).control().read()
    seen = []
    trained = train_on_board(
        node, 5, TrainingRequest(asked, 3), lambda: seen.append(open_device(node.device).control().read())
    )
    assert seen == [asked] and before != asked
    assert open_device(node.device).control().read() == before
    assert open_device(node.device).control().held() is None
    report = trained.report
    assert report.mode == asked and report.identity.unit == "nano-7" and report.identity.board == "nano"
    assert report.origin is Origin.SIMULATED


def test_a_simulated_board_takes_its_models_time_and_energy(node):
    report = train_on_board(node, 5, TrainingRequest(mode_of(node), 6), lambda: time.sleep(0.1)).report
    # Unit 7 takes 0.937 of the 0.4 s per minibatch of its kind in this mode, at about 7.4 W.
    assert report.training_s == pytest.approx(6 * 0.375, rel=0.06)
    assert report.joules == pytest.approx(7.35 * report.training_s, rel=0.1)
    assert 0 < report.setup_s < 10
    run = FolderStore(Path(node.store)).open(report.run)
    assert run.manifest.state == "finished" and run.manifest.origin is Origin.SIMULATED


def test_a_mode_that_the_board_does_not_have_is_reported_and_the_training_goes_on(node):
    trained = train_on_board(node, 5, TrainingRequest(PowerMode(3, 123_456_789), 2), lambda: "weights")
    assert trained.result == "weights"
    assert trained.report.mode is None
    assert any(text.startswith("the mode was not held: this board has no mode with") for text in trained.report.doubts)


def test_an_error_of_the_training_is_raised_once_and_the_board_is_as_before(node):
    before, calls = open_device(node.device).control().read(), []

    def fail():
        calls.append(1)
        raise RuntimeError("the loss is not a number")

    with pytest.raises(RuntimeError, match="not a number"):
        train_on_board(node, 5, TrainingRequest(mode_of(node), 2), fail)
    assert calls == [1]
    assert open_device(node.device).control().read() == before
    last = FolderStore(Path(node.store)).open("last")
    assert last.manifest.state == "failed" and "the loss is not a number" in last.manifest.reason


def test_a_client_that_is_killed_leaves_a_board_that_is_put_back_by_the_next_run(node):
    control = open_device(node.device).control()
    before, asked = control.read(), mode_of(node)
    child = os.fork()
    if child == 0:
        train_on_board(node, 5, TrainingRequest(asked, 2), lambda: time.sleep(60))
        os._exit(0)
    until_s = time.monotonic() + 20
    while control.read() != asked and time.monotonic() < until_s:
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert open_device(node.device).control().read() == asked
    train_on_board(node, 5, TrainingRequest(None, 2), lambda: None)
    assert open_device(node.device).control().read() == before


def test_a_store_that_cannot_be_written_does_not_end_the_round(node, tmp_path):
    (tmp_path / "file").write_text("")
    broken = NodeSettings(node.unit, node.device, str(tmp_path / "file"), node.network)
    trained = train_on_board(broken, 5, TrainingRequest(None, None), lambda: "weights")
    assert trained.result == "weights" and trained.report.joules is None
    assert any(text.startswith("not recorded: ") for text in trained.report.doubts)


def test_node_config_is_read_and_other_keys_are_the_users():
    found = NodeSettings.read({"unit": "nano-3", "device": "sim:nano", "partition-id": 4})
    assert found == NodeSettings("nano-3", "sim:nano")


def test_a_board_without_a_name_is_known_by_its_serial_number(tmp_path):
    device = f"sim:nano@{tmp_path / 'board'}"
    assert NodeSettings(device=device).identity(5).unit == open_device(device).spec.serial
