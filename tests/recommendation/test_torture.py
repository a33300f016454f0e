from tests.torture import choosing


def test_random_boards_wrong_predictions_and_odd_limits_never_return_a_mode_seen_over_a_limit():
    assert "none of them over a limit" in choosing.run(150, seed=1)
