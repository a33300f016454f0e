"""By how many percent time, power and energy change per percent of each clock and of cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgetrain.api.boards import ModesSource, board_modes
from edgetrain.api.prediction import predict
from edgetrain.api.profiled import ProfiledSource, read_profiled
from edgetrain.api.records import StoreLike
from edgetrain.errors import UsageError
from edgetrain.prediction import Array, results
from edgetrain.recommendation import Sensitivity, sensitivity_of
from edgetrain.schema import Origin, weakest

NO_STALLS = "fetch stall and compute are not separated: a table has no such columns; a campaign of runs does"
PREDICTED = "intervals are over pairs of modes; the error of the predictions is not included in them"


def sensitivity(
    profiled: ProfiledSource,
    board: str | None = None,
    *,
    modes: ModesSource | None = None,
    predicted: bool = False,
    prior: str = "orin",
    without: Sequence[str] = (),
    level: float = 0.9,
    store: StoreLike = None,
) -> Sensitivity:
    """Return elasticities of the profiled modes, or with `predicted` of all modes of the board, predicted from them."""
    if not 0 < level < 1:
        raise UsageError(f"--level must be between 0 and 1, not {level:g}")
    seen = read_profiled(profiled, store, board)
    if predicted:
        board_modes(board, modes)  # refuses to fall back on the profiled modes
        predictor = predict(profiled, board, modes=modes, prior=prior, without=without, store=store)
        found = predictor.predictions
        quantities = _quantities(found.time_s, found.power_w)
        notes = (NO_STALLS, PREDICTED)
        return sensitivity_of(seen.name, predictor.board, quantities, Origin.PREDICTED, level, notes)
    quantities = _quantities(*results(seen.table))
    if seen.stalls is not None:
        quantities |= {"fetch stall": seen.stalls.fetch_stall_s, "compute": seen.stalls.compute_s}
    origin = weakest(found.origin for found in seen.measurements)
    return sensitivity_of(seen.name, seen.table, quantities, origin, level, () if seen.stalls else (NO_STALLS,))


def _quantities(time_s: Array, power_w: Array) -> dict[str, Array]:
    return {"time": time_s, "power": power_w, "energy": np.asarray(time_s * power_w)}
