"""A seeded sample of the mutations that `make torture` makes a thousand of."""

from tests.torture import mutations


def test_mutated_plans_options_manifests_and_tables_meet_a_clear_answer() -> None:
    assert "no traceback" in mutations.run(32, seed=15)
