"""The benchmark of `tune` counts what happened in all its sessions."""

import pytest

from benchmarks.tune import Kept, Script, count_oom
from edgetrain.errors import WorkloadError

LISTED = {"scripts": {"ram_limited": {}}, "oom": {"trials": 4, "starts": [0, 1]}, "most_trials": 11}


class Session:
    """A memory group whose kills are counted from zero, and searches of two trials each."""

    def __init__(self, kills: list[int]) -> None:
        self._kills, self._so_far = kills, 0

    def so_far(self) -> int:
        return self._so_far

    def search(self, script: Script, workers: int, trials: int) -> tuple:
        if not self._kills:
            raise KeyboardInterrupt
        self._so_far += self._kills.pop(0)
        raise WorkloadError("the script fails as it is")


def test_kills_of_a_session_that_was_interrupted_are_counted_when_another_goes_on(tmp_path):
    kept = Kept(tmp_path / "results.json")
    first, second = Session([1, 0]), Session([0, 2])
    with pytest.raises(KeyboardInterrupt):
        count_oom(LISTED, tmp_path, kept, first.so_far, first.search)
    found = count_oom(LISTED, tmp_path, Kept(tmp_path / "results.json"), second.so_far, second.search)
    assert found == {"trials": 4, "refused": 0, "kills": 3}
