"""The 24 take-aways in the paper's order."""

from __future__ import annotations

from edgetrain.studies.sigmetrics import batches, caching, pipelining, power_modes, variability

TAKE_AWAYS = tuple(
    sorted(
        (*caching.CLAIMS, *pipelining.CLAIMS, *batches.CLAIMS, *variability.CLAIMS, *power_modes.CLAIMS),
        key=lambda claim: int(claim.letter),
    )
)
