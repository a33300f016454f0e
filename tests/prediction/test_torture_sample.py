from tests.torture.predict import run


def test_networks_that_never_existed_are_predicted_and_damaged_tables_read_or_refused():
    run(10, 0)
