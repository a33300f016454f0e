"""Errors carry their facts as typed attributes, also into another process."""

from __future__ import annotations

import pickle

import pytest

from edgetrain import errors
from edgetrain.errors import (
    BadTable,
    ControlRefused,
    DeadlineError,
    EdgetrainError,
    FleetError,
    NeedsRoot,
    ProbeUnavailable,
    StoreError,
    TrialError,
)

EXAMPLES = [
    StoreError("the disk is full", run="20261118-lenet5-0123"),
    BadTable("line 3 has no cores", file="modes.csv", line=3),
    DeadlineError("too slow", devices=("a", "b"), needs_s=(9.0, 7.0)),
    ProbeUnavailable("only root may read it", root_only=("/sys/a",)),
    ControlRefused("it runs at 2 cores", asked="6 cores", found="2 cores", throttled=True),
    NeedsRoot("only root may", command="sudo edgetrain modes restore"),
    TrialError("it ended early", kind="too_short"),
    FleetError("does not answer", host="board-7"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_message_and_facts_in_another_process(error: EdgetrainError) -> None:
    error.run = error.run or "kept"
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)


def test_every_error_can_be_made_of_a_message_alone_and_has_no_record_then() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EdgetrainError)]
    assert len(kinds) > 10
    for kind in kinds:
        error = kind("it failed")
        assert (str(error), error.run, error.status) == ("it failed", None, None)


def test_a_fact_that_was_not_declared_is_refused() -> None:
    with pytest.raises(TypeError):
        ControlRefused("it runs at 2 cores", nosuch=1)
    with pytest.raises(AttributeError):
        StoreError("the disk is full").nosuch  # noqa: B018
