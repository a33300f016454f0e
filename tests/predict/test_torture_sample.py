from tests.torture.predict import run_networks, run_tables


def test_networks_that_never_existed_are_predicted_without_a_fault():
    run_networks(12, 0)


def test_damaged_tables_are_read_or_refused_by_name():
    run_tables(300, 0)
