"""How far one measured row scatters around the physics: little where the accelerator rules, much where the loader does.

Minibatches that wait for the loader are bimodal (some find their batch ready, some wait), so their median over a few
dozen jumps. In the published tables the scatter of time is 1.4 % where the loader hides and 6 to 8 % where it rules;
power scatters less than twice as much there. Weighing rows so keeps the fit and the choice of modes from leaning on
the least certain corner of the board.
"""

from __future__ import annotations

import numpy as np

from edgetrain.predict.base import Array
from edgetrain.predict.modes.physics import Features, log_time

_SOON = 0.25  # share of the loader at which most of the extra scatter is there
_TIME = {4: 4.0, 2: 1.0}  # extra scatter of time where the loader (term 4) or the host (term 2) rules
_RISK = 4.0  # extra distrust of a mode that the loader rules at the top GPU clock
_POWER = {4: 0.7, 2: 0.4}


def shares(theta: Array, f: Features) -> Array:
    """Return what share of the time each term rules, averaged over the ensemble: modes x terms."""
    _, slope = log_time(theta, f, True)
    assert slope is not None
    return np.asarray(slope[..., :5].mean(axis=0))


def time_factor(share: Array) -> Array:
    """Return the scatter of time relative to a mode where the accelerator rules."""
    return _factor(share, _TIME)


def power_factor(share: Array) -> Array:
    """Return the scatter of power relative to a mode where the accelerator rules."""
    return _factor(share, _POWER)


def risk_factor(share: Array, f: Features) -> Array:
    """Return by how much less a mode is trusted before it is measured.

    The published tables are wrong most often (by up to a factor of eight) at the top GPU clock when the loader rules:
    14 of their 17 suspect times are at that clock. A plan that leans on such a mode learns a falsehood, so it must be
    worth much more.
    """
    at_top = f.gpu > -0.02
    return 1.0 + _RISK * at_top * (1.0 - np.exp(-share[:, 4] / _SOON))


def _factor(share: Array, extra: dict[int, float]) -> Array:
    out: Array = np.ones(len(share))
    for term, size in extra.items():
        out = out + size * (1.0 - np.exp(-share[:, term] / _SOON))
    return out
