"""Requests, identities and reports survive Flower's flat records; what is not known is left out, never a number."""

import pytest

from edgetrain.errors import EdgetrainError
from edgetrain.federated import BoardIdentity, TrainingReport, TrainingRequest
from edgetrain.schema import Origin, PowerMode

MODE = PowerMode(4, 921_600_000, 614_400_000, 1_600_000_000)
IDENTITY = BoardIdentity("nano-3", "sim:nano?unit=3", "nano", "1.0", "1.30.0")


@pytest.mark.parametrize("mode", [MODE, PowerMode(2, 10**9), PowerMode(2, 10**9, None, 5), None])
@pytest.mark.parametrize("minibatches", [None, 0, 40])
def test_a_request_is_read_as_it_was_written(mode, minibatches):
    request = TrainingRequest(mode, minibatches)
    assert TrainingRequest.read(request.values()) == request


def test_an_empty_record_asks_for_nothing():
    assert TrainingRequest.read({}) == TrainingRequest(None, None)


def test_half_a_mode_is_refused_by_name():
    with pytest.raises(EdgetrainError, match="without its CPU clock"):
        TrainingRequest.read({"mode-cores": 4})


@pytest.mark.parametrize("joules", [None, 0.0, 12.5])
def test_a_report_is_read_as_it_was_written(joules):
    report = TrainingReport(IDENTITY, 12.5, 1.5, joules, joules, MODE, Origin.SIMULATED, "run-1", ("throttled: hot",))
    assert TrainingReport.read(report.metrics(), report.facts()) == report


def test_energy_that_is_not_known_is_left_out_of_the_metrics():
    assert set(TrainingReport(IDENTITY, 12.5).metrics()) == {"training-s", "setup-s"}


def test_an_identity_is_read_as_it_was_written_and_needs_a_unit():
    assert BoardIdentity.read(IDENTITY.values()) == IDENTITY
    with pytest.raises(EdgetrainError, match="did not report its unit"):
        BoardIdentity.read({"board": "nano"})


def test_a_report_without_time_is_refused():
    with pytest.raises(EdgetrainError, match="no training time"):
        TrainingReport.read({}, IDENTITY.values())
