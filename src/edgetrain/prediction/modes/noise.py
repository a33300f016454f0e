"""How far one measured mode scatters around the physical model, depending on which term dominates its time.

Minibatches that wait for the loader are bimodal (some find their batch ready, some wait), so their median over a few
dozen minibatches is unstable. In the published tables the scatter of time is 1.4 % where the accelerator dominates and
6 to 8 % where the loader does; power scatters less than twice as much there. Weighting rows by this keeps the fit and
the choice of modes from relying on the least certain modes.
"""

from __future__ import annotations

import numpy as np

from edgetrain.prediction.base import Array
from edgetrain.prediction.modes.physics import Features, log_time

_ONSET = 0.25  # share of the loader in the time at which most of the extra scatter is present
_TIME = {4: 4.0, 2: 1.0}  # extra scatter of time where the loader (term 4) or the host (term 2) dominates
_RISK = 4.0  # extra scatter assumed for a loader-bound mode at the top GPU clock
_POWER = {4: 0.7, 2: 0.4}


def shares(theta: Array, f: Features) -> Array:
    """Return the share of each term in the time, averaged over the ensemble: modes x terms."""
    _, slope = log_time(theta, f, True)
    assert slope is not None
    return np.asarray(slope[..., :5].mean(axis=0))


def time_factor(share: Array) -> Array:
    """Return the scatter of time relative to a mode where the accelerator dominates."""
    return _factor(share, _TIME)


def power_factor(share: Array) -> Array:
    """Return the scatter of power relative to a mode where the accelerator dominates."""
    return _factor(share, _POWER)


def risk_factor(share: Array, f: Features) -> Array:
    """Return the factor on the expected scatter of a mode before it is measured.

    The published tables are wrong most often (by up to a factor of eight) at the top GPU clock of loader-bound modes:
    14 of their 17 suspect times are at that clock. A plan that relies on such a mode can be misled, so it is chosen
    only where it promises much more information than others.
    """
    at_top = f.gpu > -0.02
    return 1.0 + _RISK * at_top * (1.0 - np.exp(-share[:, 4] / _ONSET))


def _factor(share: Array, extra: dict[int, float]) -> Array:
    out: Array = np.ones(len(share))
    for term, size in extra.items():
        out = out + size * (1.0 - np.exp(-share[:, term] / _ONSET))
    return out
