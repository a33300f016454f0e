"""A seeded sample of what `make torture` does to records."""

from tests.torture import record as torture


def test_damaged_records_open_and_say_what_they_lost():
    assert "every record opened" in torture.run(40, seed=7)
